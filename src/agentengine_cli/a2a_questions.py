"""What an agent asks, put to the person at this terminal."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from agentengine_cli.a2a_place import approval_request
from agentengine_cli.a2a_text import field
from agentengine_cli.keys import END_OF_INPUT, KeyReader
from agentengine_cli.output import visible
from ksadk.a2a.client import Update
from ksadk.a2a.stream import said_text

PATIENCE = 24 * 3600.0


def ask(update: Update, target: str) -> dict[str, Any] | None:
    """The part that answers a paused task; None where the person is gone or wants to answer later."""
    request = approval_request(update)
    return _ask_words(update) if request is None else _ask_approval(request, target)


def _ask_words(update: Update) -> dict[str, Any] | None:
    _say(field("The agent asks", said_text(update) or "(it says nothing)"))
    _say("answer> ")
    line = sys.stdin.readline()
    return {"text": line.rstrip("\n")} if line.strip() else None


def _ask_approval(request: dict[str, Any], target: str) -> dict[str, Any] | None:
    """Show another agent's request, and take y, n or f. It is a stranger's: no rule comes of it."""
    _say(f"\nThe agent at {visible(target)} asks for approval of something that it would do there:\n")
    for name, value in sorted(request.items(), key=lambda item: item[0] != "summary"):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        _say("  " + field(visible(name), text))
    _say("y yes, once   n no   f no, and say why\napprove? ")
    with KeyReader() as keys:
        keys.forget()
        until = time.time() + PATIENCE
        while True:
            key = keys.read(until)
            if key in ("", END_OF_INPUT):
                return None
            if key not in "ynf" or (key != "f" and keys.more_than_a_line_end()):
                keys.forget()
                continue
            _say(f"{key}\n")
            reason = keys.line("why? ") if key == "f" else ""
            decision = "approve" if key == "y" else "reject"
            data = {
                "kind": "approval_decision",
                "approval_request_id": request.get("id", ""),
                "decision": decision,
            }
            return {"data": data | ({"reason": reason} if reason else {})}


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
