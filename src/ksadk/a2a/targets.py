"""Where an agent is, as people write it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit, urlunsplit

from ksadk.a2a.card import CARD_PATH
from ksadk.a2a.client_errors import AgentError
from ksadk.a2a.urls import split_http_url
from ksadk.hosts import reach

OLD_CARD_PATH = "/.well-known/agent.json"

_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s/:@?#\[\]]+):(\d{1,5})(/\S*)?")


@dataclass(frozen=True)
class Target:
    """What a target means.

    kind: `url` (`place` is the card's address), `file` (`place` is a card's file) or `agent` (`place` is the
        id of an agent in a Space).
    old: where a card of A2A before 1.0 would be; empty where the card's own address was given.
    """

    kind: Literal["url", "file", "agent"]
    place: str
    old: str = ""


def read_target(text: str) -> Target:
    """The meaning of `scheme://...`, `host:port`, a card's URL, a card's .json file, or an agent's id.

    Without a scheme, a loopback host is spoken to by http and any other by https.
    """
    text = text.strip()
    if text.startswith("file://"):
        return Target("file", unquote(urlsplit(text).path))
    if "://" in text:
        return _at(text)
    if text.endswith(".json") and Path(text).is_file():
        return Target("file", text)
    match = _HOST_PORT.fullmatch(text)
    if match:
        local = reach(match[1].strip("[]")) == "loopback"
        return _at(f"{'http' if local else 'https'}://{text}")
    if text.endswith(".json"):
        raise AgentError(f"there is no file {text}", code="A2ACLI_ERR_CARD_NOT_FOUND")
    if not text or "/" in text or not text.isprintable() or len(text) > 256 or any(map(str.isspace, text)):
        raise _unreadable(text, "it is neither an address, a card's file, nor an agent's id")
    return Target("agent", text)


def _at(url: str) -> Target:
    try:
        parts = split_http_url(url)
    except ValueError as error:
        raise _unreadable(url, str(error)) from error
    if "/.well-known/" in parts.path or parts.path.endswith(".json"):
        return Target("url", url)
    base = parts.path.rstrip("/")
    card, old = (
        urlunsplit((parts.scheme, parts.netloc, base + path, "", "")) for path in (CARD_PATH, OLD_CARD_PATH)
    )
    return Target("url", card, old)


def _unreadable(text: str, why: str) -> AgentError:
    return AgentError(
        f"{text!r} is no target: {why}",
        code="A2ACLI_ERR_USAGE",
        hint="Pass http://HOST:PORT, HOST:PORT, the URL of a card, or a card's .json file.",
    )
