"""Rules: deny over ask over allow, by tool and by argument."""

from __future__ import annotations

from typing import Any

import pytest

from ksadk.errors import KsadkError
from ksadk.tools.rules import Rule, decide

DENY, ASK, ALLOW = (Rule(verdict, "write_*") for verdict in ("deny", "ask", "allow"))


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        ([], None),
        ([ALLOW], "allow"),
        ([ALLOW, ASK], "ask"),
        ([ALLOW, ASK, DENY], "deny"),
        ([DENY, ALLOW], "deny"),
        ([Rule("deny", "read_*")], None),
        ([Rule("deny", "write_workspace_file")], "deny"),
        ([Rule("deny", "*")], "deny"),
        ([Rule("deny", "WRITE_*")], None),
        ([Rule("deny", "write_workspace")], None),
        ([Rule("deny", "write_workspace_fil?")], "deny"),
    ],
)
def test_the_strictest_matching_rule_decides(rules: list[Rule], verdict: str | None) -> None:
    decided = decide(rules, "write_workspace_file", {"path": "a"})
    assert (decided.verdict if decided else None) == verdict


@pytest.mark.parametrize(
    ("wanted", "arguments", "matches"),
    [
        ({}, {}, True),
        ({"path": "a"}, {"path": "a", "content": "x"}, True),
        ({"path": "a"}, {"path": "b"}, False),
        ({"path": "a"}, {}, False),
        ({"path": None}, {}, False),
        ({"path": "a", "content": "x"}, {"path": "a", "content": "y"}, False),
    ],
)
def test_every_argument_that_a_rule_names_must_be_equal(
    wanted: dict[str, Any], arguments: dict[str, Any], matches: bool
) -> None:
    assert Rule("deny", "*", wanted).matches("write_workspace_file", arguments) is matches


@pytest.mark.parametrize("argv", [(), ("",), "git"])
def test_words_of_a_command_that_are_none_are_refused(argv: Any) -> None:
    with pytest.raises(KsadkError, match="argv") as caught:
        Rule("deny", "run_command", argv=argv)
    assert caught.value.code == "unsupported_rule"


def test_a_verdict_that_is_none_is_refused() -> None:
    with pytest.raises(KsadkError, match="'never'") as caught:
        Rule("never", "*")  # type: ignore[arg-type]
    assert caught.value.code == "unsupported_rule"
