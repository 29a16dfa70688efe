"""Registers an agent with a center, as its administrator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ksadk.a2a.callers import BearerFileError
from ksadk.a2a.space.answers import opened
from ksadk.a2a.space.asking import ask, checked_url
from ksadk.a2a.space.hosted import platform_client
from ksadk.a2a.wire import without

ADMIN_PATH = "/agentengine/admin/v1/a2a"
REGISTER = "RegisterA2AAgent"


async def register(center_url: str, token: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Register an agent: `{A2ASpaceId, AgentCard, RouteKind, BlockedReason?, Credential?}`. Returns it as the
    Space has it. Raises `A2AControlPlaneError` where the center refuses, or cannot be asked."""
    url = checked_url(center_url, "the center's address")
    async with platform_client() as http:
        headers = {"Authorization": f"Bearer {token}"}
        answer = await ask(http, REGISTER, f"{url}{ADMIN_PATH}/{REGISTER}", request, headers)
    return opened(REGISTER, answer.status, without((token,), answer.body))


def admin_token(file: Path) -> str:
    """The first token of a file whose lines are TOKEN or NAME TOKEN, as a center reads it."""
    try:
        lines = [line.split() for line in file.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BearerFileError(
            f"{file}: the center's administrator's token cannot be read: {why}",
            hint="The center writes it where it keeps its data; --admin-token-file names another file.",
        ) from error
    tokens = [words[-1] for words in lines if words and not words[0].startswith("#")]
    if not tokens or not tokens[0].isascii() or not tokens[0].isprintable():
        raise BearerFileError(f"{file}: holds no token")
    return tokens[0]
