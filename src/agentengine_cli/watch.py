"""The live list of what waits for approval in every project, answered in place."""

from __future__ import annotations

import os
import sys
import time

from agentengine_cli import output
from agentengine_cli.approvals import answer_here
from agentengine_cli.keys import END_OF_INPUT, KeyReader
from agentengine_cli.terminal import need_a_person
from ksadk.errors import KsadkError
from ksadk.tools.approvals import ApprovalRequest, iso
from ksadk.tools.gateway import ToolGateway
from ksadk.toolsets.selection import load_builtin_tools

POLL_SECONDS = 0.5
MOST = 9
"""How many requests have a key: 1 to 9."""


class Watch:
    """Shows the list whenever it changes, and puts the request that a key names to the person."""

    def __init__(self) -> None:
        need_a_person("watching", "agentengine approvals list shows what waits.")
        load_builtin_tools()  # an edited call is checked by its tool
        self._gateway = ToolGateway()
        self._shown: list[ApprovalRequest] | None = None

    def run(self) -> None:
        """Go on until q, or until the terminal has gone."""
        with KeyReader() as keys:
            while True:
                self._show()
                key = keys.read(time.time() + POLL_SECONDS)
                if key in ("q", END_OF_INPUT):
                    return
                chosen = self._named(key)
                if chosen is not None:
                    with keys.released():
                        self._answer(chosen)
                    keys.forget()
                    self._shown = None

    def _show(self) -> None:
        waiting = [request for request in self._gateway.store.list() if request.state == "pending"]
        if waiting == self._shown:
            return
        self._shown = waiting
        if not waiting:
            output.say("\nNothing waits for approval. What comes is shown here; q ends.")
            return
        rows: list[tuple[str, ...]] = [("KEY", "TOOL", "RISK", "EXPIRES", "PROJECT", "WHAT")]
        for number, request in enumerate(waiting[:MOST], start=1):
            cells = (request.tool_name, request.risk_level, iso(request.expires_at), request.project)
            rows.append((str(number), *map(output.visible, (*cells, request.plan.summary))))
        more = f"{len(waiting) - MOST} more follow. " if len(waiting) > MOST else ""
        width = os.get_terminal_size(sys.stderr.fileno()).columns
        output.say(f"\n{output.columns(rows, width=width or None)}{more}A number opens one; q ends.")

    def _named(self, key: str) -> ApprovalRequest | None:
        shown = (self._shown or [])[:MOST]
        return shown[int(key) - 1] if key in "123456789"[: len(shown)] and key else None

    def _answer(self, request: ApprovalRequest) -> None:
        try:
            answered = answer_here(self._gateway, request.id)
        except KsadkError as error:  # it has expired, or its file has changed: the others still wait
            output.say_error(error.message, error.hint)
            return
        output.say(f"{answered.state} {answered.id}")
