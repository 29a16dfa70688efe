"""Registers an agent with a center, as its administrator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ksadk.a2a.callers import BearerFileError, bearer_tokens
from ksadk.a2a.space.answers import opened, understood
from ksadk.a2a.space.asking import ask, checked_url
from ksadk.a2a.space.gateway import platform_client
from ksadk.a2a.space.models import SpaceAgent
from ksadk.a2a.wire import without

ADMIN_PATH = "/agentengine/admin/v1/a2a"
REGISTER = "RegisterA2AAgent"

DIRECTORY = "a2a-center"
"""Of a center's data, in the user's state, where no other is named."""
ADMIN_FILE = "admin.token"
"""Of the administrator's token, in that directory."""


async def register(center_url: str, token: str, request: Mapping[str, Any]) -> SpaceAgent:
    """Register an agent: `{A2ASpaceId, AgentCard, RouteKind, BlockedReason?, Credential?}`. Returns it as the
    Space has it. Raises `A2AControlPlaneError` where the center refuses, or cannot be asked."""
    url = checked_url(center_url, "the center's address")
    async with platform_client() as http:
        headers = {"Authorization": f"Bearer {token}"}
        answer = await ask(http, REGISTER, f"{url}{ADMIN_PATH}/{REGISTER}", request, headers)
    data = opened(REGISTER, answer.status, without((token,), answer.body))
    return understood(REGISTER, data, SpaceAgent.from_payload)


def admin_token(file: Path) -> str:
    """The first token of a file of the center's administrators. `BearerFileError` where it has none that can
    be sent."""
    try:
        (_, token), *_ = bearer_tokens(file)
    except BearerFileError as error:
        where = "The center writes it where it keeps its data; --admin-token-file names another file."
        error.hint = error.hint or where
        raise
    if not token.isascii() or not token.isprintable():
        raise BearerFileError(f"{file}: its first token holds what no header can")
    return token
