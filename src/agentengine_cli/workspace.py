"""`agentengine workspace`: read, search and change the files of a workspace."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from agentengine_cli import output, workspace_shown, workspace_words
from agentengine_cli.base import new_group
from agentengine_cli.calls import (
    CallCommand,
    ReadCommand,
    builtin_tool,
    call_scope,
    options,
    read_text,
    run_tool,
)

app = new_group("Read, search and edit workspace files.")

PathArgument = Annotated[str, typer.Argument(help="A path in the workspace.")]
MaybePath = Annotated[
    str | None, typer.Argument(help="A path in the workspace; not needed with --approval ID.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would happen; change nothing, ask nobody.")
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", help="What the file is in, if not UTF-8 nor what it says itself."),
]
InPlace = Annotated[
    bool,
    typer.Option("--in-place", help="Write through a file with several names; not in one step."),
]
_TEXT = "TEXT|@FILE|-"


@app.command("status", cls=ReadCommand)
def status() -> None:
    """Show where the workspace is, and some of its files.

    \b
    Example:
      agentengine workspace status --root .
    """
    _run("workspace_status", {}, workspace_shown.status)


@app.command("list", cls=ReadCommand)
def list_files(
    path: PathArgument = ".",
    glob: Annotated[str | None, typer.Option("--glob", help="Only names or paths that fit.")] = None,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="Also what is below.")] = False,
    dirs: Annotated[bool, typer.Option("--dirs/--no-dirs", help="List directories too.")] = True,
    limit: Annotated[int, typer.Option("--limit", help="How many, 5000 at most.")] = 500,
    sort: Annotated[str, typer.Option("--sort", help="name, mtime or size.")] = "name",
) -> None:
    """List the entries of a directory.

    \b
    Example:
      agentengine workspace list src --recursive --glob "*.py" --root .
    """
    arguments = {
        "path": path, "glob": glob, "recursive": recursive, "include_dirs": dirs, "max_results": limit,
        "sort_by": sort,
    }  # fmt: skip
    _run("list_workspace_files", arguments, workspace_shown.listing)


@app.command("read", cls=ReadCommand)
def read(
    path: PathArgument,
    start: Annotated[int | None, typer.Option("--start-line", help="The first line, from 1.")] = None,
    end: Annotated[int | None, typer.Option("--end-line", help="The last line.")] = None,
    max_chars: Annotated[
        int | None, typer.Option("--max-chars", help="Cut after so many characters (1000 to 100000).")
    ] = None,
    numbers: Annotated[bool, typer.Option("--numbers/--no-numbers", help="Number the lines.")] = True,
    encoding: Encoding = None,
) -> None:
    """Read a text file, or some of its lines. What was read may then be edited, also by a later command.

    \b
    Example:
      agentengine workspace read README.md --start-line 1 --end-line 20 --root .
    """
    arguments = {
        "path": path, "start_line": start, "end_line": end, "max_chars": max_chars,
        "include_line_numbers": numbers, "encoding": encoding,
    }  # fmt: skip
    _run(
        "read_workspace_file",
        arguments,
        workspace_shown.numbered if numbers else workspace_shown.plain,
    )


@app.command("write", cls=CallCommand)
def write(
    path: MaybePath = None,
    content: Annotated[
        str, typer.Option("--content", metavar=_TEXT, help="The whole content; stdin by default.")
    ] = "-",
    overwrite: Annotated[
        bool, typer.Option("--overwrite/--no-overwrite", help="Replace a file that exists.")
    ] = True,
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="What to write it in; UTF-8 by default.")
    ] = None,
    in_place: InPlace = False,
    dry_run: DryRun = False,
) -> None:
    """Write a whole file.

    \b
    Examples:
      agentengine workspace write notes.md --content "one line" --root .
      generate | agentengine workspace write out.txt --yes --root .
    """
    _change(
        "write_workspace_file",
        path,
        lambda: {
            "content": _content(content),
            "overwrite": overwrite,
            "encoding": encoding,
            "in_place": in_place,
        },
        dry_run,
        workspace_shown.write,
    )


@app.command("edit", cls=CallCommand)
def edit(
    path: MaybePath = None,
    old: Annotated[
        str | None, typer.Option("--old", metavar=_TEXT, help="The text to replace, exactly.")
    ] = None,
    new: Annotated[str | None, typer.Option("--new", metavar=_TEXT, help="What replaces it.")] = None,
    expected: Annotated[int, typer.Option("--expected", help="How often the text must be in the file.")] = 1,
    replace_all: Annotated[bool, typer.Option("--replace-all", help="Replace it wherever it is.")] = False,
    encoding: Encoding = None,
    in_place: InPlace = False,
    dry_run: DryRun = False,
) -> None:
    """Replace a text in a file that was read.

    \b
    Examples:
      agentengine workspace edit f.txt --old a --new b --root .
      agentengine workspace edit f.txt --old @old.txt --new @new.txt --dry-run --root .
    """

    def arguments() -> dict[str, Any]:
        if old is None or new is None:
            raise typer.BadParameter("both are needed: --old and --new", param_hint="--old, --new")
        if old == new == "-":
            raise typer.BadParameter("only one of them can be stdin", param_hint="--old, --new")
        return {
            "old_text": read_text(old), "new_text": read_text(new), "expected_replacements": expected,
            "replace_all": replace_all, "encoding": encoding, "in_place": in_place,
        }  # fmt: skip

    _change("edit_workspace_file", path, arguments, dry_run, workspace_shown.edit)


@app.command("multi-edit", cls=CallCommand)
def multi_edit(
    path: MaybePath = None,
    edits: Annotated[
        str | None, typer.Option("--edits", metavar="JSON|@FILE|-", help="A list of {old_text, new_text}.")
    ] = None,
    replace_all: Annotated[
        bool, typer.Option("--replace-all", help="Replace every text wherever it is.")
    ] = False,
    encoding: Encoding = None,
    in_place: InPlace = False,
    dry_run: DryRun = False,
) -> None:
    """Make several edits to a file that was read: all of them, or none.

    \b
    Example:
      agentengine workspace multi-edit f.txt --edits @edits.json --root .
    """

    def arguments() -> dict[str, Any]:
        if edits is None:
            raise typer.BadParameter("a JSON list of edits is needed", param_hint="--edits")
        try:
            items = json.loads(read_text(edits))
        except (ValueError, RecursionError) as error:
            raise typer.BadParameter(f"not JSON: {error}", param_hint="--edits") from error
        return {"edits": items, "replace_all": replace_all, "encoding": encoding, "in_place": in_place}

    _change("multi_edit_workspace_file", path, arguments, dry_run, workspace_shown.edit)


@app.command("search", cls=ReadCommand)
def search(
    query: Annotated[str, typer.Argument(help="The text to find. After -- it may begin with a dash.")],
    path: PathArgument = ".",
    regex: Annotated[bool, typer.Option("--regex", "-e", help="It is a regular expression.")] = False,
    glob: Annotated[str | None, typer.Option("--glob", help="Only files whose name or path fits.")] = None,
    case_sensitive: Annotated[
        bool, typer.Option("--case-sensitive", "-s", help="Tell capitals from small letters.")
    ] = False,
    context: Annotated[int, typer.Option("--context", "-C", help="Lines around each, 20 at most.")] = 0,
    limit: Annotated[int, typer.Option("--limit", help="How many lines, 5000 at most.")] = 100,
) -> None:
    """Find lines that contain a text, or match a regular expression.

    \b
    Examples:
      agentengine workspace search "TODO" src --root .
      agentengine workspace search --regex "def \\w+_file" --glob "*.py" -C 2 --root .
    """
    arguments = {
        "query": query, "path": path, "is_regex": regex, "glob": glob, "case_sensitive": case_sensitive,
        "context_lines": context, "max_results": limit,
    }  # fmt: skip
    _run("search_workspace_files", arguments, workspace_shown.matches)


@app.command("lint", cls=ReadCommand)
def lint(
    path: PathArgument,
    language: Annotated[
        str, typer.Option("--language", help="auto, python, json, markdown or text.")
    ] = "auto",
    encoding: Encoding = None,
) -> None:
    """Check that a file of Python or JSON parses.

    In other files it looks for NUL characters and for blanks at line ends. Errors make the exit status 1,
    warnings do not.

    \b
    Example:
      agentengine workspace lint app.py --root .
    """
    tool = "lint_workspace_file"
    result = _call(tool, {"path": path, "language": language, "encoding": encoding})
    if result.get("error_type") != "lint_errors" or output.json_wanted.get():
        _show(tool, result, workspace_shown.issues)
    else:
        output.write(workspace_shown.issues(result))
        raise typer.Exit(output.result_status(result))


@app.command("delete", cls=CallCommand)
def delete(path: MaybePath = None, dry_run: DryRun = False) -> None:
    """Delete a file, a symbolic link, or an empty directory.

    \b
    Example:
      agentengine workspace delete old.txt --dry-run --root .
    """
    _change(
        "delete_workspace_file", path, dict, dry_run,
        lambda result: f"deleted {result['type']} {result['deleted']}\n",
    )  # fmt: skip


def _content(value: str) -> str:
    if value == "-" and sys.stdin.isatty():
        output.say("type the content, and end it with Ctrl-D")
    return read_text(value)


def _run(tool: str, arguments: dict[str, Any], text: Callable[[Any], str]) -> None:
    _show(tool, _call(tool, arguments), text)


def _show(tool: str, result: dict[str, Any], text: Callable[[Any], str]) -> None:
    output.show_result(
        result, text, partial(workspace_words.failure, tool), partial(workspace_words.in_options, tool)
    )


def _change(
    tool: str,
    path: str | None,
    rest: Callable[[], dict[str, Any]],
    dry_run: bool,
    text: Callable[[Any], str],
) -> None:
    """Call a tool that changes something. With `--approval ID` and no path, the stored call runs."""
    if path is None:
        if not options().approval or dry_run:
            raise typer.BadParameter("which file? Give its path.", param_hint="PATH")
        _run(tool, {}, text)
    elif dry_run:
        _show(tool, _planned(tool, {"path": path} | rest()), workspace_shown.plan)
    else:
        _run(tool, {"path": path} | rest(), text)


def _planned(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    tool = builtin_tool(name)
    with call_scope(name) as gateway:
        return _with_hint(gateway.preview(tool, arguments), arguments)


def _call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return _with_hint(run_tool(tool, arguments), arguments)


def _with_hint(result: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """A file that is not in the default workspace but in the current directory: say how to reach it."""
    if (
        result.get("error_type") == "not_found"
        and "path" in arguments
        and not options().root
        and Path(arguments["path"]).exists()
    ):
        result["hint"] = "It is in the current directory: add --root ."
    return result
