"""Where an agent's server is reached: the card, both bindings below the card's URLs, and its health.

Each route says exactly what it takes; nothing catches what is left, so other routes can stand beside these.
"""

from __future__ import annotations

import email.utils
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from a2a.server.jsonrpc_models import InternalError as JSONRPCInternalError
from a2a.server.jsonrpc_models import JSONParseError
from a2a.server.request_handlers.response_helpers import build_error_response
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.server.routes.rest_dispatcher import RestDispatcher
from a2a.types import a2a_pb2 as pb
from a2a.utils.error_handlers import build_rest_error_payload
from a2a.utils.errors import A2AError, ContentTypeNotSupportedError, InternalError, InvalidParamsError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ksadk.a2a.card import CARD_PATH, JSONRPC_PATH, REST_PATH

HEALTH_PATH = "/healthz"
CARD_SECONDS = 60
"""How long a client may keep the card without asking again."""

_STATUS = {"TASK_NOT_CANCELABLE": 409, "CONTENT_TYPE_NOT_SUPPORTED": 415, "INVALID_AGENT_RESPONSE": 502}
"""The HTTP status of errors for which the SDK has another one, by their reason."""

Endpoint = Callable[[Request], Awaitable[Response]]


def card_route(card: Mapping[str, Any], prefix: str, at: float) -> Route:
    """The card, which was made at the time `at`, with what clients need to keep it (8.6.1)."""
    body = json.dumps(card, ensure_ascii=False, separators=(",", ":")).encode()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {
        "ETag": etag,
        "Cache-Control": f"public, max-age={CARD_SECONDS}",
        "Last-Modified": email.utils.formatdate(at, usegmt=True),
    }

    async def get(request: Request) -> Response:
        if _is_kept(request, etag, int(at)):
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)

    return Route(prefix + CARD_PATH, get, methods=["GET"])


def _is_kept(request: Request, etag: str, at: int) -> bool:
    tags = request.headers.get("if-none-match")
    if tags is not None:  # which counts alone where both are there (RFC 9110, 13.2.2)
        return any(tag.strip().removeprefix("W/") in (etag, "*") for tag in tags.split(","))
    since = request.headers.get("if-modified-since")
    try:
        return since is not None and email.utils.parsedate_to_datetime(since).timestamp() >= at
    except ValueError:
        return False


def health_route() -> Route:
    """Whether the server takes requests: one that is stopping answers none."""

    async def get(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Route(HEALTH_PATH, get, methods=["GET"])


class JsonRpc(JsonRpcDispatcher):
    """The SDK's dispatcher, but for the text of an exception, which it would show the caller (5.4)."""

    def _generate_error_response(self, request_id: Any, error: Any) -> JSONResponse:
        if isinstance(error, InternalError | JSONRPCInternalError):
            error = InternalError()
        response: JSONResponse = super()._generate_error_response(request_id, error)
        return response


def jsonrpc_routes(dispatcher: JsonRpcDispatcher, prefix: str = "") -> list[Route]:
    """JSON-RPC, with and without a slash after its URL."""

    async def post(request: Request) -> Response:
        request_id = None
        try:
            _check_type(request)
            body = await request.body()
            if not body.isascii():
                body.decode()
            call = await request.json()  # kept by the request, so that it is read once
            if isinstance(call, dict) and isinstance(call.get("id"), str):
                call["id"].encode()  # half of a surrogate pair could not be answered
            if state := _listed_state(call):
                request_id = call.get("id")
                _check_state(state)
        except A2AError as error:
            return JSONResponse(build_error_response(request_id, error))
        except (ValueError, RecursionError):
            return JSONResponse(build_error_response(None, JSONParseError()))
        response: Response = await dispatcher.handle_requests(request)
        return response

    return [Route(prefix + JSONRPC_PATH + end, post, methods=["POST"]) for end in ("", "/")]


def _listed_state(call: Any) -> Any:
    """The state by which a JSON-RPC call wants tasks listed."""
    params = call.get("params") if isinstance(call, dict) and call.get("method") == "ListTasks" else None
    return params.get("status") if isinstance(params, dict) else None


def rest_routes(dispatcher: RestDispatcher, prefix: str = "") -> list[Route]:
    """HTTP+JSON; a tenant comes after the interface's URL (8.3.2)."""
    operations: dict[tuple[str, str], Endpoint] = {
        ("POST", "/message:send"): dispatcher.on_message_send,
        ("POST", "/message:stream"): dispatcher.on_message_send_stream,
        ("POST", "/tasks/{id}:cancel"): dispatcher.on_cancel_task,
        ("GET", "/tasks/{id}:subscribe"): dispatcher.on_subscribe_to_task,
        ("POST", "/tasks/{id}:subscribe"): dispatcher.on_subscribe_to_task,
        ("GET", "/tasks/{id}"): dispatcher.on_get_task,
        ("GET", "/tasks"): dispatcher.list_tasks,
        ("POST", "/tasks/{id}/pushNotificationConfigs"): dispatcher.set_push_notification,
        ("GET", "/tasks/{id}/pushNotificationConfigs"): dispatcher.list_push_notifications,
        ("GET", "/tasks/{id}/pushNotificationConfigs/{push_id}"): dispatcher.get_push_notification,
        ("DELETE", "/tasks/{id}/pushNotificationConfigs/{push_id}"): dispatcher.delete_push_notification,
        ("GET", "/extendedAgentCard"): dispatcher.handle_authenticated_agent_card,
    }
    return [
        Route(prefix + REST_PATH + tenant + path, _rest(endpoint), methods=[verb])
        for tenant in ("", "/{tenant}")
        for (verb, path), endpoint in operations.items()
    ]


def _rest(endpoint: Endpoint) -> Endpoint:
    async def call(request: Request) -> Response:
        try:
            if request.method == "POST":
                if body := await request.body():
                    _check_type(request)
                if not body.isascii():
                    body.decode()
            elif request.scope["query_string"]:
                _check_state(request.query_params.get("status"))
        except A2AError as error:
            return rest_error(error)
        except UnicodeDecodeError:
            return rest_error(InvalidParamsError("The body is not UTF-8"))
        response = await endpoint(request)
        return response if response.status_code < 400 else _as_specified(response)

    return call


def _as_specified(response: Response) -> Response:
    """An error of the SDK's, with the status of the specification's table (5.4)."""
    error = json.loads(bytes(response.body))["error"]
    reasons = {detail.get("reason") for detail in error.get("details", ())}
    status = next((_STATUS[reason] for reason in reasons if reason in _STATUS), response.status_code)
    return JSONResponse({"error": error | {"code": status}}, status)


def _check_type(request: Request) -> None:
    """JSON is `application/json` or of a `+json` type (9.1, 11.1)."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != "application/json" and not (given.startswith("application/") and given.endswith("+json")):
        raise ContentTypeNotSupportedError(f"A request is application/json, not {given or 'of no type'}")


def _check_state(state: Any) -> None:
    """Refuse a state that there is not, which the SDK would take for no filter (3.1.4)."""
    if state and state not in pb.TaskState.keys() and not isinstance(state, int):  # noqa: SIM118  # no dict
        raise InvalidParamsError(f"There is no task state {str(state)[:64]!r}")


def rest_error(error: A2AError) -> Response:
    """An error as the HTTP+JSON binding writes it (11.6)."""
    payload = build_rest_error_payload(error)
    return _as_specified(JSONResponse(payload, payload["error"]["code"]))


async def http_error(_: Request, error: Exception) -> Response:
    """No route, or not with that verb, in the same shape."""
    assert isinstance(error, HTTPException)
    status = {404: "NOT_FOUND", 405: "UNIMPLEMENTED"}.get(error.status_code, "INVALID_ARGUMENT")
    payload = {"code": error.status_code, "status": status, "message": error.detail}
    return JSONResponse({"error": payload}, error.status_code, headers=error.headers)


async def server_error(_request: Request, _error: Exception) -> Response:
    """A bug of ours, which Starlette raises again once this was sent, so that the log has it."""
    return JSONResponse({"error": {"code": 500, "status": "INTERNAL", "message": "Internal error"}}, 500)
