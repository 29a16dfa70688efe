"""Regular expressions of rules: Python's meaning, without the patterns that Python cannot finish."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksadk.tools.linear_regex import LinearRegex

atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\d", r"\.", "[a-c-]", "[]a]"])
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "{2,3}"])).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@given(pattern=patterns, text=st.text("abc.1-]\n", max_size=8))
def test_a_pattern_fits_what_python_says_that_it_fits(pattern: str, text: str) -> None:
    wanted = re.fullmatch(pattern, text, re.ASCII | re.DOTALL) is not None
    assert LinearRegex(pattern).matches(text) is wanted


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "a*a*a*a*a*a*b", "(a?){200}a{200}b", ".*.*.*.*x"]
)
def test_a_pattern_that_would_explode_is_done_at_once(pattern: str) -> None:
    begun = time.perf_counter()
    assert not LinearRegex(pattern).matches("a" * 2_000)
    assert time.perf_counter() - begun < 2


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(a", "( is not closed"),
        ("a)", ") closes nothing"),
        ("[a", "[ is not closed"),
        ("*a", "nothing to repeat"),
        ("a**", "repetition of a repetition"),
        ("a*?", "repetition of a repetition"),
        ("a{2", "write a plain one"),
        ("a{3,2}", "no number of times"),
        ("a{0}", "no number of times"),
        ("^a$", "the whole text must fit"),
        ("(?=a)", "is not (?:"),
        (r"(a)\1", r"\1 is not known"),
        (r"\bword", r"\b is not known"),
        (r"[\b]", "in a set"),
        ("[a--b]", "a plain - in a set"),
        ("[z-a]", "is no set"),
        ("a\\", "escapes nothing"),
        ("(" * 60 + "a" + ")" * 60, "nested more than 50 deep"),
        ("(a{100}){100}", "more than 500"),
        ("a" * 1_001, "at most 1,000"),
    ],
)
def test_what_is_outside_of_the_subset_is_refused_with_words(pattern: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        LinearRegex(pattern)


def test_empty_groups_are_not_repeated_without_end() -> None:
    assert LinearRegex("((((){999}){999}){999}){999}").matches("")
