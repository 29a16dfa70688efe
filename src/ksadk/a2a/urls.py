"""The absolute http(s) URLs that an Agent Card may hold."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def split_http_url(text: str) -> SplitResult:
    """The parts of an absolute http or https URL. `ValueError` says in words what is wrong with it."""
    if any(char.isspace() or not char.isprintable() or char in '\\<>"{}|^`' for char in text):
        raise ValueError("it holds a blank or a character that no URL may hold")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"it cannot be read: {error}") from error
    if not parts.scheme or not text[len(parts.scheme) :].startswith("://"):
        raise ValueError("it does not begin with https:// or http://")
    if parts.scheme not in {"http", "https"}:
        raise ValueError(f"its scheme is {parts.scheme}, not https or http")
    if not parts.hostname:
        raise ValueError("it names no host")
    if "@" in parts.netloc:
        raise ValueError("it holds a user name or password, which everybody who reads the card would see")
    if port == 0:
        raise ValueError("port 0 is no port")
    return parts
