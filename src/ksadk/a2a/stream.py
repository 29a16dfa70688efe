"""What an agent writes, piece by piece: thinking and text, in the order in which it sends them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any, Literal, TypedDict

import httpx
from a2a.types import Artifact, Part

from ksadk.a2a.client import ENDED_BADLY, INTERRUPTED, Update, connect, follow, text_message
from ksadk.a2a.client_errors import A2ARunError, AgentError
from ksadk.a2a.parts import REASONING, SNAPSHOT_KEY, THOUGHT_KEY, value_of

Kind = Literal["thinking", "text"]

_BAD_ENDS = {
    "failed": ("a2a_task_failed", "the agent's task failed"),
    "rejected": ("a2a_task_rejected", "the agent rejected the task"),
    "canceled": ("a2a_task_canceled", "the agent's task was canceled"),
    "input-required": ("a2a_input_required", "the agent asks, and waits for an answer"),
    "auth-required": ("a2a_input_required", "the agent waits until somebody has signed in"),
}


class A2AStreamEvent(TypedDict):
    """A piece of what an agent writes. With `replace`, `delta` stands in place of all that there was of the
    type."""

    type: Kind
    delta: str
    replace: bool


class Output:
    """What came of an agent so far, by artifact and type; makes events of what is new in an update."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, Kind], str] = {}

    def whole(self, kind: Kind) -> str:
        """All of one type, artifact after artifact."""
        return "".join(text for (_, of), text in self._texts.items() if of == kind)

    def take(self, update: Update) -> Iterator[A2AStreamEvent]:
        """The events of an update. A status text is neither thinking nor text, but for the last one of a task
        that completed without any text."""
        if update.kind == "artifact_update":
            event = update.value.artifact_update
            yield from self._artifact(event.artifact, append=event.append)
        elif update.kind == "task":
            for artifact in update.value.task.artifacts:
                yield from self._artifact(artifact, append=False)
        if update.kind == "message" or (update.state == "completed" and not self.whole("text")):
            said = update.said
            text = "".join(part.text for part in said.parts) if said else ""
            yield from self._grown(("", "text"), text)

    def _artifact(self, artifact: Artifact, *, append: bool) -> Iterator[A2AStreamEvent]:
        kinds: dict[Kind, list[Part]] = {}
        for part in artifact.parts:
            if part.WhichOneof("content") == "text":
                kind: Kind = "thinking" if is_thinking(artifact, part) else "text"
                kinds.setdefault(kind, []).append(part)
        for kind, parts in kinds.items():
            key = (artifact.artifact_id, kind)
            text = "".join(part.text for part in parts)
            if any(_marked(part.metadata, SNAPSHOT_KEY) for part in parts):
                yield from self._authoritative(key, text)
            elif append:
                yield from self._grown(key, text)
            else:
                yield from self._snapshot(key, text)

    def _grown(self, key: tuple[str, Kind], text: str) -> Iterator[A2AStreamEvent]:
        if text:
            self._texts[key] = self._texts.get(key, "") + text
            yield {"type": key[1], "delta": text, "replace": False}

    def _snapshot(self, key: tuple[str, Kind], text: str) -> Iterator[A2AStreamEvent]:
        """The whole of an artifact: what is new at its end is given, or everything where it has changed."""
        before = self._texts.get(key, "")
        if text.startswith(before):
            yield from self._grown(key, text[len(before) :])
        else:
            self._texts[key] = text
            yield {"type": key[1], "delta": self.whole(key[1]), "replace": True}

    def _authoritative(self, key: tuple[str, Kind], text: str) -> Iterator[A2AStreamEvent]:
        """All of the output: whatever else there was of the type is gone."""
        before = self.whole(key[1])
        for other in [other for other in self._texts if other[1] == key[1]]:
            self._texts[other] = ""
        self._texts[key] = text
        if text != before:
            yield {"type": key[1], "delta": text, "replace": True}


def is_thinking(artifact: Artifact, part: Part) -> bool:
    """Whether a part of an artifact is reasoning, and not the answer."""
    return (
        artifact.name == REASONING
        or _marked(artifact.metadata, THOUGHT_KEY)
        or _marked(part.metadata, THOUGHT_KEY)
    )


def _marked(metadata: Any, key: str) -> bool:
    return key in metadata.fields and metadata[key] is True


def said_text(update: Update, *, data: bool = True) -> str:
    """The words of a status or a message: its texts, and with `data` its data as JSON."""
    import json

    if update.said is None:
        return ""
    texts = [
        part.text
        if part.WhichOneof("content") == "text"
        else json.dumps(value_of(part.data), ensure_ascii=False)
        for part in update.said.parts
        if part.WhichOneof("content") in (("text", "data") if data else ("text",))
    ]
    return "\n".join(texts)


def end_error(update: Update, text: str) -> A2ARunError | None:
    """The error for how a task ended or paused, with the text that had come; None where it ended well."""
    known = _BAD_ENDS.get(update.state)
    if known is None:
        return None
    code, words = known
    reason = said_text(update)
    return A2ARunError(
        f"{words}: {reason}" if reason else f"{words}, and gave no reason",
        code=code, state=update.state, text=text, task_id=update.task_id, context_id=update.context_id,
    )  # fmt: skip


def summary(update: Update, *, wanted: str = "completed") -> dict[str, Any]:
    """What a tool says of a task or a message: `{ok, task_id, context_id, state, text, question?}`.

    A task that ended badly is raised as its error, unless that end was `wanted`.
    """
    output = Output()
    for _ in output.take(update):
        pass
    text = output.whole("text")
    failed = end_error(update, text)
    if failed is not None and update.state in ENDED_BADLY and update.state != wanted:
        raise failed
    result = {
        "ok": True,
        "task_id": update.task_id,
        "context_id": update.context_id,
        "state": update.state,
        "text": text,
    }
    return result | {"question": said_text(update)} if update.state in INTERRUPTED else result


async def stream_a2a_agent_events(
    agent_card_url: str,
    message: str,
    *,
    httpx_client: httpx.AsyncClient | None = None,
    timeout: float = 60.0,
) -> AsyncIterator[A2AStreamEvent]:
    """Send a text to an agent, and give what it writes as it comes: `{"type", "delta", "replace"}`.

    agent_card_url: the agent's base URL, the whole URL of its card, or a card's file.
    timeout: how many seconds the agent may be silent.

    With `replace` true, `delta` replaces everything of its type so far. A stream that is cut is taken up
    again. Raises `A2ARunError` for a task that failed, was rejected or canceled, that waits for somebody, or
    that was lost; it carries the state, the text so far and the task's id. Other errors are `AgentError`.
    """
    output = Output()
    async with connect(agent_card_url, client=httpx_client, timeout=timeout) as agent:
        last: Update | None = None
        state = ""
        try:
            async with aclosing(follow(agent, text_message(message))) as updates:
                async for update in updates:
                    last, state = update, update.state or state
                    for event in output.take(update):
                        yield event
        except AgentError as error:
            if last is None:
                raise
            raise A2ARunError(
                error.message, code=error.code, state=state, text=output.whole("text"),
                task_id=last.task_id, context_id=last.context_id,
            ) from error  # fmt: skip
        failed = end_error(last, output.whole("text")) if last else None
        if failed is not None:
            raise failed


async def stream_a2a_agent(
    agent_card_url: str,
    message: str,
    *,
    httpx_client: httpx.AsyncClient | None = None,
    timeout: float = 60.0,
) -> AsyncIterator[str]:
    """The text alone of `stream_a2a_agent_events`, piece by piece; it cannot tell that text was replaced."""
    events = stream_a2a_agent_events(agent_card_url, message, httpx_client=httpx_client, timeout=timeout)
    async for event in events:
        if event["type"] == "text":
            yield event["delta"]


async def stream_a2a_agent_to_writer(
    agent_card_url: str,
    message: str,
    *,
    writer: Callable[[A2AStreamEvent], Any] | None = None,
    httpx_client: httpx.AsyncClient | None = None,
    timeout: float = 60.0,
) -> str:
    """Give every event of `stream_a2a_agent_events` to `writer` (awaited if it is a coroutine function), and
    return the whole text in the end. Thinking is never in it."""
    text = ""
    events = stream_a2a_agent_events(agent_card_url, message, httpx_client=httpx_client, timeout=timeout)
    async for event in events:
        if event["type"] == "text":
            text = event["delta"] if event["replace"] else text + event["delta"]
        if writer is not None:
            written = writer(event)
            if inspect.isawaitable(written):
                await written
    return text
