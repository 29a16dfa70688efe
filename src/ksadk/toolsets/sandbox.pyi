# Written by scripts/stubs.py from sandbox.py: what a call takes, `approval` included.

from collections.abc import Mapping
from typing import Any

from ksadk.settings import Settings

LANGUAGES: dict[str, str]

def backend(settings: Settings | None = None) -> str: ...
def enabled(settings: Settings | None = None) -> bool: ...
def isolated(settings: Settings | None = None) -> bool: ...
def get_sandbox_tools() -> list[Any]: ...
def line_of(arguments: Mapping[str, Any]) -> str | None: ...
def sandbox_status() -> dict[str, Any]: ...
def run_command(
    command: str,
    cwd: str | None = None,
    timeout: int | None = None,
    env: dict[str, str] | None = None,
    background: bool = False,
    approval: dict[str, Any] | None = None,
) -> dict[str, Any]: ...
def run_code(
    code: str,
    language: str = "python",
    timeout: int | None = None,
    env: dict[str, str] | None = None,
    approval: dict[str, Any] | None = None,
) -> dict[str, Any]: ...
