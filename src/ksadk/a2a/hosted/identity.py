"""Who calls a hosted runtime, and what of it the gateway meant to call."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal
from urllib.parse import quote, unquote

from ksadk.a2a.stores.contexts import A2AContextIdentity
from ksadk.errors import KsadkError

A2A_IDENTITY = "a2a_identity"
"""Where the `state` of an ASGI scope holds the verified `A2AIngressIdentity`."""

LONGEST_OWNER = 255
"""Characters of an owner's key: what every store of tasks takes."""

PrincipalType = Literal["user", "runtime", "service"]
AuthnMode = Literal["api_key", "workload_permit", "gateway_service"]

_MODE_OF = {"user": "api_key", "runtime": "workload_permit", "service": "gateway_service"}
_LONGEST = {"account_id": 64, "tenant_id": 64, "caller_principal_id": 128}
_MAY_BE_EMPTY = ("tenant_id",)
_LONGEST_ID = 64


class InvalidIdentity(KsadkError, ValueError):
    """An identity that no gateway can have verified. Its message names the field and no value."""

    code = "A2A_INVALID_IDENTITY"


@dataclass(frozen=True, slots=True)
class A2AIngressIdentity:
    """A caller that the gateway has verified, and the target that it was let through to.

    A user comes with an api_key, a runtime with a workload_permit and its `caller_runtime_id`, a service as
    gateway_service. `tenant_id` may be empty, which is a tenant of its own. Ids are printable and at most 64
    characters, the principal's 128. Raises `InvalidIdentity`.
    """

    account_id: str
    tenant_id: str
    caller_principal_type: PrincipalType
    caller_principal_id: str
    target_agent_id: str
    target_runtime_id: str
    target_a2a_agent_id: str
    authn_mode: AuthnMode
    caller_runtime_id: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "caller_runtime_id" and value is None:
                continue
            _check(field.name, value)
        if _MODE_OF.get(self.caller_principal_type) != self.authn_mode:
            raise InvalidIdentity("authn_mode does not go with caller_principal_type")
        if (self.caller_principal_type == "runtime") != (self.caller_runtime_id is not None):
            raise InvalidIdentity("caller_runtime_id is there for a caller that is a runtime, and only then")
        if not self.target_agent_id.startswith("ar-"):
            raise InvalidIdentity("target_agent_id does not begin with ar-")
        if len(self.owner) > LONGEST_OWNER:
            raise InvalidIdentity(f"the caller's ids are longer than {LONGEST_OWNER} characters together")

    @property
    def owner(self) -> str:
        """Whose tasks the caller's are: `account/tenant/type/principal`."""
        caller = self.account_id, self.tenant_id, self.caller_principal_type, self.caller_principal_id
        return "/".join(quote(side, safe=_UNQUOTED) for side in caller)


_UNQUOTED = " :@+=,;!*'()&$"


def caller_of(owner: str) -> A2AContextIdentity:
    """The caller whose `A2AIngressIdentity.owner` this is, as the context store knows it."""
    account, tenant, kind, principal = (unquote(side) for side in owner.split("/"))
    return A2AContextIdentity(account, tenant, kind, principal)


def _check(name: str, value: object) -> None:
    if type(value) is not str:  # nothing whose equality is of its own making
        raise InvalidIdentity(f"{name} is no text")
    if not value and name not in _MAY_BE_EMPTY:
        raise InvalidIdentity(f"{name} is empty")
    longest = _LONGEST.get(name, _LONGEST_ID)
    if len(value) > longest:
        raise InvalidIdentity(f"{name} is longer than {longest} characters")
    if not value.isprintable() or value != value.strip():
        raise InvalidIdentity(f"{name} holds what no id may hold")
