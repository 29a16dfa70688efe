"""Whose tasks a request is about, where an application or its platform says who calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.routes.common import ServerCallContextBuilder
from starlette.requests import Request

from ksadk.a2a.callers import ACCOUNT_HEADERS, RUNTIME_HEADERS, CallContexts, Caller, trusted_networks
from ksadk.a2a.hosted.identity import A2A_IDENTITY, A2AIngressIdentity
from ksadk.a2a.stores.base import ACCOUNT_KEY, OWNER_KEY, RUNTIME_KEY
from ksadk.errors import KsadkError

CALL_CONTEXT = "ksadk.call_context"
"""The key of an ASGI scope under which the call context of an admitted request is."""

IdentityResolver = Callable[[Request], A2AIngressIdentity | None]


class UnverifiedIdentity(KsadkError):
    """A request whose sender nobody has verified."""

    code = "A2A_INVALID_IDENTITY"


class HostedContexts(CallContexts):
    """The call context of a verified request. Headers that state an identity are not looked at."""

    def build(self, request: Request) -> ServerCallContext:
        """The call context of the caller that the scope's state has."""
        return verified(super().build(request), identity_in(request))


class A2AOwnerContextBuilder(CallContexts):
    """Says whose tasks a request is about: the caller's that `identity_resolver`, or what stands before the
    routes, has verified (`scope["state"]["a2a_identity"]`).

    Without a verified caller the request is refused, unless `allow_unverified_identity`: then it is about the
    tasks of whom the headers state, where they come from `trusted_edge` (addresses or networks; the edge must
    strip the headers from what it forwards), and from anywhere else about nobody's in particular.
    """

    def __init__(
        self,
        account_headers: Sequence[str] = ACCOUNT_HEADERS,
        runtime_headers: Sequence[str] = RUNTIME_HEADERS,
        identity_resolver: IdentityResolver | None = None,
        allow_unverified_identity: bool = True,
        *,
        trusted_edge: Sequence[str] = (),
    ) -> None:
        super().__init__(
            trusted_networks(tuple(trusted_edge)),
            account_headers=account_headers,
            runtime_headers=runtime_headers,
        )
        self._resolver = identity_resolver
        self._allow_unverified = allow_unverified_identity

    def build(self, request: Request) -> ServerCallContext:
        """The call context; raises where nobody has verified the caller and that is not allowed."""
        identity = self._resolver(request) if self._resolver else identity_in(request)
        context = super().build(request)
        if identity is None and self._allow_unverified:
            return context
        return verified(context, identity)


class ScopeContexts(ServerCallContextBuilder):
    """Gives the call context that was made when the request was admitted."""

    def build(self, request: Request) -> ServerCallContext:
        """The call context of an admitted request."""
        context: ServerCallContext = request.scope[CALL_CONTEXT]
        return context


def identity_in(request: Request) -> Any:
    """What stands before the routes has verified; None where nothing has."""
    return request.scope.get("state", {}).get(A2A_IDENTITY)


def verified(context: ServerCallContext, identity: Any) -> ServerCallContext:
    """A call context that is the verified caller's."""
    if type(identity) is not A2AIngressIdentity:
        raise UnverifiedIdentity("nobody has verified who sends this request")
    context.user = Caller(identity.owner, authenticated=True)
    context.state[OWNER_KEY] = identity.owner
    context.state[ACCOUNT_KEY] = identity.account_id
    context.state[RUNTIME_KEY] = identity.caller_runtime_id or ""
    return context
