"""What a server of agents needs of whatever decides about the calls of their tools.

The gateway is in another layer: it is handed in as an `Approvals`. Without one, a gateway's tool that needs
approval answers its caller with the envelope, as it does wherever nobody can be asked.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal, Protocol

Standing = Literal["pending", "approved", "denied", "expired"]
"""How a request for approval stands."""


class Approvals(Protocol):
    """The approval requests that gateway tools of a served agent make."""

    def scope(self) -> AbstractContextManager[None]:
        """Inside it, a gateway tool that needs approval asks through `current_pause()`."""

    def decision(self, request_id: str) -> Standing:
        """How the request stands. One that is not kept any more has expired."""

    def decide(self, request_id: str, approve: bool, by: str) -> None:
        """Answer the request for `by`, who is a person or a caller that may."""
