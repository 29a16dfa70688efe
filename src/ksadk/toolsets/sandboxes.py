"""Tools that look after sandboxes themselves. They are in no default set."""

from __future__ import annotations

from typing import Any

from ksadk.runtime_context import get_current_account_id
from ksadk.tools.registry import builtin


@builtin(group="sandboxes", boundary="local_settings")
def list_sandboxes() -> dict[str, Any]:
    """List the account's sandboxes on this machine, and the copies of workspaces that were kept.

    `state` is in_use (the program that started it lives), kept, or left_over: its program was killed, and
    the next start of a sandbox ends it. Times are seconds since the epoch.
    """
    found = []
    for facts, lives in _own():
        state = "in_use" if lives else "kept" if facts.kept else "left_over"
        found.append({
            "sandbox_id": facts.sandbox_id, "backend": facts.backend, "workspace": facts.workspace,
            "state": state, "created_at": facts.created_at, "expires_at": facts.expires_at,
            "directory": facts.directory or None, "pid": facts.pid,
        })  # fmt: skip
    return {"ok": True, "sandboxes": sorted(found, key=lambda item: item["created_at"])}


@builtin(group="sandboxes", boundary="local_settings", side_effects=("sandbox_end",))
def kill_sandbox(sandbox_id: str) -> dict[str, Any]:
    """End one of the account's sandboxes, with the commands that run in it, and delete the copy of the
    workspace that goes with it.

    sandbox_id: as list_sandboxes has it.
    """
    from ksadk.errors import KsadkError
    from ksadk.sandbox import records
    from ksadk.sandbox.left_overs import end_commands, end_left_over
    from ksadk.sandbox.registry import GLOBAL_SANDBOX_REGISTRY

    facts = next((facts for facts, _ in _own() if facts.sandbox_id == sandbox_id), None)
    if facts is None:
        raise KsadkError(
            f"no sandbox has the id {sandbox_id!r}", code="no_such_sandbox", sandbox_id=sandbox_id,
            hint="agentengine sandbox list shows them all.",
        )  # fmt: skip
    for entry in GLOBAL_SANDBOX_REGISTRY.entries():
        if entry.sandbox_id == sandbox_id:
            GLOBAL_SANDBOX_REGISTRY.kill(entry.key)
            return {"ok": True, "sandbox_id": sandbox_id}
    record = records.take(sandbox_id)
    if record is None:  # another program's: what runs in it is ended, and that program sees to the rest
        end_commands(facts)
        return {"ok": True, "sandbox_id": sandbox_id}
    try:
        end_left_over(record.facts)
    except KsadkError:
        record.release()
        raise
    record.drop()
    return {"ok": True, "sandbox_id": sandbox_id}


@builtin(group="sandboxes", boundary="isolated_sandbox", side_effects=("sandbox_command_execution",))
def probe_sandbox() -> dict[str, Any]:
    """Try to break out of this machine's sandbox, and say of each promise whether it holds.

    `checks` is a list of {name, promised, measured, holds}; `promised` is empty where nothing is promised
    here. Nothing that is tried reaches beyond this machine.
    """
    from dataclasses import asdict

    from ksadk.errors import KsadkError
    from ksadk.sandbox.escapes import probe_escapes

    checks = [asdict(attempt) for attempt in probe_escapes()]
    broken = [check["name"] for check in checks if not check["holds"]]
    if not broken:
        return {"ok": True, "checks": checks}
    error = KsadkError(
        f"the sandbox does not hold what it promises: {', '.join(broken)}", code="sandbox_leaks",
        hint="Do not run anything in it that you would not run without it.", checks=checks,
    )  # fmt: skip
    return error.to_result()


def _own() -> Any:
    """What is written down of the account's sandboxes, and whether their programs live."""
    from ksadk.sandbox import records

    account = records.account_tag(get_current_account_id())
    return [(facts, lives) for facts, lives in records.recorded() if facts.account == account]
