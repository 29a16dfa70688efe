"""A tool that writes down what ran, answers for its questions, and the shape of a refusal."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ksadk.errors import KsadkError
from ksadk.tools.approval_store import ApprovalStore
from ksadk.tools.approvals import (
    ApprovalRequest,
    Decision,
)
from ksadk.tools.gateway import (
    ToolGateway,
)
from ksadk.tools.registry import Plan, Tool, ToolPolicy

NOW = 1_800_000_000.0


class Recorder:
    """A risky tool whose plan and function write down that they ran, and a clock and a store for it."""

    def __init__(self, directory: Path) -> None:
        self.ran: list[Any] = []
        self.content = "before"
        self.time = NOW
        self.store = ApprovalStore(directory / "state" / "approvals.sqlite3", clock=lambda: self.time)
        self.tool = Tool("risky", self._func(), "g", "b", ToolPolicy("medium", ("disk",)), plan=self._plan)

    def _func(self) -> Callable[..., Any]:
        def risky(path: str, count: int = 1) -> dict[str, Any]:
            """Do something risky."""
            self.ran.append(("run", path, count))
            return {"ok": True, "path": path}

        return risky

    def _plan(self, path: str, count: int = 1) -> Plan:
        self.ran.append(("plan", path, count))
        if path == "absent":
            raise KsadkError("there is no such file", code="file_exists", hint="Look first.", path=path)
        return Plan(f"touch {path}", "here", hashlib.sha256(self.content.encode()).hexdigest())

    def gateway(self, mode: str = "strict", **options: Any) -> ToolGateway:
        return ToolGateway(store=self.store, approval_mode=mode, **options)

    def call(self, gateway: ToolGateway | None = None, approval: Any = None, **arguments: Any) -> Any:
        return (gateway or self.gateway()).call(self.tool, (), arguments or {"path": "a"}, approval)

    def waiting(self, **arguments: Any) -> str:
        """The id of a request that waits for this call."""
        self_id: str = self.call(**arguments)["approval_request"]["id"]
        self.ran.clear()
        return self_id

    def approved(self, **arguments: Any) -> str:
        request_id = self.waiting(**arguments)
        self.store.decide(request_id, "approved", by="a test")
        return request_id

    @property
    def ran_it(self) -> bool:
        return any(entry[0] == "run" for entry in self.ran)


class Asked:
    """Answers with one decision after the other, and keeps what it was asked."""

    def __init__(self, *decisions: Decision) -> None:
        self.decisions = list(decisions)
        self.requests: list[ApprovalRequest] = []
        self.notes: list[str] = []

    def __call__(self, request: ApprovalRequest, note: str = "") -> Decision:
        self.requests.append(request)
        self.notes.append(note)
        return self.decisions.pop(0)


def refused(result: dict[str, Any], outcome: str, code: str) -> bool:
    """Whether a result is exactly a refusal of that outcome and code, with a reason."""
    assert result.keys() - {"hint"} == {
        "ok", "error_type", "error_message", "type", "approval_required", "tool_name", "risk_level", "reason",
    }  # fmt: skip
    assert (result["ok"], result["approval_required"], result["risk_level"]) == (False, False, "medium")
    assert result["reason"]
    return (result["type"], result["error_type"], result["tool_name"]) == (outcome, code, "risky")
