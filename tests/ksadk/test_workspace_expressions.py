"""Expressions mean the same to ripgrep and without it, and cost little, or are refused."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import re2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from search_engines import PYTHON, RIPGREP, needs_ripgrep

from ksadk.workspace import patterns
from ksadk.workspace.engines import Engine
from ksadk.workspace.paths import WorkspaceError
from ksadk.workspace.searching import Query, search


def put(root: Path, **files: bytes) -> None:
    for name, data in files.items():
        (root / name).write_bytes(data)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("(", "invalid_regex"),
        (")", "invalid_regex"),
        ("[a", "invalid_regex"),
        ("*a", "invalid_regex"),
        ("a\\", "invalid_regex"),
        ("a{3,2}", "invalid_regex"),
        ("[z-a]", "invalid_regex"),
        ("a{", "unsupported_regex"),
        ("\\pL", "unsupported_regex"),
        ("\\z", "unsupported_regex"),
        ("\\Z", "unsupported_regex"),
        ("x(?i)y", "unsupported_regex"),
        ("(?=a)", "unsupported_regex"),
        ("(?P<a>b)", "unsupported_regex"),
        ("(a)\\1", "unsupported_regex"),
        ("[[:alpha:]]", "unsupported_regex"),
        ("[a&&b]", "unsupported_regex"),
        ("a++", "unsupported_regex"),
        ("a**", "unsupported_regex"),
        ("^*", "unsupported_regex"),
        ("a{2000}", "unsupported_regex"),
        ("(a{100}){100}", "unsupported_regex"),
        ("(" * 60 + ")" * 60, "unsupported_regex"),
        ("\\n", "unsupported_regex"),
        ("a\nb", "invalid_query"),
        ("a\0", "invalid_query"),
        ("a\ud800", "invalid_query"),
        ("x" * 2001, "invalid_query"),
        ("", "query_required"),
    ],
)
def test_a_pattern_that_the_engines_would_read_apart_is_refused_by_both(
    root: Path, engine: Engine, query: str, code: str
) -> None:
    with pytest.raises(WorkspaceError) as caught:
        search(root, Query(query, is_regex=True), engine)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("expression", "found"),
    [("(a+)+$", 0), ("(a|aa)+$", 0), ("(.*)*b", 0), ("(a?){50}a{50}", 1), ("([ab]*){20}c", 0)],
)
def test_an_expression_that_explodes_elsewhere_takes_no_time(
    root: Path, engine: Engine, expression: str, found: int
) -> None:
    put(root, f=b"a" * 200_000 + b"!")
    started = time.monotonic()
    assert search(root, Query(expression, is_regex=True), engine)["match_count"] == found
    assert time.monotonic() - started < 2


def test_the_heaviest_expression_holds_up_no_thread_and_little_of_the_time(root: Path) -> None:
    put(root, f=_slow_lines())
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.01):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    started = time.monotonic()
    try:
        with pytest.raises(WorkspaceError) as caught:
            search(root, Query("a.{500}c", is_regex=True), PYTHON, seconds=0.5)
    finally:
        stop.set()
        thread.join()
    assert caught.value.code == "search_timeout"
    assert time.monotonic() - started < 5
    assert len(ticks) > 10


def test_a_large_expression_passes_over_lines_on_which_it_might_never_end(root: Path, engine: Engine) -> None:
    put(root, f=b"x" * 200_000 + b"a" * 502 + b"\n" + b"a" * 502 + b"\n")
    found = search(root, Query("a.{500}a", is_regex=True), engine)["results"]
    assert [match["line"] for match in found] == [2]


def test_an_expression_that_is_too_large_is_refused(root: Path, engine: Engine) -> None:
    put(root, f=b"a\n")
    for expression in (".{1000}" * 20, "|".join(f"{letter}[^é]{{100}}" for letter in "abcdefghijk")):
        with pytest.raises(WorkspaceError) as caught:
            search(root, Query(expression, is_regex=True), engine)
        assert caught.value.code == "unsupported_regex"
        assert "too large" in str(caught.value)


def test_what_was_found_before_time_ran_out_is_given(root: Path) -> None:
    put(root, a=b"a" + b"x" * 500 + b"c\n", b=_slow_lines())
    result = search(root, Query("a.{500}c", is_regex=True), PYTHON, seconds=0.5)
    assert [match["path"] for match in result["results"]] == ["a"]
    assert (result["truncated"], result["timed_out"]) == (True, True)


def _slow_lines() -> bytes:
    """Text on which expressions with many repetitions are at their slowest: seconds, on any machine."""
    return b"\n".join([bytes(random.Random(1).choices(b"ab", k=20_000))] * 50)


ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "é",
        "ß",
        ".",
        "\\w",
        "\\W",
        "\\d",
        "\\s",
        "\\S",
        "\\b",
        "^",
        "$",
        "[ab]",
        "[^a]",
        "[a-é]",
        "\\.",
        "#",
        "&",
    ]
)


def _nest(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quantified = st.tuples(inner, st.sampled_from(["", "?", "{1,2}", "+?"])).map("".join)
    return st.lists(quantified, min_size=1, max_size=3).map("".join) | st.tuples(inner, inner).map(
        lambda pair: f"(?:{pair[0]}|{pair[1]})"
    )


REGEXES = st.recursive(ATOMS, _nest, max_leaves=5)
BYTES = b"a|b|A|\xc3\xa9|\xc3\x9f|\xe9|1| |.|#|\r|\n|\r\n|\x0c|_".split(b"|")
TEXTS = st.lists(st.sampled_from(BYTES), max_size=12).map(b"".join)


@needs_ripgrep
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=REGEXES, texts=st.lists(TEXTS, min_size=1, max_size=4), case_sensitive=st.booleans())
def test_the_engines_agree_on_any_expression_and_text(
    root: Path, query: str, texts: list[bytes], case_sensitive: bool
) -> None:
    for number, text in enumerate(texts):
        (root / f"{number}.txt").write_bytes(text)
    for number in range(len(texts), 4):
        (root / f"{number}.txt").unlink(missing_ok=True)
    what = Query(query, is_regex=True, case_sensitive=case_sensitive, context_lines=1)
    found = [_outcome(lambda engine=engine: search(root, what, engine)) for engine in (PYTHON, RIPGREP)]
    assert found[0] == found[1]


def _outcome(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        result = call()
    except WorkspaceError as error:
        return error.to_result()
    return {key: value for key, value in result.items() if key != "search_backend"}


@given(st.text(alphabet=st.sampled_from("ab()[]{}|^$*+?\\-&~:,0129.wdbxnpZ<é"), max_size=15))
def test_any_expression_is_either_refused_or_one_that_re2_takes(query: str) -> None:
    try:
        written = patterns.regex(query, case_sensitive=False)
    except WorkspaceError as error:
        assert error.code in {"invalid_regex", "unsupported_regex", "query_required"}
        return
    re2.compile(written.re2)
