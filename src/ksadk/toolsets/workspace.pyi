# Written by scripts/stubs.py from workspace.py: what a call takes, `approval` included.

from pathlib import Path
from typing import Any

from ksadk.toolsets.workspace_schemas import Edits, Files

def workspace_root() -> Path: ...
def resolve_workspace_path(rel: str) -> Path: ...
def workspace_relative(path: Path | str) -> str: ...
def get_workspace_tools() -> list[Any]: ...
def workspace_status() -> dict[str, Any]: ...
def list_workspace_files(
    path: str = ".",
    glob: str | None = None,
    recursive: bool = False,
    include_dirs: bool = True,
    max_results: int = 500,
    sort_by: str = "name",
) -> dict[str, Any]: ...
def read_workspace_file(
    path: str,
    start_line: int | None = None,
    end_line: int | None = None,
    max_chars: int | None = None,
    include_line_numbers: bool = True,
    encoding: str | None = None,
) -> dict[str, Any]: ...
def write_workspace_file(
    path: str,
    content: str,
    overwrite: bool = True,
    encoding: str | None = None,
    in_place: bool = False,
    approval: dict[str, Any] | None = None,
) -> dict[str, Any]: ...
def write_workspace_files(
    files: Files, overwrite: bool = True, approval: dict[str, Any] | None = None
) -> dict[str, Any]: ...
def edit_workspace_file(
    path: str,
    old_text: str,
    new_text: str,
    expected_replacements: int = 1,
    replace_all: bool = False,
    encoding: str | None = None,
    in_place: bool = False,
    approval: dict[str, Any] | None = None,
) -> dict[str, Any]: ...
def multi_edit_workspace_file(
    path: str,
    edits: Edits,
    replace_all: bool = False,
    encoding: str | None = None,
    in_place: bool = False,
    approval: dict[str, Any] | None = None,
) -> dict[str, Any]: ...
def lint_workspace_file(path: str, language: str = "auto", encoding: str | None = None) -> dict[str, Any]: ...
def search_workspace_files(
    query: str,
    path: str = ".",
    is_regex: bool = False,
    glob: str | None = None,
    case_sensitive: bool = False,
    context_lines: int = 0,
    max_results: int = 100,
) -> dict[str, Any]: ...
def delete_workspace_file(path: str, approval: dict[str, Any] | None = None) -> dict[str, Any]: ...
