"""How an agent's own code asks whoever called it."""

from __future__ import annotations

import asyncio
from typing import Any

from ksadk.a2a.runners.base import InputRequired, RunnerError, current_pause
from ksadk.a2a.runners.values import question_parts


def ask(question: Any) -> Any:
    """Ask, and return the answer when it is there: its text, or the value of its data.

    question: a text, a part, several of them, or any JSON value. The task is INPUT_REQUIRED meanwhile.
    For functions, in a thread or called by the agent's coroutine; raises `RunnerError` where it cannot wait.
    """
    pause = current_pause()
    if pause is None:
        raise RunnerError("ask() asks the caller of a served agent, and this is no served agent")
    answer = pause(InputRequired(question_parts(question)))
    if answer is None:
        raise RunnerError("ask() cannot wait here", hint="In a coroutine: await ask_async(...).")
    return answer.value


async def ask_async(question: Any) -> Any:
    """The same for coroutines, also in tasks that the agent has started."""
    return await asyncio.to_thread(ask, question)
