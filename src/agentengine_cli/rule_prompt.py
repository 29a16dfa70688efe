"""What the key `a` leads to: a rule that lets such calls through from now on, chosen and seen before it is
saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from agentengine_cli.keys import END_OF_INPUT, KeyReader
from agentengine_cli.output import visible
from ksadk.tools import rule_proposals
from ksadk.tools.approvals import ApprovalRequest
from ksadk.tools.gateway import ToolGateway
from ksadk.tools.rule_files import user_file

if TYPE_CHECKING:
    from ksadk.tools.rule_proposals import Proposal
    from ksadk.tools.rule_reader import Entry

MOST_EARLIER = 50
"""Earlier requests that examples are taken from."""


class RulePrompt:
    """Asks the person at this terminal for the width of a rule, and whether to save it."""

    def __init__(self, request: ApprovalRequest, keys: KeyReader, console: Console) -> None:
        self._request = request
        self._keys = keys
        self._console = console

    def ask(self) -> Entry | None:
        """The rule that was saved; None where the person went back, or time or input ended.

        Raises what keeps a rule from being saved.
        """
        asking = rule_proposals.asking_rule(self._request)
        if asking is not None:
            self._say(f"the rule {asking.place} asks about this call, and asking goes before allowing")
            return None
        found = rule_proposals.proposals(self._request)
        if not found:
            self._say("no rule says simply what this call is; y lets it through once")
            return None
        while True:
            chosen = self._choose(found)
            if chosen is None:
                return None
            if self._confirm(chosen):
                from ksadk.tools.rule_edits import add_rule

                entry, new = add_rule(chosen.written)
                self._say(f"{'saved' if new else 'was there already:'} {entry.file}:{entry.line}")
                return entry

    def _choose(self, found: list[Proposal]) -> Proposal | None:
        for number, proposal in enumerate(found, start=1):
            self._console.print(Text(f"{number} {visible(proposal.width)}", style="bold"))
            self._show(proposal)
        digits = "".join(str(number) for number in range(1, len(found) + 1))
        key = self._key(f"which rule? 1-{len(found)}, b back ", digits + "b")
        return found[int(key) - 1] if key in tuple(digits) else None

    def _confirm(self, proposal: Proposal) -> bool:
        earlier = ToolGateway().store.list(every=True)[-MOST_EARLIER:]
        examples = rule_proposals.others(self._request, proposal.rule, reversed(earlier))
        self._show(proposal)
        self._say("it would also allow, for example:" if examples else "it allows no other call")
        for example in examples:
            self._say(f"  {example}")
        return self._key(f"save it to {user_file()}? y yes   n no ", "yn") == "y"

    def _show(self, proposal: Proposal) -> None:
        for line in proposal.text.splitlines():
            self._say(f"    {line}")

    def _key(self, question: str, wanted: str) -> str:
        """One of the wanted keys; empty where the time is over or nobody is there any more."""
        self._keys.forget()
        self._console.print(Text(visible(question), style="bold"), end="")
        while True:
            key = self._keys.read(self._request.expires_at)
            if key in ("", END_OF_INPUT):
                return ""
            if key not in wanted or self._keys.more_than_a_line_end():
                self._keys.forget()
                continue
            self._console.print(Text(key))
            return key

    def _say(self, text: str) -> None:
        self._console.print(Text(visible(text)))
