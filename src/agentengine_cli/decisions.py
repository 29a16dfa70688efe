"""`agentengine approvals log`, `verify`, `suggest` and `watch`: what was decided, and what waits."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from agentengine_cli import output
from agentengine_cli.base import Command
from ksadk.tools.call_log import OUTCOMES
from ksadk.tools.gateway import ToolGateway
from ksadk.toolsets.selection import load_builtin_tools

USUAL_LIMIT = 50
USUAL_TIMES = 5

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def add_to(app: typer.Typer) -> None:
    """Give the group its commands about decisions."""
    app.command("log", cls=Command)(log)
    app.command("verify", cls=Command)(verify)
    app.command("suggest", cls=Command)(suggest)
    app.command("watch", cls=Command)(watch)


def log(
    tool: Annotated[str, typer.Option("--tool", metavar="NAME", help="Only calls of this tool.")] = "",
    outcome: Annotated[
        str, typer.Option("--outcome", metavar="OUTCOME", help=f"Only calls with it: {', '.join(OUTCOMES)}.")
    ] = "",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Only what is younger (90s, 10m, 2h, 3d) or later.")
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", min=0, metavar="N", help="The last N lines; 0 for all.")
    ] = USUAL_LIMIT,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with lines as they are written; --json: JSON Lines.")
    ] = False,
) -> None:
    """Show the decision log: what was called, who or which rule let it, and how it ended.

    \b
    Example:
      agentengine approvals log --tool edit_workspace_file --since 2h
    """
    from agentengine_cli import log_view
    from ksadk.tools.decision_log import DecisionLog
    from ksadk.tools.log_reader import last_lines

    if outcome and outcome not in OUTCOMES:
        raise typer.BadParameter(f"{outcome!r} is none of {', '.join(OUTCOMES)}", param_hint="--outcome")
    store = ToolGateway().store
    wanted = log_view.Filter(tool, outcome, _moment(since, store.now()) if since else "")
    directory = DecisionLog(store).directory
    lines = last_lines(directory, limit or None, wanted)
    if follow:
        log_view.follow(directory, lines, wanted)
    else:
        output.show(
            {"ok": True, "lines": lines.lines, "unreadable": lines.unreadable},
            lambda _: log_view.table(lines),
        )
    if lines.unreadable:
        output.say(f"{lines.unreadable} lines cannot be read: agentengine approvals verify tells which")


def verify() -> None:
    """Find out whether the decision log is as it was written.

    Ends with 1 where a line was changed, removed, moved or cut off, and says which.

    \b
    Example:
      agentengine approvals verify
    """
    from agentengine_cli import log_view
    from ksadk.tools.decision_log import DecisionLog
    from ksadk.tools.log_check import verify as check

    report = check(DecisionLog(ToolGateway().store))
    output.show(
        {
            "ok": report.ok,
            "lines": report.lines,
            "first": report.first,
            "last": report.last,
            "problems": report.problems,
            "more_problems": report.more_problems,
            "notes": report.notes,
        },
        lambda _: log_view.report(report),
    )
    if not report.ok:
        raise typer.Exit(1)


def suggest(
    times: Annotated[
        int, typer.Option("--times", min=1, metavar="N", help="What was approved N times or more.")
    ] = USUAL_TIMES,
) -> None:
    """Suggest rules for what you approve again and again, and never deny.

    Nothing is saved. Of calls of high risk only exact calls are suggested, and what is about files is for one
    workspace. The log holds digests of arguments; the arguments are taken from the requests that are
    still kept, and from lines that were written with --audit-args.

    \b
    Example:
      agentengine approvals suggest --times 10
    """
    from agentengine_cli import log_view
    from ksadk.tools import suggestions
    from ksadk.tools.decision_log import DecisionLog
    from ksadk.tools.log_reader import last_lines

    store = ToolGateway().store
    lines = last_lines(DecisionLog(store).directory, None, lambda line: "request" in line).lines
    load_builtin_tools()
    kept = {request.id: request for request in store.list(every=True)}
    found = suggestions.suggest(lines, kept.get, times)
    output.show(
        {
            "ok": True,
            "suggestions": [
                {**s._asdict(), "denied": 0, "command": s.command(), "yaml": s.yaml()} for s in found.found
            ],
            "notes": log_view.notes(found),
        },
        lambda _: log_view.suggested(found, times),
    )
    if not output.json_wanted.get():
        for note in log_view.notes(found):
            output.say(f"note: {note}")


def watch() -> None:
    """Show what waits for approval, in every project, as it comes, and answer it here.

    \b
    Example:
      agentengine approvals watch
    """
    from agentengine_cli.watch import Watch

    Watch().run()


def _moment(text: str, now: float) -> str:
    """A time as the log writes it, from one such as 2h (ago), 2027-01-31 or RFC 3339."""
    from datetime import UTC, datetime

    ago = re.fullmatch(r"(\d+)([smhd])", text)
    try:
        if ago:
            moment = datetime.fromtimestamp(max(now - int(ago[1]) * _UNITS[ago[2]], 0), UTC)
        else:
            moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not a time such as 90s, 2h, 3d, 2027-01-31 or 2027-01-31T12:00:00Z",
            param_hint="--since",
        ) from None
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
