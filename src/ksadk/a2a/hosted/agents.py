"""What may be served inside of an application: any agent, a runner, or a runtime of one's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from ksadk.a2a.runners.base import Answer, Call, Event, Run, Runner, Text, Thinking
from ksadk.a2a.runners.detect import runner_of
from ksadk.a2a.runners.runtime import RuntimeRunner
from ksadk.a2a.runners.runtime_types import RuntimeAdapter
from ksadk.a2a.stores.resume import A2AResumeStateStore

_OF_RUNNERS = ("input_modes", "output_modes", "messages", "start", "restore", "aclose")


def served_runner(agent: Any, states: A2AResumeStateStore) -> Runner:
    """The runner of a `RuntimeAdapter`, whose interrupted runs are in `states`; a runner itself; else the
    runner of an agent as `a2a serve` takes it. Raises `RunnerError` for what is none."""
    if all(hasattr(agent, name) for name in _OF_RUNNERS):
        runner: Runner = agent
        return runner
    return RuntimeRunner(agent, states) if isinstance(agent, RuntimeAdapter) else runner_of(agent)


class InOnePiece:
    """A runner whose text and reasoning are told once they are whole, and not piece by piece."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.input_modes = runner.input_modes
        self.output_modes = runner.output_modes
        self.messages = runner.messages

    def start(self, call: Call) -> Run:
        """See `Runner`."""
        return _WholeRun(self._runner.start(call))

    def restore(self, call: Call, state: Mapping[str, Any]) -> Run | None:
        """See `Runner`."""
        run = self._runner.restore(call, state)
        return None if run is None else _WholeRun(run)

    async def aclose(self) -> None:
        """See `Runner`."""
        await self._runner.aclose()


class _WholeRun:
    def __init__(self, run: Run) -> None:
        self._run = run

    async def events(self) -> AsyncIterator[Event]:
        """See `Run`."""
        held: Text | Thinking | None = None
        async for event in self._run.events():
            if isinstance(event, Text | Thinking) and not event.replace:
                if held is not None and type(held) is type(event):
                    event = type(event)(held.text + event.text, held.replace)
                elif held is not None:
                    yield held
                held = event
                continue
            if held is not None and not _takes_the_place(event, held):
                yield held
            held = event if isinstance(event, Text | Thinking) else None
            if held is None:
                yield event
        if held is not None:
            yield held

    async def answer(self, answer: Answer) -> None:
        """See `Run`."""
        await self._run.answer(answer)

    async def cancel(self) -> None:
        """See `Run`."""
        await self._run.cancel()


def _takes_the_place(event: Event, held: Text | Thinking) -> bool:
    return type(event) is type(held) and isinstance(event, Text | Thinking) and event.replace
