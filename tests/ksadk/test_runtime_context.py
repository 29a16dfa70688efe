"""Who is calling: each thread and task sees its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from ksadk import runtime_context as rc
from ksadk.errors import SettingsError
from ksadk.runtime_context import PlatformInvocationContext, ToolExecutionContext
from ksadk.tools.gateway import ToolGateway


def test_outside_a_request_there_is_no_context_and_the_defaults_hold() -> None:
    assert rc.get_current_invocation_context() is None
    assert rc.get_current_tool_execution_context() is None
    assert rc.get_current_invocation_context_or_default() == PlatformInvocationContext()
    assert rc.get_current_tool_execution_context_or_default() == ToolExecutionContext()
    assert (rc.get_current_account_id("none"), rc.get_current_user_id("nobody")) == ("none", "nobody")
    assert (rc.get_current_session_id(), rc.get_current_session_id("")) == ("default", "")
    assert rc.get_current_workspace_root() is None


def test_a_scope_holds_inside_its_block_and_ends_with_it_also_when_it_fails() -> None:
    with pytest.raises(RuntimeError), rc.platform_invocation_scope(PlatformInvocationContext(account_id="a")):
        with rc.platform_invocation_scope(PlatformInvocationContext(account_id="b", user_id="u")):
            assert (rc.get_current_account_id(), rc.get_current_user_id()) == ("b", "u")
        assert (rc.get_current_account_id(), rc.get_current_user_id()) == ("a", "")
        raise RuntimeError
    assert rc.get_current_invocation_context() is None


def test_the_tool_calls_session_comes_before_the_requests() -> None:
    with rc.platform_invocation_scope(PlatformInvocationContext(session_id="request")):
        assert rc.get_current_session_id() == "request"
        with rc.tool_execution_scope("tool", "run", "invocation") as context:
            assert rc.get_current_session_id() == "tool"
            assert context == ToolExecutionContext("tool", "run", "invocation")
        with rc.tool_execution_scope(""):
            assert rc.get_current_session_id() == "request"


def test_the_workspace_root_is_scoped(tmp_path: Path) -> None:
    with rc.workspace_root_scope(tmp_path):
        assert rc.get_current_workspace_root() == tmp_path
    assert rc.get_current_workspace_root() is None


def test_set_and_reset_are_a_pair() -> None:
    token = rc.set_current_invocation_context(PlatformInvocationContext(account_id="a"))
    tool = rc.set_current_tool_execution_context(ToolExecutionContext("s"))
    assert (rc.get_current_account_id(), rc.get_current_session_id()) == ("a", "s")
    rc.reset_current_tool_execution_context(tool)
    rc.reset_current_invocation_context(token)
    assert rc.get_current_invocation_context() is None
    assert rc.get_current_tool_execution_context() is None


def test_a_reset_with_a_token_of_another_context_changes_nothing_and_does_not_raise() -> None:
    foreign = copy_context().run(
        rc.set_current_invocation_context, PlatformInvocationContext(account_id="foreign")
    )
    foreign_tool = copy_context().run(rc.set_current_tool_execution_context, ToolExecutionContext("foreign"))
    with (
        rc.platform_invocation_scope(PlatformInvocationContext(account_id="mine")),
        rc.tool_execution_scope("me"),
    ):
        rc.reset_current_invocation_context(foreign)
        rc.reset_current_tool_execution_context(foreign_tool)
        assert (rc.get_current_account_id(), rc.get_current_session_id()) == ("mine", "me")


def test_a_scope_that_a_generator_closes_in_another_context_does_not_raise() -> None:
    def streaming():
        with rc.platform_invocation_scope(PlatformInvocationContext(account_id="a")):
            yield rc.get_current_account_id()

    stream = streaming()
    assert copy_context().run(next, stream) == "a"
    copy_context().run(stream.close)


def test_threads_do_not_see_each_others_account() -> None:
    meet = threading.Barrier(8)

    def work(number: int) -> tuple[str, str]:
        with rc.platform_invocation_scope(PlatformInvocationContext(account_id=f"a{number}")):
            meet.wait(10)
            first = rc.get_current_account_id()
            meet.wait(10)
            return first, rc.get_current_account_id()

    with (
        rc.platform_invocation_scope(PlatformInvocationContext(account_id="outer")),
        ThreadPoolExecutor(8) as pool,
    ):
        seen = list(pool.map(work, range(8)))
        assert rc.get_current_account_id() == "outer"
    assert seen == [(f"a{n}", f"a{n}") for n in range(8)]


def test_tasks_do_not_see_each_others_account_and_inherit_their_parents() -> None:
    async def work(number: int) -> tuple[str, str]:
        inherited = rc.get_current_account_id()
        with rc.platform_invocation_scope(PlatformInvocationContext(account_id=f"a{number}")):
            await asyncio.sleep(0)
            return inherited, rc.get_current_account_id()

    async def main() -> list[tuple[str, str]]:
        with rc.platform_invocation_scope(PlatformInvocationContext(account_id="parent")):
            seen = await asyncio.gather(*(work(n) for n in range(20)))
            assert rc.get_current_account_id() == "parent"
            return seen

    assert asyncio.run(main()) == [("parent", f"a{n}") for n in range(20)]


def test_a_thread_that_a_task_starts_sees_the_tasks_account() -> None:
    async def main() -> str:
        with rc.platform_invocation_scope(PlatformInvocationContext(account_id="a")):
            return await asyncio.to_thread(rc.get_current_account_id)

    assert asyncio.run(main()) == "a"


@pytest.mark.parametrize(
    ("environment", "request_says", "mode"),
    [
        (None, "", "off"),
        ("strict", "", "strict"),
        ("strict", "off", "off"),
        ("strict", "full", "off"),
        ("off", "ask", "ask"),
        (None, "risk", "strict"),
    ],
)
def test_the_requests_approval_mode_comes_before_the_environments(
    environment: str | None, request_says: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if environment:
        monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", environment)
    with rc.platform_invocation_scope(PlatformInvocationContext(tool_approval_mode=request_says)):
        assert ToolGateway().approval_mode() == mode


def test_a_requests_approval_mode_that_is_no_mode_is_refused() -> None:
    with (
        rc.platform_invocation_scope(PlatformInvocationContext(tool_approval_mode="lax")),
        pytest.raises(SettingsError, match="tool_approval_mode is 'lax'"),
    ):
        ToolGateway().approval_mode()


def test_a_context_cannot_be_changed_and_its_payload_is_its_fields() -> None:
    context = PlatformInvocationContext(agent_id="agent", account_id="account", model="m")
    with pytest.raises(FrozenInstanceError):
        context.account_id = "other"  # type: ignore[misc]
    payload = context.to_payload()
    assert (payload["agent_id"], payload["account_id"], payload["model"]) == ("agent", "account", "m")
    assert PlatformInvocationContext(**payload) == context


def test_two_contexts_share_no_list() -> None:
    one, other = PlatformInvocationContext(), PlatformInvocationContext()
    one.history.append("x")
    assert other.history == []
