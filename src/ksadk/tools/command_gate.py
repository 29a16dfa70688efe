"""What the command policy says of a call that runs a line of shell, before anyone is asked."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ksadk.errors import KsadkError
from ksadk.tools.argv_rules import can_be_lifted
from ksadk.tools.command_policy import Judgement
from ksadk.tools.commands.findings import Part
from ksadk.tools.rules import Call, Rule, still_refused

_SHOWN_PARTS = 20


class CommandRefused(KsadkError):
    """A line that the command policy refuses. `details` say what, by which rule, and what would allow it."""

    code = "command_rejected"


def check_line(call: Call, rules: Sequence[Rule]) -> bool:
    """Raise where the policy refuses the line that a call runs, and no rule of the user's own lifts that.

    Returns whether the line is one that the policy cannot vouch for, so that it has to be asked about.
    """
    judged = call.judged
    if judged is None:
        return False
    if judged.decision != "reject":
        return judged.decision == "ask"
    refused = still_refused(rules, call)
    if judged.parts and not refused:
        return not judged.proven
    raise _refusal(judged, refused, call)


def details_of(line: str | None) -> tuple[tuple[str, str], ...]:
    """What each part of a line does, for whoever is asked about it."""
    if line is None:
        return ()
    from ksadk.tools.command_policy import judge_command

    judged = judge_command(line)
    shown = [("runs", f"{part.command}: {part.finding.does}") for part in judged.parts[:_SHOWN_PARTS]]
    if len(judged.parts) > _SHOWN_PARTS:
        shown.append(("runs", f"{len(judged.parts) - _SHOWN_PARTS} more"))
    if not judged.proven:
        shown.append(("unproven", judged.words))
    return tuple(shown)


def _refusal(judged: Judgement, refused: Sequence[Part], call: Call) -> KsadkError:
    denials = [
        {
            "what": part.command,
            "rule": f"command policy, {part.finding.reason}: {part.finding.does}",
            "allow": _what_allows(part, call.tool_name),
        }
        for part in refused
    ]
    result = judged.to_result()
    details = {key: result[key] for key in ("decision", "parts", "reasons")}
    return CommandRefused(
        judged.words, code=judged.reason, hint=_HINTS.get(judged.reason), denials=denials, **details
    )


_HINTS = {
    "command_rejected": "No approval lifts this; `denials` says what would.",
    "invalid_command": "Close the quote.",
}  # fmt: skip


def _what_allows(part: Part, tool: str) -> str:
    if not can_be_lifted(part):
        return "nothing"
    words = shlex.quote(shlex.join(part.argv))
    return f"a rule of your own: agentengine approvals rules add allow {tool} --exact --argv {words}"
