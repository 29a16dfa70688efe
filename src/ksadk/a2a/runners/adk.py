"""Agents of Google ADK: agents, apps, workflows, and runners that a project has made itself.

What is said in a context is an ADK session. It is in memory, unless the project's module has a
`session_service`, or gives a `Runner` with one; kept elsewhere, an agent pauses over a restart of the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.events import Event as AdkEvent
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner as AdkLibraryRunner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from ksadk.a2a.runners.adk_events import Asked, Said, asked_by, confirmation_again
from ksadk.a2a.runners.base import (
    Answer,
    AuthRequired,
    Call,
    InputRequired,
    Part,
    Pause,
    RawPart,
    Run,
    RunnerError,
    UrlPart,
    text_of,
)
from ksadk.a2a.runners.conversations import Conversations
from ksadk.a2a.runners.journal import Journal
from ksadk.a2a.runners.task_run import TaskRun
from ksadk.a2a.runners.values import events_of, in_words

USER = "a2a"
"""The user of all sessions: who is calling is in the session's name."""

YES = frozenset({"y", "yes", "true", "ok", "confirm", "confirmed", "approve", "approved"})
"""Texts that confirm what an agent asks of its own accord. They approve nothing that a gateway asks."""


class AdkRunner:
    """Runs an agent, a node, an `App` or a `Runner` of ADK."""

    input_modes: tuple[str, ...] = ("text/plain",)
    output_modes: tuple[str, ...] = ("text/plain",)
    messages = False

    def __init__(self, agent: Any, session_service: Any = None) -> None:
        sessions = session_service or InMemorySessionService()
        if isinstance(agent, AdkLibraryRunner):
            self.library = agent
        elif isinstance(agent, App):
            self.library = AdkLibraryRunner(app=agent, session_service=sessions)
        else:
            app = App.model_construct(name=agent.name, root_agent=agent, plugins=[])
            self.library = AdkLibraryRunner(app=app, session_service=sessions)
        if self.library.plugin_manager.get_plugin(_TellsTool.NAME) is None:
            self.library.plugin_manager.register_plugin(_TellsTool(_TellsTool.NAME))
        self.durable = not isinstance(self.library.session_service, InMemorySessionService)
        self.sessions = Conversations(self._forget)

    def start(self, call: Call) -> Run:
        """See `Runner`."""
        return _AdkRun(call, self)

    def restore(self, call: Call, state: Mapping[str, Any]) -> Run | None:
        """See `Runner`."""
        return _AdkRun(call, self, state)

    async def aclose(self) -> None:
        """See `Runner`."""
        await self.library.close()

    async def session(self, name: str) -> Any:
        """The session of that name, made when it is first asked for."""
        about = {"app_name": self.library.app_name, "user_id": USER, "session_id": name}
        service = self.library.session_service
        return await service.get_session(**about) or await service.create_session(**about)

    async def _forget(self, session: str) -> None:
        if not self.durable:
            await self.library.session_service.delete_session(
                app_name=self.library.app_name, user_id=USER, session_id=session
            )


_tool_context: ContextVar[Any] = ContextVar("ksadk_adk_tool_context", default=None)


class _Paused(Exception):
    """Ends a tool's call that waits for approval; it is run again from its beginning."""


class _TellsTool(BasePlugin):
    """Makes the context of a tool's call known to what the tool calls, and answers for one that waits."""

    NAME = "ksadk_tells_tool"

    async def before_tool_callback(self, *, tool_context: Any, **_: Any) -> None:
        _tool_context.set(tool_context)

    async def on_tool_error_callback(self, *, error: Exception, **_: Any) -> dict[str, Any] | None:
        return {"status": "waits for approval"} if isinstance(error, _Paused) else None


class _AdkRun(TaskRun):
    """A part of the work is one invocation of the agent; ADK runs a confirmed call again in the next."""

    journal: Journal

    def __init__(self, call: Call, runner: AdkRunner, state: Mapping[str, Any] | None = None) -> None:
        super().__init__(call)
        kept = state or {}
        self._runner = runner
        self._started = state is not None
        self._pending = [Asked(**asked) for asked in kept.get("pending", ())]
        self._answered = [(Asked(**asked), response) for asked, response in kept.get("answered", ())]
        self._approvals: dict[str, dict[str, Any]] = {}
        self.journal = Journal(_step, kept.get("journal"))

    async def _work(self) -> InputRequired | None:
        if self._pending:  # several questions were asked at once
            return self._question()
        async with self._runner.sessions.turn(self.call) as refused:
            if refused is not None:
                await self.emit(refused)
                return None
            await self._runner.session(self.call.session)
            await self._invoke(self._message())
            if not self._pending:
                return None
            self._runner.sessions.wait(self.call)
            self.journal.keep(asked.step for asked in self._pending)
        return self._question()

    async def cancel(self) -> None:
        """See `Run`."""
        try:
            await super().cancel()
        finally:
            self._runner.sessions.leave(self.call)

    def _message(self) -> types.Content:
        if not self._started:
            self._started = True
            return types.Content(role="user", parts=[_adk_part(part) for part in self.call.parts])
        self.journal.run_again()
        return types.Content(
            role="user",
            parts=[
                types.Part(
                    function_response=types.FunctionResponse(id=asked.id, name=asked.name, response=response)
                )
                for asked, response in self._answered
            ],
        )

    async def _invoke(self, message: types.Content) -> None:
        again = {asked.step: asked for asked, _ in self._answered if asked.kind == "confirmation"}
        self._answered = []
        said = Said()
        output: Any = None
        stream = self._runner.library.run_async(
            user_id=USER,
            session_id=self.call.session,
            new_message=message,
            run_config=RunConfig(streaming_mode=StreamingMode.SSE),
        )
        async with aclosing(stream) as events:
            async for event in events:
                if event.error_code or event.error_message:
                    raise RunnerError(
                        f"the model or an agent failed: {event.error_code}: {event.error_message}"
                    )
                for told in said.events(event):
                    await self.emit(told)
                output = event.output if event.output is not None else output
                self._pending += [self._with_approval(asked) for asked in asked_by(event)]
                if repeated := [
                    again[step] for step in event.actions.requested_tool_confirmations if step in again
                ]:
                    # Asked once more by a call that was confirmed, which ADK tells nobody.
                    await self._ask_again(event, repeated)
                    break
                if event.actions.requested_auth_configs:
                    await self.emit(AuthRequired("The agent needs you to sign in to a service that it uses."))
        if output is not None and not said.anything:
            for told in events_of(
                output.model_dump(mode="json") if hasattr(output, "model_dump") else output
            ):
                await self.emit(told)

    async def _ask_again(self, event: AdkEvent, repeated: list[Asked]) -> None:
        session = await self._runner.session(self.call.session)
        confirmation = confirmation_again(event, repeated)
        await self._runner.library.session_service.append_event(session, confirmation)
        self._pending += [self._with_approval(asked) for asked in asked_by(confirmation)]

    def _with_approval(self, asked: Asked) -> Asked:
        return asked.of_approval(self._approvals.get(asked.step))

    def _question(self) -> InputRequired:
        asked = self._pending[0]
        state = {
            "pending": [asked.to_json() for asked in self._pending],
            "answered": [[asked.to_json(), response] for asked, response in self._answered],
            "journal": self.journal.to_json(),
        }
        return InputRequired(asked.parts, asked.approval, state if self._runner.durable else None)

    def _take(self, answer: Answer) -> None:
        asked = self._pending.pop(0)
        self._answered.append((asked, _response(asked, answer)))

    def _pause(self) -> Pause:
        return self._confirm

    def _confirm(self, question: InputRequired, /) -> Answer | None:
        """Have ADK ask, and run the tool's call again once it is answered."""
        context = _tool_context.get()
        if context is None or not context.function_call_id or question.approval is None:
            return None
        self._approvals[context.function_call_id] = dict(question.approval)
        context.request_confirmation(hint=text_of(question.question))
        context.actions.skip_summarization = True  # the model is not told of a call that waits
        raise _Paused


def _step() -> str:
    """The call of a tool that is running: ADK runs it again under the same id."""
    context = _tool_context.get()
    return str(context.function_call_id or "") if context is not None else ""


def _response(asked: Asked, answer: Answer) -> dict[str, Any]:
    """What ADK is told. A call that waits for a gateway's approval is run again whatever was decided, and
    finds that itself."""
    if asked.approval is not None:
        return {"confirmed": True}
    value = answer.value
    if asked.kind != "confirmation":
        return value if isinstance(value, dict) else {"result": value}
    if isinstance(value, dict) and isinstance(value.get("confirmed"), bool):
        return {key: value[key] for key in ("confirmed", "payload") if key in value}
    if isinstance(value, bool):
        return {"confirmed": value}
    return {"confirmed": isinstance(value, str) and value.strip().lower() in YES, "payload": value}


def _adk_part(part: Part) -> types.Part:
    if isinstance(part, RawPart):
        return types.Part(
            inline_data=types.Blob(
                data=part.data,
                mime_type=part.media_type or "application/octet-stream",
                display_name=part.filename,
            )
        )
    if isinstance(part, UrlPart):
        return types.Part(
            file_data=types.FileData(
                file_uri=part.url, mime_type=part.media_type or "application/octet-stream"
            )
        )
    return types.Part(text=in_words(part))
