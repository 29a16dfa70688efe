"""Calls whose arguments a model wrote. It must not approve itself, so `approval` among them is refused."""

from __future__ import annotations

import inspect
from typing import Any

from ksadk.errors import KsadkError
from ksadk.tools.gateway import current_gateway
from ksadk.tools.registry import Tool

_ECHOED_CHARS = 500
"""How much of a text that is not JSON goes back to the model that wrote it."""


def read_arguments(arguments: Any) -> dict[str, Any]:
    """A model's arguments, an object or its JSON text, as a dict; blank text and None are no arguments.

    Raises `invalid_arguments_json`, `invalid_arguments_type` and `approval_in_arguments`.
    """
    given = arguments
    if isinstance(given, str):
        import json

        try:
            given = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError) as error:
            raise KsadkError(
                f"the arguments are not JSON: {error}",
                code="invalid_arguments_json",
                arguments=arguments[:_ECHOED_CHARS],
            ) from None
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise KsadkError(
            "the arguments must be an object",
            code="invalid_arguments_type",
            arguments_type=type(given).__name__,
        )
    if "approval" in given:
        raise KsadkError(
            "approval is not an argument: a person gives it, not the caller",
            code="approval_in_arguments",
            hint="Call without it; whoever runs this agent is asked.",
        )
    return given


def call_for_model(tool: Tool, arguments: Any) -> Any:
    """Call a tool for a model; what is refused is a result, as the gateway gives it."""
    try:
        given = read_arguments(arguments)
    except KsadkError as error:
        return error.to_result()
    return current_gateway().call(tool, (), given)


async def acall_for_model(tool: Tool, arguments: Any) -> Any:
    """The same from asynchronous code: the call runs in a thread, and a coroutine's result is awaited."""
    import asyncio

    result = await asyncio.to_thread(call_for_model, tool, arguments)
    return await result if inspect.isawaitable(result) else result
