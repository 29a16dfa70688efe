"""The service that E2B's sandboxes come from: its SDK, its key, and its errors as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ksadk.errors import KsadkError
from ksadk.sandbox.base import SandboxError
from ksadk.settings import Settings

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

_HINTS = {
    "sandbox_ended": "Its life was over, or somebody ended it. The next call starts another one.",
    "sandbox_unauthenticated": "Set E2B_API_KEY to a key of the E2B account that the template is in.",
    "sandbox_busy": "Wait a moment, and try again.",
    "sandbox_unreachable": "See to the connection to E2B, and to E2B_DOMAIN where it is not e2b.app.",
}


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
            told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            shown = told.replace(self.key, "<secret>") if self.key else told
            code = _code(error)
            ours = SandboxError(f"{failing}: {shown}", code=code, hint=_HINTS.get(code))
            if shown != told:
                raise ours from None  # whose words hold the key
            raise ours from error


def names(error: BaseException) -> set[str]:
    """The names of an exception's classes, from its own upwards."""
    return {kind.__name__ for kind in type(error).__mro__}


def _code(error: Exception) -> str:
    kinds = (_CODES.get(kind.__name__) for kind in type(error).__mro__)
    found = next(filter(None, kinds), SandboxError.code)
    return "sandbox_ended" if found == SandboxError.code and _ENDED in str(error) else found
