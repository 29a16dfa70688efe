"""A search of any tree, with any arguments, gives the same answer with ripgrep and without it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st
from search_engines import PYTHON, RIPGREP, needs_ripgrep

from ksadk.workspace.directories import Names
from ksadk.workspace.engines import Engine, Wanted
from ksadk.workspace.paths import WorkspaceError
from ksadk.workspace.searching import Query, search

Tree = Mapping[bytes, bytes | None]
"""What is in a tree by path: bytes of a file, or None for a link to `d/f`."""

NAMES = [
    b"a", b"b.txt", b"B.TXT", b"c.py", b".hidden", b"-x", b"--files", b"a:1:b", b"new\nline", b"caf\xe9",
    "é.txt".encode(), b"a b", b"[c]", b"{d}", b"!e", b"#f", b"C:\\x", b".git", b".agentengine",
    b".AgentEngine", b"a-", b"a.", b"f", b"node_modules",
]  # fmt: skip
DIRECTORIES = [b"", b"d/", b"d/e/", b"d/e/f/", b".config/", b"a-/", b"a./", b"d\xff/", b"sub:1/", b".git/x/"]
PIECES = [
    b"needle", b"NEEDLE", b"Need", b"le", "né".encode(), "É".encode(), b"\xe9", b"a", b"b", b" ", b"1", b"_",
    b"\n", b"\r\n", b"\r", b"\x0c", "\u2028".encode(), b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join)
CONTENTS = st.one_of(
    TEXTS,
    TEXTS,
    TEXTS.map(lambda text: b"\xef\xbb\xbf" + text),
    TEXTS.map(lambda text: text + b"\0" + text),
    TEXTS.map(lambda text: text.decode("utf-8", "replace").encode("utf-16")),
    TEXTS.map(lambda text: b"\xfe\xff" + text),
    st.tuples(TEXTS, TEXTS).map(lambda two: two[0] + "é".encode() * 700 + two[1]),
    TEXTS.map(lambda text: text + b"x\n" * 550_000 + b"needle"),
)
RULES = st.lists(
    st.lists(
        st.sampled_from(
            [
                "a", "b.txt", "*", "**", "?", "/", "\\", "[", "]", "!", "^", "-", "{", "}", ",", "é", "*.txt",
                "d", "e", " ", "#", "\t", "[a-z]", "[!a]", "{a,*.py}", "/**", "**/", "a/", "!*.txt", "\r",
                ".*", "d/e", "node_modules", "\ufeff", "\udcff",
            ]
        ),
        min_size=1,
        max_size=4,
    ).map("".join),
    min_size=1,
    max_size=4,
).map(lambda lines: "\n".join(lines).encode("utf-8", "surrogateescape"))  # fmt: skip
PLACES = st.tuples(st.sampled_from(DIRECTORIES), st.sampled_from(NAMES)).map(b"".join)
IGNORES = st.tuples(
    st.sampled_from(DIRECTORIES), st.sampled_from([b".gitignore", b".gitignore", b".ignore", b".rgignore"])
).map(b"".join)
TREES = st.builds(
    lambda files, links, ignores: {**files, **dict.fromkeys(links), **ignores},
    st.dictionaries(PLACES, CONTENTS, min_size=1, max_size=10),
    st.lists(PLACES, max_size=2),
    st.dictionaries(IGNORES, RULES, max_size=3),
)
QUERIES = st.builds(
    Query,
    st.sampled_from(
        ["needle", "NEEDLE", "né", "e", "a b", ".", "^", "$", "^$", "\\w+$", "[^a]e", "(?:needle|É)", "\\ble",
         "\\W", "é{1,2}", "x$", "a.b", "-x", "(", "\ufffd", "[\\x01-\\x20]", "nee.le\\s?$"]
    ),
    path=st.sampled_from(
        [".", ".", ".", "d", "d/e", "d/e/f", ".config", "a-", ".git", "a", "d/f", "d/b.txt"]
    ),
    is_regex=st.booleans(),
    glob=st.sampled_from(
        [None, None, "*.txt", "*.TXT", "b.txt", "d/**", "**/*.py", "[ab]*", "f", "e/*", "*", ""]
    ),
    case_sensitive=st.booleans(),
    context_lines=st.integers(0, 2),
    max_results=st.sampled_from([1, 2, 3, 100]),
)  # fmt: skip


class NoRules:
    """A walk that knows of no ignore files, as a simple stand-in for ripgrep would."""

    name = PYTHON.name

    def candidates(self, wanted: Wanted) -> Iterator[Names]:
        for directory, _, names in os.walk(wanted.root.joinpath(*wanted.start)):
            for name in names:
                path = (Path(directory) / name).relative_to(wanted.root)
                if ".git" not in path.parts and wanted.fits_glob(path.as_posix()):
                    yield path.parts


def make(root: Path, tree: Tree) -> None:
    for path, content in tree.items():
        place = os.path.join(os.fsencode(root), path)  # noqa: PTH118  # of bytes
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120
            if content is None:
                os.symlink(b"d/f", place)  # noqa: PTH211
            else:
                with open(place, "xb") as file:  # noqa: PTH123
                    file.write(content)
        except OSError:
            pass  # a file or a link is where a directory should be, or the other way round


def outcome(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        result = call()
    except WorkspaceError as error:
        result = error.to_result()
    return {key: value for key, value in result.items() if key != "search_backend"}


def outcomes(tree: Tree, query: Query, *engines: Engine) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        make(root, tree)
        return [outcome(lambda engine=engine: search(root, query, engine)) for engine in engines]


@needs_ripgrep
@settings(max_examples=120)
@given(tree=TREES, query=QUERIES)
def test_the_engines_give_the_same_answer_for_any_tree(tree: Tree, query: Query) -> None:
    with_ripgrep, without = outcomes(tree, query, RIPGREP, PYTHON)
    note(f"{with_ripgrep}\n{without}")
    assert with_ripgrep == without


@needs_ripgrep
def test_the_comparison_catches_an_engine_that_reads_no_ignore_files() -> None:
    @settings(max_examples=400, database=None, derandomize=True, phases=[Phase.generate])
    @given(tree=TREES, query=QUERIES)
    def compare(tree: Tree, query: Query) -> None:
        first, second = outcomes(tree, query, RIPGREP, NoRules())
        assert first == second

    with pytest.raises(AssertionError):
        compare()
