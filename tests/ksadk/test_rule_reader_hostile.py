"""Rules that are badly written, by a slip or on purpose: each is one bad rule, and what denies still does."""

from __future__ import annotations

import pytest

from ksadk.tools.rule_reader import Entry, read_rules


def one(text: str) -> Entry:
    [entry] = read_rules("rules.yaml", f"rules:\n  - {text}\n".encode(), "user").entries
    return entry


@pytest.mark.parametrize("key", ["{a: b}", "[a]", "1", "null", "true"])
def test_a_key_that_is_no_text_makes_a_bad_rule(key: str) -> None:
    bad = one(f"{{deny: x, where: {{? {key} : c}}}}")
    assert "a key is no text" in bad.problem
    assert bad.rule is not None
    assert (bad.rule.verdict, bad.rule.tool) == ("deny", "x")
