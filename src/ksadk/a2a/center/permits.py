"""Permits: what lets one operation on one task through, for a short time."""

from __future__ import annotations

from dataclasses import dataclass

from ksadk.a2a.center.refusal import Refusal
from ksadk.a2a.center.workload_tokens import Signer
from ksadk.a2a.space.models import Operation

AUDIENCE = "a2a-permit"
LIFETIME_MS = 300_000


@dataclass(frozen=True)
class Permit:
    """What a permit is bound to. The message's hash is empty where no message is sent."""

    operation_id: str
    owner: str
    task_id: str
    agent_id: str
    version_id: str
    operation: Operation
    message_sha256: str
    issued_at: int
    """Milliseconds since 1970, as `expires_at`."""
    expires_at: int


class Permits:
    """Signs permits, and checks them."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def sign(self, permit: Permit) -> str:
        """A permit's text: the same for the same permit, so an answer that was lost can be given again."""
        return self._signer.sign(
            {
                "aud": AUDIENCE, "jti": permit.operation_id, "sub": permit.owner, "task": permit.task_id,
                "agent": permit.agent_id, "version": permit.version_id, "op": permit.operation,
                "message": permit.message_sha256, "iat_ms": permit.issued_at, "exp_ms": permit.expires_at,
                "exp": permit.expires_at // 1000,
            }
        )  # fmt: skip

    def check(self, text: str, owner: str) -> Permit:
        """The permit that a text is. `Refusal` 403 where it is none, is another workload's, or has
        expired."""
        claims = self._signer.read(text, AUDIENCE)
        if claims is None or claims["sub"] != owner:
            raise Refusal(403, "A2A_PERMIT_INVALID", "the call permit is not one of this workload's")
        permit = Permit(
            claims["jti"], claims["sub"], claims["task"], claims["agent"], claims["version"], claims["op"],
            claims["message"], claims["iat_ms"], claims["exp_ms"],
        )  # fmt: skip
        if permit.expires_at <= self._signer.clock() * 1000:
            raise Refusal(403, "A2A_PERMIT_EXPIRED", "the call permit has expired: prepare the call again")
        return permit
