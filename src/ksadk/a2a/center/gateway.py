"""The gateway: lets a permitted call through to the agent that it is for, and its answer back.

The caller's token and permit end here. Toward the agent go the caller's account and name, and what the
agent's owner has registered for it; each only to the address of the registered card.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping

import httpx
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ksadk.a2a.callers import ACCOUNT_HEADERS, RUNTIME_HEADERS
from ksadk.a2a.card import REST_PATH
from ksadk.a2a.center.asked import Asked, of_jsonrpc, of_rest
from ksadk.a2a.center.credentials import Credentials
from ksadk.a2a.center.ledger import Ledger
from ksadk.a2a.center.permits import Permit, Permits
from ksadk.a2a.center.refusal import Refusal
from ksadk.a2a.center.registry import Agent
from ksadk.a2a.center.workload_tokens import TokenIssuer, Workload
from ksadk.a2a.space.gateway import PERMIT_HEADER
from ksadk.a2a.space.models import Credential
from ksadk.a2a.wire import no_cookies

CONNECT_SECONDS = 5.0
SILENT_SECONDS = 600.0
"""How long an agent may say nothing."""

_PASSED_ON = ("accept", "a2a-version", "a2a-extensions", "traceparent", "tracestate")
_PASSED_BACK = ("content-type", "content-encoding", "cache-control", "a2a-version", "a2a-extensions")

_NOT_TAKEN = frozenset({301, 302, 307, 308, 401, 403, 407})
"""Statuses that say that a message was not taken: it may be sent again."""

log = logging.getLogger(__name__)


class Gateway:
    """Forwards calls. Close it at the end."""

    def __init__(
        self, issuer: TokenIssuer, permits: Permits, ledger: Ledger, credentials: Credentials
    ) -> None:
        self._issuer = issuer
        self._permits = permits
        self._ledger = ledger
        self._credentials = credentials
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            headers={"user-agent": "agentengine-a2a-gateway"},
            trust_env=False,
            follow_redirects=False,
            cookies=no_cookies(),
        )

    async def aclose(self) -> None:
        """End the connections to agents."""
        await self._http.aclose()

    async def jsonrpc(self, request: Request) -> Response:
        """A call in the binding JSONRPC."""
        return await self._answer(request, "JSONRPC", of_jsonrpc)

    async def rest(self, request: Request) -> Response:
        """A call in the binding HTTP+JSON."""
        raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        path = raw.decode("latin-1").partition(REST_PATH)[2]

        def read(body: bytes) -> Asked:
            return of_rest(request.method, path, request.query_params, body)

        return await self._answer(request, "HTTP+JSON", read)

    async def _answer(self, request: Request, binding: str, read: Callable[[bytes], Asked]) -> Response:
        workload = self._issuer.workload(request.headers.get("authorization", ""), "a2a-gateway")
        permit = self._permits.check(request.headers.get(PERMIT_HEADER, ""), workload.owner)
        asked = read(await request.body())
        if permit.agent_id != request.path_params["agent_id"]:
            raise Refusal(403, "A2A_PERMIT_INVALID", "the call permit is for another agent")
        agent, remote = await self._ledger.permitted(permit)
        asked.check(permit, remote)
        upstream = agent.upstream(binding) if agent.route_kind == "hosted_gateway" else None
        if upstream is None:
            raise Refusal(404, "A2A_AGENT_NOT_FOUND", f"the agent is not called here in {binding}")
        outgoing = self._outgoing(request.headers, workload, agent, asked, upstream, binding)
        if asked.operation == "send_message":
            await self._ledger.use(permit)
        log.info("%s calls %s: %s of %s", workload.owner, agent.agent_id, asked.operation, permit.task_id)
        response = await self._sent(outgoing, agent, permit)
        return await self._passed_back(agent, permit, response)

    async def _sent(self, outgoing: httpx.Request, agent: Agent, permit: Permit) -> httpx.Response:
        try:
            return await self._http.send(outgoing, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            await self._ledger.give_back(permit)
            raise _unreachable(agent, "cannot be reached", error) from error
        except httpx.TimeoutException as error:
            raise _unreachable(agent, "did not answer in time", error) from error
        except httpx.HTTPError as error:
            raise _unreachable(agent, "broke off", error) from error

    def _outgoing(
        self, headers: Mapping[str, str], workload: Workload, agent: Agent, asked: Asked, upstream: str,
        binding: str,
    ) -> httpx.Request:  # fmt: skip
        handle = agent.credential_handle
        owners = self._credentials.get(handle, "") if handle else Credential()
        body = asked.body(binding)
        sent = {name: headers[name] for name in _PASSED_ON if name in headers}
        sent |= {"accept-encoding": "identity"} | ({"content-type": "application/json"} if body else {})
        sent |= {ACCOUNT_HEADERS[0]: workload.account, RUNTIME_HEADERS[1]: workload.name}
        sent |= {name.lower(): value for name, value in owners.headers.items()}
        if owners.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in owners.cookies.items())
        url = httpx.URL(asked.url(upstream, binding)).copy_merge_params(dict(owners.query))
        as_they_came = httpx.Headers(sent, encoding="latin-1")  # any byte may be in a header
        return self._http.build_request("POST" if body else "GET", url, headers=as_they_came, content=body)

    async def _passed_back(self, agent: Agent, permit: Permit, response: httpx.Response) -> Response:
        status = response.status_code
        if status in _NOT_TAKEN:
            await self._ledger.give_back(permit)
        if status in _NOT_TAKEN or response.is_redirect or status >= 600:
            await response.aclose()
            why = "sends elsewhere" if response.is_redirect else "refuses the gateway"
            raise _unreachable(agent, f"{why if status < 600 else 'answers nonsense'} (HTTP {status})")
        response.headers.encoding = "latin-1"  # any byte may be in a header
        headers = {name: response.headers[name] for name in _PASSED_BACK if name in response.headers}
        headers["x-accel-buffering"] = "no"
        return StreamingResponse(_body(agent, response), response.status_code, headers)


async def _body(agent: Agent, response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    except httpx.HTTPError as error:
        log.warning("the answer of %s broke off: %s", agent.agent_id, type(error).__name__)
        raise
    finally:
        await response.aclose()


def _unreachable(agent: Agent, why: str, error: Exception | None = None) -> Refusal:
    log.warning("%s %s%s", agent.agent_id, why, f": {type(error).__name__}" if error else "")
    return Refusal(502, "A2A_AGENT_UNREACHABLE", f"the agent {agent.agent_id} {why}", retryable=True)
