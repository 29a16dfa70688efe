"""Plain Python as an agent: what it is given, what it may give, how it asks, and how it is stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest
from agent_runs import answer, asked, call, events_of, run_all, texts

from ksadk.a2a.runners.asking import ask, ask_async
from ksadk.a2a.runners.base import (
    Answer,
    Artifact,
    Call,
    DataPart,
    InputRequired,
    RawPart,
    RunnerError,
    Status,
    Text,
    TextPart,
    Thinking,
)
from ksadk.a2a.runners.callable import CallableRunner, agent
from ksadk.runtime_context import get_current_session_id, tool_execution_scope


def function(text: str) -> str:
    return f"echo {text}"


async def coroutine(text: str) -> str:
    await asyncio.sleep(0)
    return f"echo {text}"


def generator(text: str) -> Iterator[str]:
    yield "echo "
    yield text


async def asynchronous_generator(text: str) -> AsyncIterator[str]:
    yield "echo "
    await asyncio.sleep(0)
    yield text


class Object:
    def __call__(self, text: str) -> str:
        return f"echo {text}"


class AsynchronousObject:
    async def __call__(self, text: str) -> str:
        return f"echo {text}"


KINDS: list[Any] = [
    function, coroutine, generator, asynchronous_generator, Object(), AsynchronousObject(), Object().__call__,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=[getattr(k, "__name__", type(k).__name__) for k in KINDS])
def test_every_kind_of_callable_is_given_the_text(kind: Callable[..., Any]) -> None:
    (events,) = run_all(CallableRunner(kind))
    assert texts(events) == "echo go"
    assert CallableRunner(kind).input_modes == ("text/plain",)


GIVEN = [
    (None, []),
    ("", []),
    ("a", [Text("a")]),
    ({"n": 1}, [Artifact((DataPart({"n": 1}),))]),
    ([1, "x"], [Artifact((DataPart([1, "x"]),))]),
    ([], [Artifact((DataPart([]),))]),
    (3, [Artifact((DataPart(3),))]),
    (RawPart(b"x", "f.txt"), [Artifact((RawPart(b"x", "f.txt"),))]),
    ((TextPart("a"), DataPart(1)), [Artifact((TextPart("a"), DataPart(1)))]),
    (Status("busy"), [Status("busy")]),
    ({"type": "thinking", "delta": "hm", "replace": False}, [Thinking("hm")]),
    ({"type": "reasoning.delta", "delta": "hm"}, [Thinking("hm")]),
    ({"type": "text", "delta": "a", "replace": True}, [Text("a", replace=True)]),
    ({"type": "text"}, [Artifact((DataPart({"type": "text"}),))]),
]


@pytest.mark.parametrize(("value", "expected"), GIVEN, ids=[repr(value) for value, _ in GIVEN])
def test_a_value_says_what_it_is(value: Any, expected: list[Any]) -> None:
    def returns(text: str) -> Any:
        return value

    async def yields(text: str) -> Any:
        yield value

    assert run_all(CallableRunner(returns)) == [expected]
    assert run_all(CallableRunner(yields)) == [expected]


def test_what_is_no_value_of_an_agent_is_an_error_that_names_its_type() -> None:
    with pytest.raises(RunnerError, match="object"):
        run_all(CallableRunner(lambda text: object()))


def test_an_agent_that_takes_the_call_gets_parts_ids_and_metadata() -> None:
    got: list[Call] = []

    def plain(text: str, call: Call) -> None:
        got.append(call)

    def named(call: Any) -> None:
        got.append(call)

    def annotated(given: Call) -> None:
        got.append(given)

    message = call("", DataPart({"k": 1}))
    for function in (plain, named, annotated):
        runner = CallableRunner(function)
        assert "*/*" in runner.input_modes
        run_all(runner, message=message)
    assert got == [message] * 3


def test_what_its_author_says_of_an_agent_holds() -> None:
    @agent(input_modes=["image/png"], output_modes=["application/json"], messages=True)
    def declared(call: Call) -> None: ...

    runner = CallableRunner(declared)
    assert (runner.input_modes, runner.output_modes, runner.messages) == (
        ("image/png",), ("application/json",), True,
    )  # fmt: skip


@pytest.mark.parametrize("function", [lambda: None, lambda a, b: None, lambda *, a: None])
def test_a_function_of_other_arguments_is_no_agent(function: Any) -> None:
    with pytest.raises(RunnerError, match="one argument"):
        CallableRunner(function)


def test_an_exception_travels_to_the_server() -> None:
    def broken(text: str) -> Iterator[str]:
        yield "so far"
        raise ValueError("secret")

    async def go() -> list[Any]:
        told = []
        with pytest.raises(ValueError, match="secret"):
            async for event in CallableRunner(broken).start(call()).events():
                told.append(event)
        return told

    assert asyncio.run(go()) == [Text("so far")]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["in a thread", "on the loop"])
def test_an_agent_that_exits_ends_its_task_and_not_the_server(
    error: BaseException, asynchronous: bool
) -> None:
    def leaves(text: str) -> str:
        raise error

    async def leaves_later(text: str) -> str:
        await asyncio.sleep(0)
        raise error

    with pytest.raises(RunnerError, match=type(error).__name__):
        run_all(CallableRunner(leaves_later if asynchronous else leaves))


def test_an_agent_sees_the_context_that_its_events_were_asked_for_in() -> None:
    def sees(text: str) -> str:
        return get_current_session_id()

    async def sees_too(text: str) -> str:
        return sees(text)

    with tool_execution_scope("the session"):
        assert texts(run_all(CallableRunner(sees))[0]) == "the session"
        assert texts(run_all(CallableRunner(sees_too))[0]) == "the session"


@pytest.mark.parametrize("kind", [generator, asynchronous_generator])
def test_each_chunk_leaves_before_the_next_is_made(kind: Any) -> None:
    gate = threading.Event()

    def slow(text: str) -> Iterator[str]:
        yield "first"
        assert gate.wait(30)
        yield "second"

    async def slow_too(text: str) -> AsyncIterator[str]:
        yield "first"
        assert await asyncio.to_thread(gate.wait, 30)
        yield "second"

    async def go() -> None:
        run = CallableRunner(slow if kind is generator else slow_too).start(call())
        events = run.events()
        assert await asyncio.wait_for(anext(events), 30) == Text("first")
        gate.set()
        assert [event async for event in events] == [Text("second")]

    asyncio.run(go())


def test_a_fast_agent_does_not_run_far_ahead_of_a_slow_reader() -> None:
    given = [0, 0]

    def fast(text: str) -> Iterator[str]:
        for _ in range(2000):
            given[0] += 1
            yield "x"

    async def fast_too(text: str) -> AsyncIterator[str]:
        for _ in range(2000):
            given[1] += 1
            yield "x"

    async def go(kind: Any, at: int) -> None:
        events = CallableRunner(kind).start(call()).events()
        await anext(events)
        await asyncio.sleep(0.1)
        assert given[at] < 600
        assert len([event async for event in events]) == 1999

    asyncio.run(go(fast, 0))
    asyncio.run(go(fast_too, 1))


def asks(text: str) -> str:
    return f"{ask('which city?')} and {ask({'question': 'when?'})}"


async def asks_on_the_loop(text: str) -> str:
    await asyncio.sleep(0)
    first = ask("which city?")
    await asyncio.sleep(0)
    return f"{first} and {ask({'question': 'when?'})}"


async def asks_in_tasks(text: str) -> str:
    first = await asyncio.create_task(ask_async("which city?"))
    return f"{first} and {await ask_async({'question': 'when?'})}"


def asks_and_yields(text: str) -> Iterator[str]:
    yield ask("which city?")
    yield f" and {ask({'question': 'when?'})}"


async def asks_and_yields_on_the_loop(text: str) -> AsyncIterator[str]:
    yield ask("which city?")
    yield f" and {ask({'question': 'when?'})}"


CITY = InputRequired((TextPart("which city?"),))
WHEN = InputRequired((TextPart("when?"), DataPart({"question": "when?"})))


def yields_questions(text: str) -> Generator[InputRequired | str, Any, str]:
    city = yield CITY
    yield city
    return f" and {yield WHEN}"


async def yields_questions_on_the_loop(text: str) -> AsyncGenerator[InputRequired | str, Any]:
    city = yield CITY
    yield city
    yield f" and {yield WHEN}"


ASKERS = [
    asks, asks_on_the_loop, asks_in_tasks, asks_and_yields, asks_and_yields_on_the_loop, yields_questions,
    yields_questions_on_the_loop,
]  # fmt: skip


@pytest.mark.parametrize("agent", ASKERS)
def test_an_agent_asks_and_goes_on_with_the_answer(agent: Any) -> None:
    first, second, rest = run_all(CallableRunner(agent), answer("Paris"), answer("now"))
    assert asked(first).question == (TextPart("which city?"),)
    assert asked(first).approval is None
    assert asked(second).question == (TextPart("when?"), DataPart({"question": "when?"}))
    assert texts(second + rest) == "Paris and now"


def returns_a_question(text: str) -> InputRequired | str:
    return CITY if text == "go" else f"echo {text}"


async def returns_a_question_on_the_loop(text: str) -> InputRequired | str:
    return returns_a_question(text)


@pytest.mark.parametrize("agent", [returns_a_question, returns_a_question_on_the_loop])
def test_a_function_that_returns_a_question_is_called_again_with_the_answer(agent: Any) -> None:
    first, again, rest = run_all(CallableRunner(agent), answer("go"), answer("Paris"))
    assert first == again == [CITY]
    assert texts(rest) == "echo Paris"


def test_a_decision_answers_a_request_that_an_agent_passes_on() -> None:
    def agent(text: str) -> Generator[InputRequired, Any, str]:
        return str((yield InputRequired((TextPart("may I?"),), approval={"id": "appr_1"}, state={"n": 1})))

    decided = Answer(decision="denied", request_id="appr_1")
    first, rest = run_all(CallableRunner(agent), decided)
    assert asked(first) == InputRequired((TextPart("may I?"),), approval={"id": "appr_1"})
    assert texts(rest) == "denied"


def test_what_a_generator_returns_is_said_last() -> None:
    def agent(text: str) -> Generator[Status, None, str]:
        yield Status("looking")
        return "found"

    assert run_all(CallableRunner(agent)) == [[Status("looking"), Text("found")]]


def test_data_answers_with_its_value() -> None:
    def agent(text: str) -> Any:
        return ask("?")

    assert run_all(CallableRunner(agent), answer({"k": [1]}))[1] == [Artifact((DataPart({"k": [1]}),))]


def test_while_one_agent_waits_on_the_loop_others_run_there() -> None:
    async def go() -> None:
        runner = CallableRunner(asks_on_the_loop)
        waiting = [runner.start(call(task=f"task-{n}")) for n in range(50)]
        for run in waiting:
            asked(await events_of(run))
        assert texts(await events_of(CallableRunner(coroutine).start(call()))) == "echo go"
        for n, run in enumerate(waiting):
            await run.answer(answer(str(n)))
            asked(await events_of(run))
            await run.answer(answer("now"))
            assert texts(await events_of(run)) == f"{n} and now"

    asyncio.run(go())


def test_in_a_task_of_the_agents_own_a_plain_ask_is_refused_with_what_to_do() -> None:
    async def agent(text: str) -> str:
        async def inner() -> str:
            return str(ask("?"))

        return await asyncio.create_task(inner())

    with pytest.raises(RunnerError) as caught:
        run_all(CallableRunner(agent))
    assert "ask_async" in (caught.value.hint or "")


def test_outside_of_a_run_nobody_is_asked() -> None:
    with pytest.raises(RunnerError):
        ask("?")


def test_an_agent_that_waits_does_not_outlive_its_process() -> None:
    assert CallableRunner(asks).restore(call(), {}) is None


@pytest.mark.parametrize("agent", ASKERS)
def test_cancel_ends_an_agent_that_waits_for_an_answer(agent: Any) -> None:
    async def go() -> None:
        run = CallableRunner(agent).start(call())
        asked(await events_of(run))
        await asyncio.wait_for(run.cancel(), 30)
        assert await events_of(run) == []

    asyncio.run(go())
