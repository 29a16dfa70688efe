"""`agentengine approvals`: answer calls that wait for approval, from another terminal."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentengine_cli import decisions, output, rules
from agentengine_cli.base import Command, new_group
from agentengine_cli.terminal import need_a_person
from ksadk.errors import KsadkError
from ksadk.sessions import project_dir
from ksadk.tools.approvals import ApprovalRequest, State, iso
from ksadk.tools.gateway import ToolGateway
from ksadk.toolsets.selection import load_builtin_tools

if TYPE_CHECKING:
    from ksadk.tools.approval_store import ApprovalStore

app = new_group("Answer calls that wait for approval.")
decisions.add_to(app)
app.add_typer(rules.app, name="rules")
RequestId = Annotated[str, typer.Argument(metavar="ID", help="The request's id: appr_...")]


@app.command("list", cls=Command)
def list_requests(
    every: Annotated[bool, typer.Option("--all", help="Of every project, and the ended ones too.")] = False,
) -> None:
    """List the requests of this project that wait, or are approved and not used yet.

    \b
    Example:
      agentengine approvals list --all
    """
    store = ToolGateway().store
    project = None if every else str(project_dir())
    requests = store.list(project, every=every)
    elsewhere = 0 if every else len(store.list()) - len(requests)
    now = store.now()
    output.show(
        {"ok": True, "requests": [document(r, now) for r in requests], "in_other_projects": elsewhere},
        lambda value: _table(value["requests"]),
    )
    if elsewhere and not output.json_wanted.get():
        output.say(f"{elsewhere} more in other projects: agentengine approvals list --all")


@app.command("show", cls=Command)
def show_request(request_id: RequestId) -> None:
    """Show a request: what would happen, its arguments and its preview.

    \b
    Example:
      agentengine approvals show appr_0123456789abcdef0123456789abcdef
    """
    store = ToolGateway().store
    request = store.get(request_id)
    output.show(
        {"ok": True, "request": document(request, store.now())}, lambda _: _as_text(request, store.now())
    )


@app.command("approve", cls=Command)
def approve(
    request_id: RequestId,
    edit: Annotated[bool, typer.Option("--edit", help="Edit the arguments first.")] = False,
) -> None:
    """Show a request and approve it, with a key, at this terminal.

    Whoever called then runs it with --approval ID.

    \b
    Example:
      agentengine approvals approve appr_0123456789abcdef0123456789abcdef
    """
    load_builtin_tools()  # an edited call is checked by its tool
    gateway = ToolGateway()
    gateway.store.get(request_id)
    need_a_person("approving", f"Run it in a terminal: agentengine approvals approve {request_id}")
    request = answer_here(gateway, request_id, edit=edit)
    output.show(
        {"ok": True, "request": document(request, gateway.store.now())},
        lambda _: f"{request.state} {request_id}\n",
    )
    if request.state == "denied":
        raise typer.Exit(output.exit_status("approval_rejected"))


def answer_here(gateway: ToolGateway, request_id: str, *, edit: bool = False) -> ApprovalRequest:
    """Put a request to the person at this terminal; returns it as it was answered.

    Raises `approval_unanswered` where it still waits, and what keeps it from being answered.
    """
    from agentengine_cli.approval import Prompt

    store = gateway.store
    request = store.get(request_id)
    store.require_pending(request)
    gateway.look_again(request)
    prompt = Prompt(keys="yaenf?q")
    request, decision = gateway.answer(request, prompt, prompt.edit(request) if edit else None)
    if decision.verdict == "expired":
        raise KsadkError(f"{request_id} expired before it was answered", code="approval_expired")
    if decision.verdict == "nobody" or prompt.stopped:
        raise KsadkError(
            f"{request_id} still waits",
            code="approval_unanswered",
            hint=f"agentengine approvals approve {request_id} asks again.",
        )
    verdict: State = "approved" if decision.verdict == "approve" else "denied"
    request = store.decide(request_id, verdict, by=decision.by, reason=decision.reason, seen=request)
    _write_down(store, request)
    return request


def _write_down(store: ApprovalStore, request: ApprovalRequest) -> None:
    """Keep an answer in the decision log. It stands where that fails: the call itself needs its own line."""
    from ksadk.tools.call_log import log_answer

    try:
        log_answer(store, request)
    except KsadkError as error:
        output.say(f"warning: this answer is not in the decision log: {error.message}")


@app.command("deny", cls=Command)
def deny(
    request_id: RequestId,
    reason: Annotated[str, typer.Option("--reason", help="Words for whoever asked.")] = "",
) -> None:
    """Deny a request.

    \b
    Example:
      agentengine approvals deny appr_0123456789abcdef0123456789abcdef --reason "wrong file"
    """
    store = ToolGateway().store
    request = store.decide(request_id, "denied", by="agentengine approvals deny", reason=reason)
    _write_down(store, request)
    output.show({"ok": True, "request": document(request, store.now())}, lambda _: f"denied {request_id}\n")


def document(request: ApprovalRequest, now: float) -> dict[str, Any]:
    """A request as `--json` prints it; times are RFC 3339."""
    fields = asdict(request)
    fields["state"] = status(request, now)
    fields["side_effects"] = list(request.side_effects)
    fields["created_at"] = iso(request.created_at)
    fields["expires_at"] = iso(request.expires_at)
    return fields


def status(request: ApprovalRequest, now: float) -> str:
    """pending, approved, denied, used, or expired."""
    return "expired" if request.state in ("pending", "approved") and request.expired(now) else request.state


def _table(requests: list[dict[str, Any]]) -> str:
    if not requests:
        return "Nothing waits for approval in this project.\n"
    rows = [("ID", "STATE", "TOOL", "RISK", "EXPIRES", "WHAT")]
    rows += [
        (
            r["id"],
            r["state"],
            r["tool_name"],
            r["risk_level"],
            r["expires_at"],
            output.visible(r["plan"]["summary"]),
        )
        for r in requests
    ]
    return output.columns(rows, width=output.terminal_width())


def _as_text(request: ApprovalRequest, now: float) -> str:
    import io

    from rich.console import Console

    from agentengine_cli import approval

    text = io.StringIO()
    console = Console(file=text, highlight=False, markup=False, soft_wrap=True, color_system=None)
    approval.show(request, console, everything=True)
    lines = [f"  state     {status(request, now)}"]
    if request.decided_by:
        lines.append(f"  by        {output.visible(request.decided_by)}")
    if request.reason:
        lines.append(f"  reason    {output.visible(request.reason)}")
    return text.getvalue().lstrip("\n") + "\n".join(lines) + "\n"
