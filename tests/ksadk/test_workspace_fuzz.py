"""The ten tools under hostile arguments in a hostile tree: always a result, and nothing outside changes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ksadk.errors import CODES
from ksadk.runtime_context import workspace_root_scope
from ksadk.tools.gateway import ToolGateway
from ksadk.tools.registry import Tool, find
from ksadk.toolsets import workspace

NAMES = [name for name in workspace.__all__ if name.endswith(("_file", "_files", "_status"))]

CONTENTS: dict[str, bytes] = {
    "f": b"one\ntwo\n", "d/x.py": b"import os\n", "d/e/deep.json": b'{"a": [1, 2}', "crlf": b"a\r\nb\n",
    "binary": bytes(range(256)), "gbk": "中文".encode("gbk"), "utf16": b"\xff\xfex\0\n\0", "empty": b"",
    "-dash": b"-x\n", "a:1:b": b"needle\n", "new\nline": b"needle\n", "*": b"star\n", "é": b"\xc3\xa9\n",
    ".gitignore": b"[\n!\n**/\n", ".git/config": b"[core]\n", ".f.agentengine-swap": b"left\n",
    "long": b"x" * 60_000, "nested.json": b"[" * 5_000, "nested.py": b"(" * 500,
}  # fmt: skip


@contextmanager
def hostile_tree(base: Path) -> Iterator[Path]:
    """A root full of traps, beside a directory that must stay as it is; made anew each time."""
    root, outside = base / "root", base / "outside"
    for directory in (root / "d/e", root / ".git", outside):
        directory.mkdir(parents=True)
    (outside / "secret").write_bytes(b"SECRET\n")
    for name, content in CONTENTS.items():
        (root / name).write_bytes(content)
    (root / os.fsdecode(b"caf\xe9")).write_bytes(b"latin needle\n")
    (root / "/".join(["n" * 40] * 9)).mkdir(parents=True)
    for name, target in {
        "link": "f", "dangling": "nowhere", "loop": "loop", "up": "..", "out": "../outside",
        "leak": "../outside/secret", "self": ".", "device": "/dev/zero",
    }.items():  # fmt: skip
        (root / name).symlink_to(target)
    os.mkfifo(root / "fifo")
    here = Path.cwd()
    os.chdir(root)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")  # a path that is short enough
    os.chdir(here)
    (root / "hard").hardlink_to(root / "crlf")
    (root / "readonly").write_bytes(b"one\n")
    (root / "readonly").chmod(0o444)
    (root / "closed").mkdir(mode=0o000)
    try:
        yield root
        assert [path.name for path in sorted(base.iterdir())] == ["outside", "root"]
        assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"secret": b"SECRET\n"}
    finally:
        if (root / "closed").is_dir():
            (root / "closed").chmod(0o700)
        shutil.rmtree(base)


PATHS = st.sampled_from([
    *CONTENTS, "link", "dangling", "loop", "up/outside/secret", "out", "out/secret", "leak", "self/self/f",
    "device", "fifo", "socket", "hard", "readonly", "closed", "closed/x", "d", "d/e", ".", "..", "/", "",
    "/f", "\\f", "f/x", "F", ".GIT/config", ".agentengine/x", "AgentEngine.yaml", "../outside/secret",
    "/etc/passwd", "d/../../x", "new", "made/new", "fifo/x", "loop/x", "a\0b", "x" * 256, "y/" * 3_000,
    "\ud800",
])  # fmt: skip
READ = ["f", "crlf", "hard", "readonly"]
TEXTS = st.sampled_from(
    ["one", "\n", "", " ", "\ud800", "\0", "\ufeff", "“one”", "中文", "x" * 70_000]
) | st.text(max_size=6)
QUERIES = st.sampled_from([
    "needle", "(a+)+$", "[", "(", "a{", "\\pL", "x(?i)y", "[[:alpha:]]", "\\1", "--pre=sh", "-e", "", "\n",
    "\0", "\ud800", "a{1,99999}", "(" * 200, "one|two", "^", "$", ".*", "\\", "é", "x{1000}{1000}",
])  # fmt: skip
GLOBS = st.sampled_from(
    ["*", "**", "**/*", "[", "{a,b", "!f", "/f", "../*", "", "\0", "\ud800", "*" * 500, "a" * 5_000]
)
ANYTHING = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**30), 10**30),
        st.floats(),
        st.binary(max_size=4),
        TEXTS,
        PATHS,
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NUMBERS = st.one_of(
    st.integers(-3, 30), st.sampled_from([10**6, 2**63, 10**100, -(10**100)]), st.none(), st.booleans()
)
FLAGS = st.booleans()


def items(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A list of objects with some of the fields, and now and then something else in it."""
    one = st.fixed_dictionaries({}, optional={name: fields[name] | ANYTHING for name in fields})
    return st.lists(st.fixed_dictionaries(fields) | one | ANYTHING, max_size=3)


BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "path": PATHS, "content": TEXTS, "old_text": TEXTS, "new_text": TEXTS, "query": QUERIES,
    "glob": GLOBS | st.none(), "language": st.sampled_from(["auto", "python", "json", "text", "c"]),
    "sort_by": st.sampled_from(["name", "mtime", "size", "x"]),
    "encoding": st.sampled_from([None, "utf-8", "gbk", "latin-1", "utf-16", "rot13", "x\0", "\ud800"]),
    "files": items(path=PATHS, content=TEXTS), "edits": items(old_text=TEXTS, new_text=TEXTS),
}  # fmt: skip
GOOD: dict[str, Any] = {
    "path": "f", "content": "x", "old_text": "one", "new_text": "1", "query": "needle",
    "files": [{"path": "f", "content": "x"}], "edits": [{"old_text": "one", "new_text": "1"}],
}  # fmt: skip
BY_TYPE = {"bool": FLAGS, "int": NUMBERS, "int | None": NUMBERS}


@st.composite
def calls(draw: st.DrawFn, tool: Tool) -> dict[str, Any]:
    """Arguments: good ones, ones of the right kind, of no kind at all, missing, or not asked for."""
    arguments: dict[str, Any] = {}
    for name, parameter in tool.parameters.signature.parameters.items():
        fitting = BY_NAME.get(name, BY_TYPE.get(str(parameter.annotation), ANYTHING))
        kind = draw(st.integers(0, 9))
        if kind < 5 and parameter.default is parameter.empty:
            arguments[name] = GOOD[name]
        elif 5 <= kind < 8:
            arguments[name] = draw(fitting)
        elif kind == 8:
            arguments[name] = draw(ANYTHING)
    if draw(st.integers(0, 19)) == 0:
        arguments[draw(st.sampled_from(["approval", "x", "self", "\ud800"]))] = draw(ANYTHING)
    return arguments


def fuzz(tool: Tool, base: Path, examples: int) -> set[str]:
    """Call a tool with hostile arguments; the codes that it answered. Raises what is wrong with an answer."""
    gateway = ToolGateway(approval_mode="off")
    answered: set[str] = set()

    @settings(
        max_examples=examples, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(arguments=calls(tool))
    def run(arguments: dict[str, Any]) -> None:
        with hostile_tree(base) as root, workspace_root_scope(root):
            for name in READ:
                gateway.call(find("read_workspace_file"), (), {"path": name})
            result = gateway.call(tool, (), arguments)
        assert isinstance(result, dict)
        assert type(result["ok"]) is bool
        assert "SECRET" not in json.dumps(result)
        if result["ok"]:
            answered.add("ok")
        elif tool.name != "lint_workspace_file" or "issues" not in result:
            assert result["error_type"] in CODES
            assert isinstance(result["error_message"], str)
            assert result["error_message"]
            answered.add(result["error_type"])

    run()
    return answered


@pytest.fixture
def base() -> Iterator[Path]:
    """Where trees can be made and thrown away quickly, if there is such a place."""
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=fast) as name:
        yield Path(name).resolve() / "base"


@pytest.mark.parametrize("name", NAMES)
def test_hostile_arguments_in_a_hostile_tree_give_a_result(name: str, base: Path) -> None:
    answered = fuzz(find(name), base, 25 if name == "search_workspace_files" else 100)
    assert "ok" in answered, "some of the calls can be answered"
    assert "invalid_arguments" in answered, "and some are no calls at all"


@pytest.mark.parametrize("fault", ["raises", "writes outside", "leaks"])
def test_the_fuzzer_finds_a_tool_that_is_bad(fault: str, base: Path) -> None:
    def bad(path: str, content: str = "") -> dict[str, Any]:
        """A tool that is bad unless it is asked about the plainest file."""
        leak = workspace.workspace_root() / "leak"
        if path != GOOD["path"]:
            if fault == "raises":
                raise UnicodeError("a bug")
            if fault == "writes outside":
                leak.write_text("x")
            return {"ok": True, "content": leak.read_text()}
        return {"ok": True}

    tool = replace(find("write_workspace_file"), func=bad, plan=None)
    with pytest.raises((UnicodeError, AssertionError)):
        fuzz(tool, base, 100)
