"""The workspace tools: what a model may do with files, inside one directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksadk.runtime_context import get_current_workspace_root
from ksadk.sessions import make_session_dir, resolve_local_session_dir
from ksadk.tools.registry import Plan, Target, builtin
from ksadk.toolsets.workspace_schemas import Edits, Files
from ksadk.workspace import paths
from ksadk.workspace.paths import WorkspaceError

if TYPE_CHECKING:
    from ksadk.workspace.read_state import ReadStates

__all__ = [
    "delete_workspace_file",
    "edit_workspace_file",
    "get_workspace_tools",
    "lint_workspace_file",
    "list_workspace_files",
    "multi_edit_workspace_file",
    "read_workspace_file",
    "resolve_workspace_path",
    "search_workspace_files",
    "workspace_relative",
    "workspace_root",
    "workspace_status",
    "write_workspace_file",
    "write_workspace_files",
]

_BOUNDARY = "workspace_root"


def workspace_root() -> Path:
    """The directory that the tools work in, without links: the one that a trusted caller chose, else
    `workspace` in the session's directory, which is made if it is missing."""
    chosen = get_current_workspace_root()
    root = resolve_local_session_dir() / "workspace" if chosen is None else Path(chosen)
    with paths.os_errors(str(root)):
        if chosen is None:
            make_session_dir(root)
        root = root.resolve()
        if not root.is_dir():
            raise WorkspaceError(
                f"the workspace root {root} is not a directory", code="workspace_root_missing"
            )
    return root


def resolve_workspace_path(rel: str) -> Path:
    """Where a path leads, links followed; `WorkspaceError` (a `ValueError`) if that is outside."""
    return paths.locate(workspace_root(), rel).real


def workspace_relative(path: Path | str) -> str:
    """A path inside the workspace, relative to its root, with slashes; `ValueError` for one outside."""
    return paths.relative_to(workspace_root(), Path(path).resolve())


def get_workspace_tools() -> list[Any]:
    """The ten workspace tools, as agent frameworks take them."""
    from ksadk.toolsets.frameworks import as_tools

    tools: list[Callable[..., Any]] = [
        workspace_status, list_workspace_files, read_workspace_file, write_workspace_file,
        write_workspace_files, edit_workspace_file, multi_edit_workspace_file, lint_workspace_file,
        search_workspace_files, delete_workspace_file,
    ]  # fmt: skip
    return list(as_tools(tools))


def _states() -> ReadStates:
    from ksadk.toolsets import workspace_state

    return workspace_state.states()


def _plan_write(
    path: str, content: str, overwrite: bool = True, encoding: str | None = None, in_place: bool = False
) -> Plan:
    from ksadk.toolsets import workspace_plans as plans

    return plans.write(workspace_root(), path, content, overwrite, encoding, in_place)


def _plan_writes(files: Files, overwrite: bool = True) -> Plan:
    from ksadk.toolsets import workspace_plans as plans

    return plans.write_all(workspace_root(), files, overwrite)


def _plan_edit(
    path: str,
    old_text: str,
    new_text: str,
    expected_replacements: int = 1,
    replace_all: bool = False,
    encoding: str | None = None,
    in_place: bool = False,
) -> Plan:
    from ksadk.toolsets import workspace_plans as plans
    from ksadk.workspace import editing

    change = editing.Edit(old_text, new_text, expected_replacements, replace_all)
    how = editing.How(encoding=encoding, in_place=in_place)
    return plans.edit(workspace_root(), _states(), path, [change], how)


def _plan_edits(
    path: str,
    edits: Edits,
    replace_all: bool = False,
    encoding: str | None = None,
    in_place: bool = False,
) -> Plan:
    from ksadk.toolsets import workspace_plans as plans
    from ksadk.workspace import editing

    changes = editing.read_edits(edits, replace_all)
    how = editing.How(encoding=encoding, in_place=in_place)
    return plans.edit(workspace_root(), _states(), path, changes, how, numbered=True)


def _plan_delete(path: str) -> Plan:
    from ksadk.toolsets import workspace_plans as plans

    return plans.delete(workspace_root(), path)


def _path(arguments: Mapping[str, Any]) -> Mapping[str, Target]:
    from ksadk.toolsets import workspace_targets

    return workspace_targets.one(arguments)


def _entry(arguments: Mapping[str, Any]) -> Mapping[str, Target]:
    from ksadk.toolsets import workspace_targets

    return workspace_targets.entry(arguments)


def _paths(arguments: Mapping[str, Any]) -> Mapping[str, Target]:
    from ksadk.toolsets import workspace_targets

    return workspace_targets.many(arguments)


@builtin(group="workspace", boundary=_BOUNDARY)
def workspace_status() -> dict[str, Any]:
    """Report the workspace root and a sample of at most 50 of its files with their sizes.

    All other workspace tools take paths relative to this root.
    """
    from ksadk.workspace import listing

    return listing.status(workspace_root())


@builtin(group="workspace", boundary=_BOUNDARY, targets=_path)
def list_workspace_files(
    path: str = ".",
    glob: str | None = None,
    recursive: bool = False,
    include_dirs: bool = True,
    max_results: int = 500,
    sort_by: str = "name",
) -> dict[str, Any]:
    """List the entries of a workspace directory: name, path, type, size and mtime_ns.

    path: the directory, relative to the workspace root.
    glob: keep entries whose name, or path below the directory, fits, such as `*.py` or `src/**/*.{js,ts}`.
    recursive: also list what is below; what is inside `.git` is not listed.
    include_dirs: list directories too.
    max_results: 1 to 5000; `truncated` says that there are more.
    sort_by: `name`, `mtime` (newest first) or `size` (largest first).
    Symbolic links are listed as `symlink` and not followed. `unreadable` counts directories that could not be
    read.
    """
    from ksadk.workspace import listing

    return listing.list_entries(workspace_root(), path, glob, recursive, include_dirs, max_results, sort_by)


@builtin(group="workspace", boundary=_BOUNDARY, targets=_path)
def read_workspace_file(
    path: str,
    start_line: int | None = None,
    end_line: int | None = None,
    max_chars: int | None = None,
    include_line_numbers: bool = True,
    encoding: str | None = None,
) -> dict[str, Any]:
    """Read a text file of at most 2 MiB, or some of its lines. Needed before a file can be edited.

    path: the file, relative to the workspace root.
    start_line, end_line: the first and last line to read, counted from 1; all lines by default.
    max_chars: cut the content after so many characters, 1000 to 100000; 20000 by default.
    include_line_numbers: show lines as `N | text`. The numbers are not part of the file.
    encoding: only for a file that is not UTF-8 and does not say itself what it is, such as `gb18030`. A byte
        order mark and the declaration in a Python source are seen without it.
    `partial` says that not all was read, and `suggested_action` how to read the rest.
    """
    from ksadk.tools.result_budget import budget_tool_output, default_tool_result_budget
    from ksadk.workspace import reading

    result = reading.read(
        workspace_root(), _states(), path, start_line, end_line, include_line_numbers, encoding
    )
    limit = reading.clamp_max_chars(max_chars)
    budget = default_tool_result_budget(max_chars=limit, preview_chars=limit, persist_threshold_chars=limit)
    content = result.pop("content")
    result |= budget_tool_output(
        tool_name="read_workspace_file", field_name="content", value=content, budget=budget
    )
    return reading.after_trimming(result)


@builtin(
    group="workspace", boundary=_BOUNDARY, risk="medium", side_effects=("workspace_write",),
    plan=_plan_write, targets=_path,
)  # fmt: skip
def write_workspace_file(
    path: str, content: str, overwrite: bool = True, encoding: str | None = None, in_place: bool = False
) -> dict[str, Any]:
    """Write a whole file, making directories as needed. To change part of a file, edit it instead.

    path: the file, relative to the workspace root.
    content: everything that the file shall hold.
    overwrite: replace a file that exists; with false that is an error.
    encoding: what to write it in, by default UTF-8, or what a Python source declares.
    in_place: write through a file that has several names (`hard_linked_file`); not in one step.
    """
    from ksadk.workspace import writing

    return writing.write_file(workspace_root(), _states(), path, content, overwrite, encoding, in_place)


@builtin(
    group="workspace", boundary=_BOUNDARY, risk="medium", side_effects=("workspace_write",),
    plan=_plan_writes, targets=_paths,
)  # fmt: skip
def write_workspace_files(files: Files, overwrite: bool = True) -> dict[str, Any]:
    """Write up to 100 whole files. All are checked first: if one cannot be written, none is.

    files: a list of {path, content}.
    overwrite: replace files that exist; with false that is an error.
    """
    from ksadk.workspace import writing

    return writing.write_files(workspace_root(), _states(), files, overwrite)


@builtin(
    group="workspace", boundary=_BOUNDARY, risk="medium", side_effects=("workspace_edit",),
    plan=_plan_edit, targets=_path, large_fields=("diff",),
)  # fmt: skip
def edit_workspace_file(
    path: str,
    old_text: str,
    new_text: str,
    expected_replacements: int = 1,
    replace_all: bool = False,
    encoding: str | None = None,
    in_place: bool = False,
) -> dict[str, Any]:
    """Replace a snippet of a file that was read in this session. The rest of the file stays as it is.

    path: the file, relative to the workspace root.
    old_text: the text to replace, exactly as the file has it (no line numbers), with enough around it to be
        unique.
    new_text: what replaces it; empty deletes it.
    expected_replacements: how often old_text must be in the file.
    replace_all: replace it wherever it is, however often.
    encoding: the one that the file was read with, where reading needed it.
    in_place: write through a file that has several names (`hard_linked_file`); not in one step.
    Line ends (LF, CRLF), and straight and curly quotes, match each other when nothing matches exactly. When
    nothing matches at all, `difference` says where and in what the likeliest place differs.
    """
    from ksadk.workspace import editing

    change = editing.Edit(old_text, new_text, expected_replacements, replace_all)
    how = editing.How(encoding=encoding, in_place=in_place)
    return editing.edit(workspace_root(), _states(), path, change, how)


@builtin(
    group="workspace", boundary=_BOUNDARY, risk="medium", side_effects=("workspace_edit",),
    plan=_plan_edits, targets=_path, large_fields=("diff",),
)  # fmt: skip
def multi_edit_workspace_file(
    path: str,
    edits: Edits,
    replace_all: bool = False,
    encoding: str | None = None,
    in_place: bool = False,
) -> dict[str, Any]:
    """Make several edits to one file that was read in this session: all of them or, if one fails, none.

    path: the file, relative to the workspace root.
    edits: a list of {old_text, new_text, expected_replacements?, replace_all?}, made in order, each in what
        the one before it left.
    replace_all: for every edit, replace old_text wherever it is.
    encoding: the one that the file was read with, where reading needed it.
    in_place: write through a file that has several names (`hard_linked_file`); not in one step.
    `failed_edit_index` counts from 0.
    """
    from ksadk.workspace import editing

    changes = editing.read_edits(edits, replace_all)
    how = editing.How(encoding=encoding, in_place=in_place)
    return editing.multi_edit(workspace_root(), _states(), path, changes, how)


@builtin(group="workspace", boundary=_BOUNDARY, targets=_path)
def lint_workspace_file(path: str, language: str = "auto", encoding: str | None = None) -> dict[str, Any]:
    """Check that a file parses. A light check, not the project's own formatter or linter.

    path: the file, relative to the workspace root.
    language: `auto` (from the file's name), `python`, `json`, `markdown` or `text`.
    encoding: only for a file that is not UTF-8 and does not say itself what it is.
    `ok` is false if there is an issue of severity error; lines and columns count from 1. `checked` says what
    was looked for: syntax in Python and JSON, else only NUL characters and blanks at line ends.
    """
    from ksadk.workspace import linting

    return linting.lint(workspace_root(), path, language, encoding)


@builtin(group="workspace", boundary=_BOUNDARY, targets=_path)
def search_workspace_files(
    query: str,
    path: str = ".",
    is_regex: bool = False,
    glob: str | None = None,
    case_sensitive: bool = False,
    context_lines: int = 0,
    max_results: int = 100,
) -> dict[str, Any]:
    """Find lines of files that contain a text or match a regular expression.

    query: the text, or with is_regex the expression: . [] () (?:) | ^ $ * + ? {n,m} \\w \\d \\s \\b.
    path: a directory or file, relative to the workspace root.
    glob: search only files whose name or path fits, such as `*.py` or `src/**/*.{js,ts}`.
    case_sensitive: tell capitals from small letters.
    context_lines: lines to show before and after each, 0 to 20.
    max_results: 1 to 5000 lines; `truncated` says that there are more.
    Hidden files are searched; binary files and what .gitignore names are not. Of files over 1 MiB no lines
    are shown; `skipped` counts those that match. Where nothing is found it counts what was left out, and
    `note` says so if that was everything.
    """
    from ksadk.tools.result_budget import budget_text_fields
    from ksadk.workspace import searching

    what = searching.Query(query, path, is_regex, glob, case_sensitive, context_lines, max_results)
    result = searching.search(workspace_root(), what)
    whole = budget_text_fields(result, tool_name="search_workspace_files", fields=("results",))
    if whole["results_truncated"]:  # keep whole results in the list, as many as the preview holds
        whole["results_preview"] = whole["results"]
        whole["results"] = searching.fitting(result["results"], whole["results_preview_chars"])
        whole["truncated"] = True
    return whole


@builtin(
    group="workspace", boundary=_BOUNDARY, risk="high", side_effects=("workspace_delete",),
    plan=_plan_delete, targets=_entry,
)  # fmt: skip
def delete_workspace_file(path: str) -> dict[str, Any]:
    """Delete a file, a symbolic link (not what it leads to) or an empty directory.

    path: what to delete, relative to the workspace root.
    """
    from ksadk.workspace import writing

    return writing.delete(workspace_root(), _states(), path)
