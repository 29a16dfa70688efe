"""Texts without secrets: for whatever is printed or kept that may quote the environment.

Secret are the values of secret settings, and of other variables whose name says that they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from ksadk.settings import Settings

MASK = "<secret>"
SHORTEST_PART = 4
"""A value is replaced whatever its length; a part of it, such as a password in a URL, from here on."""

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|DSN|COOKIE|AUTH", re.IGNORECASE)

# A value goes up to the next `&`, whatever is in it. A part of a query without `=` is a value. What is
# replaced already stays as it is.
_VALUE = re.compile(rf"([?&](?:[^=&?#]*=)?+)(?!{MASK}(?:[&#]|$))[^&#]+")
_FRAGMENT = re.compile(rf"#(?!{MASK}$).+")


def masker(environ: Mapping[str, str]) -> Callable[[str], str]:
    """What takes the secrets of an environment out of a text, and what may be secret in any URL."""
    secrets = sorted(_secrets(environ), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, secrets)) if secrets else r"(?!)")
    return lambda text: without_user_info(pattern.sub(MASK, text))


def without_user_info(text: str) -> str:
    """Text without the user and password, the values of the query and the fragment of the URLs in it."""
    text = re.sub(r"(?<=://)[^/@\s]+(?=@)", "***", text)
    return re.sub(r"(?<=://)\S+", lambda url: _FRAGMENT.sub("#***", _VALUE.sub(r"\1***", url[0])), text)


def _secrets(environ: Mapping[str, str]) -> set[str]:
    """Every text that must not be shown, also as `repr`, JSON and URLs write it."""
    known = {name: variable.secret for variable in Settings.variables() for name in variable.names}
    found: set[str] = set()
    for name, value in environ.items():
        if value.strip() and known.get(name, bool(_SECRET_NAME.search(name))):
            found |= {value, value.strip()}
            found |= {part for part in _parts(value.strip()) if len(part) >= SHORTEST_PART}
    written = (lambda text: repr(text)[1:-1], lambda text: json.dumps(text)[1:-1], quote, unquote)
    return found | {way(text) for text in found for way in written}


def _parts(value: str) -> Iterator[str]:
    """What is secret by itself inside a value: its lines, the texts of JSON, the password of a URL."""
    yield from value.splitlines()
    try:
        yield from _texts(json.loads(value))
    except (ValueError, RecursionError):
        pass
    try:
        address = urlsplit(value)
        yield from (part for part in (address.password, address.username) if part)
    except ValueError:
        pass


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
