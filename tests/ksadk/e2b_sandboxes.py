"""What the tests of E2B's sandboxes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ksadk.sandbox import SandboxError, SandboxSpec
from ksadk.sandbox.e2b import E2BSandboxBackend, E2BSession

Refusal = Callable[[], object]


def started(**wanted: Any) -> E2BSession:
    return E2BSandboxBackend(SandboxSpec("base")).create_session(session_id="s1", **wanted)


def refusal(call: Refusal) -> SandboxError:
    with pytest.raises(SandboxError) as caught:
        call()
    return caught.value
