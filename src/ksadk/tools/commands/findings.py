"""What is said of a part of a shell line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Verdict = Literal["allow", "ask", "reject"]
VERDICTS: tuple[Verdict, ...] = ("allow", "ask", "reject")
"""The mildest first."""


class Finding(NamedTuple):
    """A verdict, a word for programs, and what the command does, in words for a person."""

    verdict: Verdict
    reason: str
    does: str


READS = Finding("allow", "read_only", "only reads")
READS_GIT = Finding("allow", "read_only_git", "only reads the repository")
HARMLESS = Finding("allow", "harmless", "changes nothing outside of the shell")
WRAPS = Finding("allow", "wrapper", "starts another command")
CHANGES = Finding("allow", "workspace_change", "changes files in the workspace")
PROJECT = Finding("allow", "project_code", "runs code or tools of the project")
NETWORK = Finding("ask", "network", "reaches the network")


def unclear(does: str) -> Finding:
    """Flags or operands that are not known to be harmless."""
    return Finding("ask", "flags", does)


_MILD = ("harmless", "wrapper", "read_only", "read_only_git", "workspace_change", "project_code")


def worst(findings: Iterable[Finding]) -> Finding:
    """The first of the strictest; among those that are allowed, the one that does most."""
    return max(findings, key=_weight)


def _weight(finding: Finding) -> tuple[int, int]:
    mild = _MILD.index(finding.reason) if finding.verdict == "allow" else 0
    return VERDICTS.index(finding.verdict), mild


@dataclass(frozen=True)
class Part:
    """One simple command of a line, with what it does.

    `argv` are its words as the program gets them, with NUL for what only the run will tell; `fixed` whether
    they are exactly these at every run. `around` is what is said of its assignments and redirections alone.
    """

    command: str
    argv: tuple[str, ...]
    fixed: bool
    finding: Finding
    around: Finding = HARMLESS

    def to_result(self) -> dict[str, Any]:
        """The part as it stands in the result of `check_command_policy`."""
        finding = self.finding
        return {
            "command": self.command,
            "decision": finding.verdict,
            "reason": finding.reason,
            "does": finding.does,
        }
