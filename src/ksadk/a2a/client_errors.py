"""What goes wrong when an agent is called: one error for each thing, with A2A's own name where it has one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ksadk.errors import KsadkError

BODY_SHOWN = 300
"""How many characters of a body that is not A2A a message quotes."""


class Known(NamedTuple):
    """How the two bindings say an error that A2A names."""

    rpc_code: int
    reason: str


PROTOCOL_ERRORS: dict[str, Known] = {
    "TaskNotFoundError": Known(-32001, "TASK_NOT_FOUND"),
    "TaskNotCancelableError": Known(-32002, "TASK_NOT_CANCELABLE"),
    "PushNotificationNotSupportedError": Known(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    "UnsupportedOperationError": Known(-32004, "UNSUPPORTED_OPERATION"),
    "ContentTypeNotSupportedError": Known(-32005, "CONTENT_TYPE_NOT_SUPPORTED"),
    "InvalidAgentResponseError": Known(-32006, "INVALID_AGENT_RESPONSE"),
    "ExtendedAgentCardNotConfiguredError": Known(-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    "ExtensionSupportRequiredError": Known(-32008, "EXTENSION_SUPPORT_REQUIRED"),
    "VersionNotSupportedError": Known(-32009, "VERSION_NOT_SUPPORTED"),
    "JSONParseError": Known(-32700, "JSON_PARSE_ERROR"),
    "InvalidRequestError": Known(-32600, "INVALID_REQUEST"),
    "MethodNotFoundError": Known(-32601, "METHOD_NOT_FOUND"),
    "InvalidParamsError": Known(-32602, "INVALID_PARAMS"),
    "InternalError": Known(-32603, "INTERNAL_ERROR"),
}
"""A2A 1.0, sections 3.3.2 and 5.4."""

_HINTS = {
    "TaskNotFoundError": "It may have been another agent's, another caller's, or from before a restart.",
    "TaskNotCancelableError": "agentengine a2a status shows how it ended.",
    "UnsupportedOperationError": "Where the task has ended, begin another in its context: --context-id.",
    "ContentTypeNotSupportedError": "agentengine a2a discover shows what the agent takes.",
}


class AgentError(KsadkError):
    """An agent could not be called, or did not answer as A2A says."""

    code = "A2ACLI_ERR_INTERNAL"


class AgentUnreachable(AgentError):
    """Nothing answers at the agent's address."""

    code = "A2ACLI_ERR_UNREACHABLE"


class CardNotFound(AgentError):
    """No card is at the address."""

    code = "A2ACLI_ERR_CARD_NOT_FOUND"


class CardUnusable(AgentError):
    """There is a card, and it cannot be used."""

    code = "A2ACLI_ERR_CARD_INVALID"


class InvalidAnswer(AgentError):
    """The agent answered something that A2A does not have."""

    code = "InvalidAgentResponseError"


class A2AProtocolError(AgentError):
    """The agent said no. `code` is A2A's name of the error, `a2a_code` what the binding called it."""

    def __init__(self, message: str, *, code: str, a2a_code: int | str | None) -> None:
        super().__init__(message, code=code, hint=_HINTS.get(code), a2a_code=a2a_code)


class StreamBroken(AgentError):
    """A stream that the agent had begun was broken off."""

    code = "a2a_stream_cut"


class A2ARunError(AgentError):
    """A run that did not end well: failed, rejected, canceled, paused or cut off.

    state: the task's state in words (`failed`, `input-required`, ...), empty where it is not known.
    text: the text that had come by then.
    task_id, context_id: empty where the agent gave none.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        state: str = "",
        text: str = "",
        task_id: str = "",
        context_id: str = "",
    ) -> None:
        super().__init__(message, code=code, state=state, text=text, task_id=task_id, context_id=context_id)
        self.state = state
        self.text = text
        self.task_id = task_id
        self.context_id = context_id


def rpc_error(error: Mapping[str, Any]) -> AgentError:
    """The error of a JSON-RPC error object."""
    number = error.get("code")
    message = _words(error.get("message"), "the agent gave no reason")
    for name, known in PROTOCOL_ERRORS.items():
        if known.rpc_code == number:
            return A2AProtocolError(message, code=name, a2a_code=known.rpc_code)
    if isinstance(number, int | str):
        return A2AProtocolError(f"{message} (JSON-RPC error {number})", code=AgentError.code, a2a_code=number)
    return InvalidAnswer(f"the agent answered an error without a code: {message}")


def rest_error(body: Any) -> AgentError | None:
    """The error of a body of the shape `{"error": {...}}`; None for any other."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return None
    details = error.get("details")
    reasons = (
        [item.get("reason") for item in details if isinstance(item, dict)]
        if isinstance(details, list)
        else []
    )
    message = _words(error.get("message"), "the agent gave no reason")
    for name, known in PROTOCOL_ERRORS.items():
        if known.reason in reasons:
            return A2AProtocolError(message, code=name, a2a_code=known.reason)
    if any(known.rpc_code == error.get("code") for known in PROTOCOL_ERRORS.values()):
        return rpc_error(error)
    return None


def http_error(status: int, reason: str, body: str, url: str, *, with_credentials: bool) -> AgentError:
    """The error of an HTTP status that is no success and a body that is no A2A error."""
    said = f"HTTP {status} {reason}".rstrip()
    shown = " ".join(_said_in(body).split())[:BODY_SHOWN]
    message = f"{url} answered {said}" + (f": {shown}" if shown else "")
    if status == 401 and not with_credentials:
        return AgentError(
            message,
            code="A2ACLI_ERR_CREDENTIALS_MISSING",
            hint="Pass --bearer or --api-key; agentengine a2a discover shows what the agent wants.",
            a2a_code=status,
        )
    if status in (401, 403, 407):
        hint = "The credentials that were sent do not count there." if with_credentials else None
        return AgentError(message, code="A2ACLI_ERR_AUTH_FAILED", hint=hint, a2a_code=status)
    if status in (502, 503, 504):
        return AgentUnreachable(message, a2a_code=status)
    return AgentError(message, a2a_code=status)


def _said_in(body: str) -> str:
    """The message of a body of the shape `{"error": {"message": ...}}`; any other body as it is."""
    try:
        error = json.loads(body).get("error")
        return _words(error.get("message"), body)
    except (ValueError, AttributeError, RecursionError):
        return body


def _words(message: Any, otherwise: str) -> str:
    return message if isinstance(message, str) and message.strip() else otherwise
