"""What the sandbox commands print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import typer

from agentengine_cli import output
from ksadk.sandbox.base import TIMEOUT_EXIT_CODE

Result = Mapping[str, Any]

_STATUS = (
    "backend", "enabled", "isolated", "template_id", "timeout_seconds", "ttl_seconds", "idle_ttl_seconds",
    "max_sessions", "sandbox_id", "probe", "left_over", "boundary",
)  # fmt: skip
_NOT_TAKEN = frozenset({"approval_required", "approval_rejected", "denied_by_rule", "approval_expired"})
"""Ends of taking over changes that somebody, or nobody, decided: no failure of the command."""


def end(result: Result) -> NoReturn:
    """What is to be said when a command has ended, and the exit status that it asks for."""
    if output.json_wanted.get():
        output.write_json(result)
    elif "exit_code" not in result:
        message, hint = output.words_of(result)
        output.say_error(f"{message} [{result.get('error_type', 'approval_required')}]", hint)
        for denial in result.get("denials", ()):
            output.say(
                f"refused: {denial['what']}: {denial['rule']}\n  what would allow it: {denial['allow']}"
            )
    else:
        for line in _remarks(result):
            output.say(line)
        _say_changes(result)
        if "kept" in result:
            _say_kept(result["kept"])
    raise typer.Exit(_status(result))


def status(result: Result) -> str:
    """The fields of `sandbox_status`, those that are known."""
    shown = [
        (name.replace("_", " "), _word(value))
        for name, value in result.items()
        if name in _STATUS and value is not None
    ]
    return output.columns(shown, width=output.terminal_width())


def checks(result: Result) -> str:
    """A line for each attempt to break out: what is promised, and what was measured."""
    rows = [("ATTEMPT", "HOLDS", "PROMISED", "MEASURED")]
    rows += [
        (check["name"], "yes" if check["holds"] else "NO", check["promised"] or "nothing", check["measured"])
        for check in result["checks"]
    ]
    return output.columns(rows, width=output.terminal_width())


def listing(result: Result) -> str:
    """A line for each sandbox."""
    if not result["sandboxes"]:
        return "There is no sandbox.\n"
    from datetime import datetime

    rows = [("SANDBOX", "STATE", "BACKEND", "STARTED", "WORKSPACE")]
    rows += [
        (
            item["sandbox_id"], item["state"], item["backend"],
            datetime.fromtimestamp(item["created_at"]).strftime("%Y-%m-%d %H:%M"), item["workspace"],
        )
        for item in result["sandboxes"]
    ]  # fmt: skip
    return output.columns(rows, width=output.terminal_width())


def _status(result: Result) -> int:
    if "exit_code" not in result:
        return output.exit_status("failed")
    error = result.get("apply_error")
    if error and not ({error.get("error_type"), error.get("type")} & _NOT_TAKEN):
        return output.exit_status("failed")
    return TIMEOUT_EXIT_CODE if result["timed_out"] else int(result["exit_code"])


def _remarks(result: Result) -> list[str]:
    found = []
    if result["timed_out"]:
        found.append("its time was over, and it was ended")
    if result.get("output_limit_exceeded"):
        found.append("it printed too much, and was ended")
    found += [
        f"not let: {denial['what']}: {denial['rule']}; what would allow it: {denial['allow']}"
        for denial in result["denials"]
    ]
    if "not_in_sandbox" in result:
        reasons = ", ".join(f"{count} {reason}" for reason, count in result["not_in_sandbox"].items())
        found.append(f"files of the workspace that are not in the sandbox: {reasons.replace('_', ' ')}")
    left = result.get("left_processes", ())
    if left:
        names = ", ".join(output.visible(process["command"]) for process in left)
        found.append(f"{len(left)} of its processes still ran, and were ended: {names}")
    if "warning" in result:
        found.append(f"warning: {result['warning']}")
        found += [
            f"  {item['path']} ({item['change']})" + (f": {item['moved_to']}" if item["moved_to"] else "")
            for item in result["protected_path_changed"]
        ]
    return found


def _say_changes(result: Result) -> None:
    error = result.get("apply_error")
    if result.get("left_out"):
        for item in result["left_out"]:
            output.say(f"left out: {item['path']} {item['reason']}")
    if error:
        if error.get("approval_required") is True:
            output.say(result["diff"].removesuffix("\n"))
            output.say("nothing was taken over: nobody is here to approve it, and no rule allows it")
        else:
            output.say_error(f"nothing was taken over: {output.words_of(error)[0]}", error.get("hint"))
    elif result.get("applied"):
        output.say(f"taken over: {', '.join(item['path'] for item in result['applied'])}")
    elif "applied" in result:
        output.say("nothing was changed")


def _say_kept(kept: list[str]) -> None:
    for sandbox_id in kept:
        output.say(f"kept: {sandbox_id}; agentengine sandbox kill {sandbox_id} ends it")
    if not kept:
        output.say("nothing was kept: a command in bubblewrap leaves nothing but what it wrote")


def _word(value: Any) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
