"""Plain Python as an agent: a function, coroutine function, generator, asynchronous generator, or an object
that can be called."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ksadk.a2a.runners.base import Answer, Call, InputRequired, Run, RunnerError
from ksadk.a2a.runners.task_run import TaskRun
from ksadk.a2a.runners.threads import Canceled
from ksadk.a2a.runners.values import events_of

F = TypeVar("F", bound=Callable[..., Any])

TEXT = ("text/plain",)
ANYTHING = ("text/plain", "application/json", "*/*")


@dataclass(frozen=True)
class Declared:
    """What an agent's author says of it; None leaves it to the runner."""

    input_modes: tuple[str, ...] | None = None
    output_modes: tuple[str, ...] | None = None
    messages: bool = False


def agent(
    *,
    input_modes: tuple[str, ...] | list[str] | None = None,
    output_modes: tuple[str, ...] | list[str] | None = None,
    messages: bool = False,
) -> Callable[[F], F]:
    """Say of a function that is an agent which media types it takes and gives, and with `messages` that it
    may answer with a `Reply`, without a task."""

    def declare(function: F) -> F:
        declared = Declared(
            None if input_modes is None else tuple(input_modes),
            None if output_modes is None else tuple(output_modes),
            messages,
        )
        function.__ksadk_agent__ = declared  # type: ignore[attr-defined]
        return function

    return declare


class CallableRunner:
    """Calls it with the message's text or, where a parameter is named `call` or annotated `Call`, with that.

    An agent that gets the text only takes text/plain; one that gets the call takes anything, unless `agent`
    says otherwise. What it returns or yields is read by `events_of`. A generator that yields an
    `InputRequired` gets the answer's value there; a function that returns one is called again with the
    answer. Synchronous code runs in a thread.
    """

    def __init__(self, function: Callable[..., Any], name: str = "the agent") -> None:
        self._function = function
        self._arguments = _argument_reader(function, name)
        declared = getattr(function, "__ksadk_agent__", Declared())
        takes_call = any(argument is _NO_CALL for argument in self._arguments(_NO_CALL))
        self.input_modes: tuple[str, ...] = declared.input_modes or (ANYTHING if takes_call else TEXT)
        self.output_modes: tuple[str, ...] = declared.output_modes or TEXT
        self.messages: bool = declared.messages

    def start(self, call: Call) -> Run:
        """See `Runner`."""
        return _CallableRun(call, self._function, self._arguments)

    def restore(self, call: Call, state: Mapping[str, Any]) -> Run | None:  # noqa: ARG002
        """None: a function that waits is gone with its process."""
        return None

    async def aclose(self) -> None:
        """Nothing is held."""


class _CallableRun(TaskRun):
    def __init__(
        self, call: Call, function: Callable[..., Any], arguments: Callable[[Call], tuple[Any, ...]]
    ) -> None:
        super().__init__(call)
        self._function = function
        self._arguments = arguments

    async def _work(self) -> InputRequired | None:
        arguments = self._arguments(self.call)
        if _is_asynchronous(self._function):
            given = self._function(*arguments)
            if isinstance(given, AsyncGenerator):
                await self._tell_all(given)
                return None
            returned = await given
        else:
            returned = await asyncio.to_thread(self._in_thread, arguments, asyncio.get_running_loop())
        if isinstance(returned, InputRequired):
            return _question(returned)
        await self._say(returned)
        return None

    def _take(self, answer: Answer) -> None:
        """The function had returned its question: the answer is its next message."""
        self.call = replace(self.call, parts=answer.parts)

    async def _tell_all(self, given: AsyncGenerator[Any, Any]) -> None:
        answer = None
        async with aclosing(given):
            while True:
                try:
                    value = await given.asend(answer)
                except StopAsyncIteration:
                    return
                answer = None
                if isinstance(value, InputRequired):
                    answer = (await self.ask_here(_question(value))).value
                else:
                    await self._say(value)

    async def _say(self, value: Any) -> None:
        for event in events_of(value):
            await self.emit(event)

    def _in_thread(self, arguments: tuple[Any, ...], loop: asyncio.AbstractEventLoop) -> Any:
        """What the function returns; what it yields is told from here."""
        given = self._function(*arguments)
        if inspect.isawaitable(given) or isinstance(given, AsyncIterator):
            raise RunnerError("a function that is not asynchronous gave what must be awaited")
        if not isinstance(given, Iterator):
            return given
        answer = None
        try:
            while True:
                try:
                    value = given.send(answer) if isinstance(given, Generator) else next(given)
                except StopIteration as end:
                    return end.value
                answer = self._tell_from_thread(value, loop)
                if self.canceled:
                    raise Canceled
        finally:
            if isinstance(given, Generator):
                given.close()

    def _tell_from_thread(self, value: Any, loop: asyncio.AbstractEventLoop) -> Any:
        """Tell what a value says; the value of the answer, where it asks."""
        if isinstance(value, InputRequired):
            answer = self.ask(_question(value))
            assert answer is not None, "a thread can wait"
            return answer.value
        for event in events_of(value):
            self.emit_from_thread(event, loop)
        return None


def _question(asked: InputRequired) -> InputRequired:
    """What an agent asks, which nothing can go on from after a restart."""
    return replace(asked, state=None)


def _is_asynchronous(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine or an asynchronous generator."""
    candidates = (inspect.unwrap(function), getattr(function, "func", None), type(function).__call__)
    return any(
        inspect.iscoroutinefunction(candidate) or inspect.isasyncgenfunction(candidate)
        for candidate in candidates
    )


def _argument_reader(function: Callable[..., Any], name: str) -> Callable[[Call], tuple[Any, ...]]:
    """What gives a function its arguments, by its signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise RunnerError(f"{name} has no signature: {error}") from error
    wanted = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    needed = [
        parameter for parameter in wanted if parameter.default is parameter.empty or _is_call(parameter)
    ]
    takes = needed or wanted[:1]
    if not takes or len([item for item in takes if not _is_call(item)]) > 1 or len(takes) > 2:
        raise RunnerError(
            f"{name} must take one argument, the text of the message, and not {signature}",
            hint="A second one named call, or one annotated Call, gets parts, ids and metadata too.",
        )
    return lambda call: tuple(call if _is_call(item) else call.text for item in takes)


def _is_call(parameter: inspect.Parameter) -> bool:
    said = parameter.annotation
    if isinstance(said, str):
        return parameter.name == "call" or said.rpartition(".")[2] == "Call"
    return parameter.name == "call" or said is Call


_NO_CALL = Call("", "", "", ())
