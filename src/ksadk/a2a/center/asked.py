"""What a request to the gateway asks of an agent, in either binding, and whether a permit is for that."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from a2a.types import Message
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from ksadk.a2a import wire
from ksadk.a2a.center.json_bodies import read_object, written
from ksadk.a2a.center.permits import Permit
from ksadk.a2a.center.refusal import Refusal
from ksadk.a2a.space.message_rules import canonical_json
from ksadk.a2a.space.models import Operation, RemoteTask

_METHODS: tuple[tuple[Operation, wire.Operation], ...] = (
    ("send_message", wire.SEND),
    ("send_message", wire.STREAM),
    ("get_task", wire.GET_TASK),
    ("cancel_task", wire.CANCEL),
    ("subscribe_to_task", wire.SUBSCRIBE),
)
_RPC = {method.rpc: (operation, method) for operation, method in _METHODS}
_FIELDS: dict[Operation, tuple[str, ...]] = {
    "send_message": ("message", "configuration", "metadata"),
    "get_task": ("id", "historyLength"),
    "cancel_task": ("id", "metadata"),
    "subscribe_to_task": ("id",),
}
"""What is passed on of a request. A tenant would name another agent."""


@dataclass(frozen=True)
class Asked:
    """An operation with what is passed on of its parameters, written anew: what was checked is what the
    agent reads."""

    operation: Operation
    method: wire.Operation
    params: Mapping[str, Any]
    rpc_id: Any = None
    message: Message | None = None

    def check(self, permit: Permit, remote: RemoteTask | None) -> None:
        """Refuse what the permit is not for: another operation, message or task. `Refusal` 403."""
        if self.operation != permit.operation:
            raise _not_permitted(f"it permits {permit.operation}, not {self.operation}")
        if self.message is None:
            if remote is None or self.params.get("id") != remote.task_id:
                raise _not_permitted("it is not for that task of the agent's")
            return
        ids = self.message.task_id, self.message.context_id
        known = (remote.task_id, remote.context_id) if remote else ("", "")
        if ids[0] != known[0] or ids[1] not in ("", known[1]):
            raise _not_permitted("it is not for that task or context of the agent's")
        if message_sha256(self.message) != permit.message_sha256:
            raise _not_permitted("it is for another message")

    def body(self, binding: str) -> bytes | None:
        """The body of the request to the agent."""
        if binding == "JSONRPC":
            return written(
                {"jsonrpc": "2.0", "id": self.rpc_id, "method": self.method.rpc, "params": self.params}
            )
        rest = {key: value for key, value in self.params.items() if key != "id"}
        return written(rest) if self.method.verb == "POST" else None

    def url(self, upstream: str, binding: str) -> str:
        """The address of the request to the agent."""
        if binding == "JSONRPC":
            return upstream
        path = self.method.path.format(id=quote(str(self.params.get("id", "")), safe=""))
        length = self.params.get("historyLength")
        query = "" if length is None else f"?historyLength={quote(str(length))}"
        return upstream.rstrip("/") + path + query


def of_jsonrpc(body: bytes) -> Asked:
    """What a JSON-RPC request asks. `Refusal` where it is none that a permit could be for."""
    request = read_object(body)
    method, params = request.get("method"), request.get("params")
    if not isinstance(method, str) or method not in _RPC or not isinstance(params, dict):
        raise _bad(f"the gateway takes {', '.join(_RPC)}")
    rpc_id = request.get("id")
    if not isinstance(rpc_id, str | int | None) or isinstance(rpc_id, bool):
        raise _bad("the request's id is neither text nor a number")
    return _asked(*_RPC[method], params, rpc_id)


def of_rest(verb: str, path: str, query: Mapping[str, str], body: bytes) -> Asked:
    """What a request asks that is of HTTP+JSON. `path` is what comes after the interface's URL, as it was
    sent."""
    for operation, method in _METHODS:
        before, _, after = method.path.partition("{id}")
        if path == method.path and verb == "POST":
            return _asked(operation, method, read_object(body))
        inner = path[len(before) : len(path) - len(after)]
        fits = path.startswith(before) and path.endswith(after) and inner and not set(inner) & set("/:")
        if "{id}" in method.path and fits and verb in (method.verb, _also(method)):
            params = read_object(body) if method.verb == "POST" and body else dict(query)
            task_id = unquote(inner)
            if task_id in (".", ".."):  # no segment of a path: what it leads to is another operation
                break
            return _asked(operation, method, {**params, "id": task_id})
    raise _bad("the gateway knows no such operation")


def message_sha256(message: Message) -> str:
    """The hash of a message, without the agent's own ids."""
    bare = Message()
    bare.CopyFrom(message)
    bare.ClearField("task_id")
    bare.ClearField("context_id")
    return hashlib.sha256(canonical_json(MessageToDict(bare))).hexdigest()


def _also(method: wire.Operation) -> str:
    """The other verb of a subscription."""
    return "POST" if method is wire.SUBSCRIBE else method.verb


def _asked(
    operation: Operation, method: wire.Operation, params: Mapping[str, Any], rpc_id: Any = None
) -> Asked:
    passed = {key: params[key] for key in _FIELDS[operation] if params.get(key) is not None}
    if operation != "send_message":
        return Asked(operation, method, passed, rpc_id)
    try:
        message = ParseDict(dict(passed["message"]), Message(), max_recursion_depth=64)
        passed["message"] = MessageToDict(message)
    except (
        ParseError, LookupError, OverflowError, ValueError, TypeError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        raise _bad("the request's message is not one of A2A 1.0") from error
    return Asked(operation, method, passed, rpc_id, message)


def _bad(message: str) -> Refusal:
    return Refusal(400, "A2A_INVALID_REQUEST", message)


def _not_permitted(why: str) -> Refusal:
    return Refusal(403, "A2A_PERMIT_INVALID", f"the call permit does not permit this: {why}")
