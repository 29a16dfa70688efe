"""Regular expressions of rules are matched in linear time, and what RE2 does not take is a bad rule."""

from __future__ import annotations

import time

import pytest

from ksadk.tools.rule_conditions import BadRule, Subject, read_condition


def fits(pattern: str, text: str, tightening: bool = False) -> bool:
    condition = read_condition("command", {"regex": pattern})
    return condition.fits(text, Subject("value", ((text,),)), tightening)


@pytest.mark.parametrize(
    ("pattern", "text", "wanted"),
    [
        (r"v\d+", "v12", True),
        (r"v\d+", "xv12", False),
        (r"v\d+", "v12x", False),
        ("a|b", "b", True),
        ("a.b", "a\nb", True),
        ("猫+", "猫猫", True),
    ],
)
def test_the_whole_text_must_fit(pattern: str, text: str, wanted: bool) -> None:
    assert fits(pattern, text) is wanted


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "a*a*a*a*a*a*b", ".*.*.*.*x"])
def test_a_pattern_that_would_explode_is_done_at_once(pattern: str) -> None:
    begun = time.perf_counter()
    assert not fits(pattern, "a" * 5_000)
    assert time.perf_counter() - begun < 2


@pytest.mark.parametrize("pattern", ["(a", "a)", "[a", "*a", "(?=a)", r"(a)\1", "\ud800", "a" * 1_001])
def test_what_re2_does_not_take_is_a_bad_rule(pattern: str) -> None:
    with pytest.raises(BadRule, match="command"):
        read_condition("command", {"regex": pattern})


@pytest.mark.parametrize("text", ["\ud800", "a" * 10_001])
def test_a_text_that_cannot_be_judged_counts_against_the_call(text: str) -> None:
    assert not fits(".*", text)
    assert fits("never", text, tightening=True)
