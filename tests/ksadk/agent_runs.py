"""Runs agents as a server does: collects their events, answers them, and takes them up again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ksadk.a2a.runners.base import (
    Answer,
    Call,
    DataPart,
    Event,
    InputRequired,
    Run,
    Runner,
    Text,
    TextPart,
    Thinking,
)
from ksadk.toolsets import workspace
from ksadk.toolsets.served import GatewayApprovals


def call(text: str = "go", *parts: Any, task: str = "task-1", context: str = "context-1") -> Call:
    return Call(f"message-{task}", task, context, (TextPart(text), *parts) if text else parts)


async def events_of(run: Run, approvals: GatewayApprovals | None = None) -> list[Event]:
    """The events up to the next question or the end."""
    if approvals is None:
        return [event async for event in run.events()]
    with approvals.scope():
        return [event async for event in run.events()]


def run_all(runner: Runner, *answers: Answer, message: Call | None = None) -> list[list[Event]]:
    """The events before the first answer, before the second, and so on."""

    async def go() -> list[list[Event]]:
        run = runner.start(message or call())
        told = [await asyncio.wait_for(events_of(run), 20)]
        for answer in answers:
            await run.answer(answer)
            told.append(await asyncio.wait_for(events_of(run), 20))
        await runner.aclose()
        return told

    return asyncio.run(go())


def texts(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def thoughts(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Thinking))


def asked(events: list[Event]) -> InputRequired:
    """The question that the events end with."""
    assert isinstance(events[-1], InputRequired), events
    return events[-1]


def approval_of(events: list[Event]) -> Mapping[str, Any]:
    """The request for approval that the events end with."""
    approval = asked(events).approval
    assert approval is not None, events
    return approval


def answer(value: Any) -> Answer:
    return Answer((TextPart(value) if isinstance(value, str) else DataPart(value),))


def decided(approvals: GatewayApprovals, events: list[Event], approve: bool = True) -> Answer:
    """Decide about the request that the events end with; what tells the run of it."""
    request_id = approval_of(events)["id"]
    approvals.decide(request_id, approve, "a test")
    return Answer(decision="approved" if approve else "denied", request_id=request_id)


def log_line(name: str = "finished.txt") -> None:
    """What a step does that must not be done again."""
    with Path(name).open("a") as file:
        file.write("a finished step\n")


def lines(name: str = "finished.txt") -> int:
    """How often such a step was done."""
    path = Path(name)
    return len(path.read_text().splitlines()) if path.exists() else 0


def written(name: str = "made.txt") -> str:
    """What is in a file of the workspace."""
    path = workspace.workspace_root() / name
    return path.read_text() if path.exists() else ""
