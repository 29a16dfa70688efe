"""component_status tells what an agent is bound to, and does nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ksadk.runtime_context import PlatformInvocationContext, platform_invocation_scope, workspace_root_scope
from ksadk.toolsets.platform import component_status


def test_nothing_is_bound_where_nothing_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_SANDBOX_BACKEND", "none")
    status = component_status()
    assert status["ok"] is True
    assert status["summary"] == {
        "model": "",
        "knowledge_base_bound": False,
        "long_term_memory_bound": False,
        "skill_space_bound": False,
        "a2a_space_bound": False,
        "isolated_execution": "not_enabled",
        "sandbox_direct_tools": "not_enabled",
    }
    assert status["skill_space"]["space_ids"] == []
    assert status["a2a_space"]["space_ids"] == []
    assert status["skill_runtime"] == {"backend": "disabled", "enabled": False, "template_bound": False}
    assert (status["sandbox"]["backend"], status["sandbox"]["enabled"]) == ("none", False)
    assert status["workspace"]["root"] == str(tmp_path / "work" / ".agentengine" / "ui" / "workspace")


def test_nothing_is_created(tmp_path: Path) -> None:
    component_status()
    assert list((tmp_path / "work").iterdir()) == []


def test_what_is_bound_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "MODEL_NAME": "glm-5.1",
        "KSADK_KB_DATASET_ID": "kb-1",
        "KSADK_LTM_NAMESPACE": "ltm-1",
        "KSADK_SKILL_SPACE_IDS": "space_a",
        "KSADK_PUBLIC_SKILL_SPACE_IDS": "space_p",
        "KSADK_SANDBOX_BACKEND": "e2b",
        "KSADK_SANDBOX_TEMPLATE_ID": "t1",
        "KSADK_A2A_SPACE_IDS": "space-a,space-b",
        "KSADK_A2A_CONTROL_PLANE_URL": "https://user:s3cret@control.example.com",
    }.items():
        monkeypatch.setenv(name, value)
    status = component_status()
    assert status["summary"]["model"] == "glm-5.1"
    assert status["summary"]["knowledge_base_bound"] is True
    assert status["summary"]["long_term_memory_bound"] is True
    assert status["summary"]["skill_space_bound"] is True
    assert status["skill_space"]["space_ids"] == ["space_a", "space_p"]
    assert status["skill_runtime"] == {"backend": "e2b", "enabled": True, "template_bound": True}
    assert (status["sandbox"]["backend"], status["sandbox"]["template_bound"]) == ("e2b", True)
    assert status["summary"]["a2a_space_bound"] is True
    assert (status["a2a_space"]["space_ids"], status["a2a_space"]["public_egress"]) == (
        ["space-a", "space-b"],
        False,
    )
    assert status["a2a_space"]["control_plane_url"].endswith("control.example.com")
    assert "s3cret" not in str(status)


def test_the_tools_of_each_part_are_named() -> None:
    status = component_status()
    assert status["sandbox"]["tools"] == ["sandbox_status", "run_command", "run_code"]
    assert status["a2a_space"]["tools"] == ["a2a_discover", "a2a_call", "a2a_status", "a2a_cancel"]
    assert status["skill_space"]["tools"] == ["list_skills", "search_skills", "load_skill", "execute_skills"]
    assert len(status["workspace"]["tools"]) == 10


def test_isolated_execution_needs_a_backend_that_isolates(monkeypatch: pytest.MonkeyPatch) -> None:
    for backend, isolated in (("e2b", "enabled"), ("local_process", "not_enabled")):
        monkeypatch.setenv("KSADK_SANDBOX_BACKEND", backend)
        summary = component_status()["summary"]
        assert (summary["sandbox_direct_tools"], summary["isolated_execution"]) == ("enabled", isolated)


def test_the_root_is_the_one_that_the_tools_use(tmp_path: Path) -> None:
    with workspace_root_scope(tmp_path):
        assert component_status()["workspace"]["root"] == str(tmp_path)
    with platform_invocation_scope(PlatformInvocationContext(account_id="a")):
        first = component_status()["workspace"]["root"]
    with platform_invocation_scope(PlatformInvocationContext(account_id="b")):
        assert component_status()["workspace"]["root"] != first
