"""Globs, and ignore files as git reads them."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ksadk.workspace.globs import Glob
from ksadk.workspace.ignores import RuleFile
from ksadk.workspace.paths import WorkspaceError


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/sub/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("/src/*.py", "src/a.py", True),
        ("./src/*.py", "src/a.py", True),
        ("**/test_*", "a/b/test_x", True),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("A.txt", "a.txt", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        (".*", ".env", True),
        ("*", ".env", True),
        ("*.{ts,tsx}", "src/a.tsx", True),
        ("*.{ts,tsx}", "src/a.t", False),
        ("{src,lib}/**/*.{js,ts}", "lib/x/a.js", True),
        ("{src/{a,b},lib}/*.c", "src/b/x.c", True),
        ("a{,b}.c", "a.c", True),
        ("{id}.py", "{id}.py", True),
        ("{a,b.py", "{a,b.py", True),
    ],
)
def test_a_glob_fits_names_and_paths(pattern: str, path: str, fits: bool) -> None:
    assert Glob(pattern).matches(path) is fits


def test_no_pattern_takes_long(tmp_path: Path) -> None:
    name = "a" * 250
    started = time.process_time()
    assert not Glob("*a" * 100 + "b").matches(name)
    assert not Glob("/".join(["**", "a"] * 50) + "/b").matches("/".join(["a"] * 200))
    assert not Glob("{a,b}" * 6 + "{" + "," * 900).matches(name)
    with pytest.raises(WorkspaceError, match="at most 100 patterns"):
        Glob("{a,b}" * 190)
    rules = RuleFile.read(b"*a" * 100 + b"b\n" + b"**/a/" * 50 + b"b\n" + b"{*a,*a}" * 500 + b"b\n")
    assert rules is not None
    assert rules.verdict(b"/".join([b"a" * 20] * 200), False, lambda: None) is None
    assert time.process_time() - started < 1


PATHS = ["a", "b.txt", "d/a", "d/b.txt", "d/e/a", "d/e/b.txt", "d/e/f/c.log", "x y", "#a", "!b", "[c]"]
LINES = st.lists(
    st.sampled_from(
        [
            "a", "*.txt", "/a", "d/", "/d/e", "d/*", "d/**", "**/a", "d/**/a", "e/", "!a", "!*.txt", "!d/e/",
            "# comment", "", "\\#a", "\\!b", "[ab]", "[!a]", "[^a]", "\\[c\\]", "x y", "x y  ", "*", "?",
            "f/c.log", "d/e/f", "!/d", "**", "**/", "/", "*.l?g", "a/", "d/*/",
        ]
    ),
    max_size=5,
)  # fmt: skip


def _ignored(rules: RuleFile, path: bytes) -> bool:
    names = path.split(b"/")
    heads = [b"/".join(names[:depth]) for depth in range(1, len(names) + 1)]
    return any(rules.verdict(head, head != path, lambda: None) for head in heads)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES)
def test_ignore_files_are_read_as_git_reads_them(tmp_path: Path, lines: list[str]) -> None:
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    if not (tmp_path / ".git").exists():
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("".join(line + "\n" for line in lines))
    said = subprocess.run(
        ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "--stdin", "-z"],
        input="\0".join(PATHS), capture_output=True, text=True, check=False,
    )  # fmt: skip
    rules = RuleFile.read((tmp_path / ".gitignore").read_bytes())
    assert [path for path in PATHS if rules and _ignored(rules, path.encode())] == [
        path for path in said.stdout.split("\0") if path
    ]
