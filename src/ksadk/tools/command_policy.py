"""What a shell line would do, from a real parse: allowed, asked about, or refused whatever anyone approves.

It is advice on top of isolation: it judges the line, not what a program does once it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ksadk.errors import KsadkError

if TYPE_CHECKING:
    from ksadk.tools.commands.findings import Part, Verdict

MAX_LINE = 32_768
"""Bytes of a line that is judged; a longer one is asked about."""


@dataclass(frozen=True)
class Judgement:
    """What is said of a line: the strictest of what is said of its parts.

    `reason` is a word for programs, `words` the same for people. `proven` where the line was read with
    certainty; if not, `parts` are only those that could be made out.
    """

    decision: Verdict
    reason: str
    words: str
    parts: tuple[Part, ...]
    proven: bool = True

    def to_result(self) -> dict[str, Any]:
        """The result of `check_command_policy`."""
        reasons = list(
            dict.fromkeys(p.finding.does for p in self.parts if p.finding.verdict == self.decision)
        )
        rest = {"parts": [part.to_result() for part in self.parts], "reasons": reasons}
        if self.decision == "allow":
            return {"ok": True, "decision": "allow", "reason": self.reason, **rest}
        error = KsadkError(self.words, code=self.reason)
        result = {**error.to_result(), "decision": self.decision, **rest}
        return result | {"reason": self.reason, "reasons": reasons or [self.words]}


def check_command_policy(command: str) -> dict[str, Any]:
    """Judge a line of bash, part by part, without running anything.

    Returns `{ok, decision, reason, parts, reasons}`. Where `decision` is `allow`, `reason` is `read_only_git`
    or `default_allow`; otherwise it stands in `error_type`, too, with `error_message`: `not_proven` (`ask`),
    or for `reject` `command_rejected`, `invalid_command` (a quote is not closed) and `command_required`.
    `parts` has for each simple command, those that others start among them, `{command, decision, reason,
    does}`; `reasons` are what the parts that decide do.
    """
    return judge_command(command).to_result()


def judge_command(command: str) -> Judgement:
    """The same, for callers that go by the parts."""
    if not isinstance(command, str) or not command.strip():
        return Judgement("reject", "command_required", "There is no command to judge.", (), proven=False)
    # The parser is imported when there is a line to judge: listing tools and asking for help need none.
    from ksadk.tools.commands.judge import Judge
    from ksadk.tools.commands.words import NotProven, Unbalanced

    judge = Judge()
    problem = ""
    try:
        if len(command.encode("utf-8", "replace")) > MAX_LINE:
            raise NotProven(f"it is longer than {MAX_LINE:,} bytes")
        judge.line(command)
    except Unbalanced as error:
        return Judgement("reject", "invalid_command", f"This is no command: {error}.", (), proven=False)
    except NotProven as error:
        problem = f"Asked about, since it cannot be read with certainty: {error}."
    return _of_parts(tuple(judge.parts), problem)


def _of_parts(parts: tuple[Part, ...], problem: str) -> Judgement:
    from ksadk.tools.commands.findings import worst

    strictest = worst(part.finding for part in parts) if parts else None
    if strictest is not None and strictest.verdict == "reject":
        words = f"Refused, and no approval lifts that: {strictest.does}."
        return Judgement("reject", "command_rejected", words, parts, proven=not problem)
    if problem:
        return Judgement("ask", "not_proven", problem, parts, proven=False)
    if strictest is not None and strictest.verdict == "ask":
        return Judgement("ask", "not_proven", f"Asked about: {strictest.does}.", parts)
    only_git = len(parts) == 1 and parts[0].finding.reason == "read_only_git"
    return Judgement("allow", "read_only_git" if only_git else "default_allow", "", parts)
