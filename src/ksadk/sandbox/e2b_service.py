"""The service that E2B's sandboxes come from: its SDK, its key, and its errors as ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ksadk.errors import KsadkError
from ksadk.sandbox.base import SandboxError
from ksadk.settings import Settings

# What the SDK logs is for those who ask for it; where nobody has, Python would print it.
logging.getLogger("e2b").addHandler(logging.NullHandler())

_EXTRA = "pip install 'agentengine-cli[e2b]'"

NOT_FOUND = frozenset({"NotFoundException", "FileNotFoundException", "SandboxNotFoundException"})
"""What a sandbox that is not ready yet answers with."""

_CODES = {
    "FileNotFoundException": "not_found",
    "SandboxNotFoundException": "sandbox_ended",
    "SandboxNotRunningException": "sandbox_ended",
    "SandboxUnreachableException": "sandbox_unreachable",
    "NotEnoughSpaceException": "no_space",
    "AuthenticationException": "sandbox_unauthenticated",
    "RateLimitException": "sandbox_busy",
    "ServiceBusyException": "sandbox_busy",
    "ConnectError": "sandbox_unreachable",
    "ConnectionError": "sandbox_unreachable",
}
"""Exceptions by the names that the SDK, httpx and Python have for them, in every release of the SDK."""

_ENDED = "likely due to sandbox timeout"
"""How releases of the SDK without a class for it say that a sandbox is gone."""

_WORDS = {
    "sandbox_ended": (
        "it is not there any more",
        "Its life was over, or somebody ended it. The next call starts another one.",
    ),
    "sandbox_unauthenticated": (
        "E2B refused the key",
        "Set E2B_API_KEY to a key of the E2B account that the template is in.",
    ),
    "sandbox_busy": ("E2B takes no more requests now", "Wait a moment, and try again."),
    "sandbox_unreachable": (
        "there is no connection",
        "See to the connection to E2B, and to E2B_DOMAIN where that is not e2b.app.",
    ),
}
"""What is said of an error, and what to do, where the SDK's own words are for its programmers."""


@dataclass(frozen=True)
class Service:
    """The class whose methods speak to E2B, and the key they are given: none where the class has its own."""

    sandbox_cls: Any
    key: str = field(default="", repr=False)

    @classmethod
    def of(cls, sandbox_cls: Any, settings: Settings) -> Service:
        """The SDK with the key of the settings, or the class that a caller brings. Raises `SandboxError`."""
        if sandbox_cls is not None:
            return cls(sandbox_cls)
        try:
            from e2b import Sandbox
        except ImportError as error:
            raise SandboxError(
                f"E2B's SDK is not installed ({error})", code="extra_not_installed", hint=_EXTRA
            ) from error
        if not settings.e2b_api_key:
            raise SandboxError(
                "there is no key of E2B", code="sandbox_unauthenticated", hint="Set E2B_API_KEY."
            )
        return cls(Sandbox, settings.e2b_api_key)

    @property
    def options(self) -> dict[str, str]:
        """What each call of a method of the class is given besides."""
        return {"api_key": self.key} if self.key else {}

    @contextmanager
    def asked(self, failing: str) -> Iterator[None]:
        """What E2B raises becomes a `SandboxError` that begins with `failing`, and never holds the key."""
        try:
            yield
        except KsadkError:
            raise
        except Exception as error:
            code = _code(error)
            words, hint = _WORDS.get(code, (_words(error, code), None))
            shown = words.replace(self.key, "<secret>") if self.key else words
            ours = SandboxError(f"{failing}: {shown}", code=code, hint=hint)
            if self.key and self.key in str(error):
                raise ours from None
            raise ours from error


def names(error: BaseException) -> set[str]:
    """The names of an exception's classes, from its own upwards."""
    return {kind.__name__ for kind in type(error).__mro__}


def _words(error: Exception, code: str) -> str:
    if code == SandboxError.code:
        return f"{type(error).__name__}: {error}"
    return str(error)


def _code(error: Exception) -> str:
    kinds = (_CODES.get(kind.__name__) for kind in type(error).__mro__)
    found = next(filter(None, kinds), SandboxError.code)
    return "sandbox_ended" if found == SandboxError.code and _ENDED in str(error) else found
