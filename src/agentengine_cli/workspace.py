"""`agentengine workspace`: read, search and change the files of a workspace."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from agentengine_cli import output, workspace_words
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
_TEXT = "TEXT|@FILE|-"
_UNPARSED = "; only NUL characters and blanks at line ends were looked for"


@app.command("status", cls=ReadCommand)
def status() -> None:
    """Show where the workspace is, and some of its files.

    \b
    Example:
      agentengine workspace status --root .
    """
    _run("workspace_status", {}, _as_status)


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
    _run("list_workspace_files", arguments, _as_listing)


@app.command("read", cls=ReadCommand)
def read(
    path: PathArgument,
    start: Annotated[int | None, typer.Option("--start-line", help="The first line, from 1.")] = None,
    end: Annotated[int | None, typer.Option("--end-line", help="The last line.")] = None,
    max_chars: Annotated[
        int | None, typer.Option("--max-chars", help="Cut after so many characters (1000 to 100000).")
    ] = None,
    numbers: Annotated[bool, typer.Option("--numbers/--no-numbers", help="Number the lines.")] = True,
) -> None:
    """Read a text file, or some of its lines. What was read may then be edited, also by a later command.

    \b
    Example:
      agentengine workspace read README.md --start-line 1 --end-line 20 --root .
    """
    arguments = {
        "path": path, "start_line": start, "end_line": end, "max_chars": max_chars,
        "include_line_numbers": numbers,
    }  # fmt: skip
    _run("read_workspace_file", arguments, _numbered if numbers else lambda result: _line(result["content"]))


@app.command("write", cls=CallCommand)
def write(
    path: MaybePath = None,
    content: Annotated[
        str, typer.Option("--content", metavar=_TEXT, help="The whole content; stdin by default.")
    ] = "-",
    overwrite: Annotated[
        bool, typer.Option("--overwrite/--no-overwrite", help="Replace a file that exists.")
    ] = True,
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
        lambda: {"content": _content(content), "overwrite": overwrite},
        dry_run,
        lambda result: f"{'created' if result['created'] else 'replaced'} {result['absolute_path']}\n",
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
            "replace_all": replace_all,
        }  # fmt: skip

    _change("edit_workspace_file", path, arguments, dry_run, _as_edit)


@app.command("multi-edit", cls=CallCommand)
def multi_edit(
    path: MaybePath = None,
    edits: Annotated[
        str | None, typer.Option("--edits", metavar="JSON|@FILE|-", help="A list of {old_text, new_text}.")
    ] = None,
    replace_all: Annotated[
        bool, typer.Option("--replace-all", help="Replace every text wherever it is.")
    ] = False,
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
            return {"edits": json.loads(read_text(edits)), "replace_all": replace_all}
        except (ValueError, RecursionError) as error:
            raise typer.BadParameter(f"not JSON: {error}", param_hint="--edits") from error

    _change("multi_edit_workspace_file", path, arguments, dry_run, _as_edit)


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
    _run("search_workspace_files", arguments, _as_matches)


@app.command("lint", cls=ReadCommand)
def lint(
    path: PathArgument,
    language: Annotated[
        str, typer.Option("--language", help="auto, python, json, markdown or text.")
    ] = "auto",
) -> None:
    """Check that a file of Python or JSON parses.

    In other files it looks for NUL characters and for blanks at line ends. Errors make the exit status 1,
    warnings do not.

    \b
    Example:
      agentengine workspace lint app.py --root .
    """
    tool = "lint_workspace_file"
    result = _call(tool, {"path": path, "language": language})
    if result.get("error_type") != "lint_errors" or output.json_wanted.get():
        _show(tool, result, _as_issues)
    else:
        output.write(_as_issues(result))
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
        _show(tool, _planned(tool, {"path": path} | rest()), _as_plan)
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


def _as_status(result: dict[str, Any]) -> str:
    _say_unreadable(result["unreadable"], "directory", "directories")
    files = [(f"{file['size']:,}".rjust(12), file["path"]) for file in result["files"]]
    shown = _count(result["file_count_sampled"], "file")
    return f"{result['workspace_root']}\n{output.columns(files)}{shown} shown\n"


def _as_listing(result: dict[str, Any]) -> str:
    from datetime import datetime

    rows = []
    for entry in result["entries"]:
        changed = datetime.fromtimestamp(entry["mtime_ns"] / 1e9).strftime("%Y-%m-%d %H:%M")
        size = f"{entry['size']:,}" if entry["type"] == "file" else "-"
        rows.append((entry["type"], size.rjust(12), changed, entry["path"]))
    _say_unreadable(result["unreadable"], "directory", "directories")
    if result["truncated"]:
        output.say("there are more; --limit shows more of them")
    return output.columns(rows)


def _numbered(result: dict[str, Any]) -> str:
    width = len(str(result["end_line"]))
    lines = result["content"].split("\n") if result["content"] else []
    if result["suggested_action"]:
        output.say(workspace_words.in_options("read_workspace_file", result["suggested_action"]))
    return "".join(
        _line(line.partition(" ")[0].rjust(width) + " " + line.partition(" ")[2]) for line in lines
    )


def _line(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def _as_edit(result: dict[str, Any]) -> str:
    return f"edited {result['absolute_path']}: {_count(result['replacements'], 'replacement')}\n"


def _as_plan(result: dict[str, Any]) -> str:
    rows = [("would", result["summary"]), ("where", result["where"]), *result["details"]]
    return f"{output.columns(rows)}{result['diff']}"


def _as_matches(result: dict[str, Any]) -> str:
    if result.get("note"):
        output.say(result["note"])
    elif not result["results"]:
        output.say("no line matches")
        _say_unreadable(result["skipped"]["unreadable"], "file or directory", "files or directories")
    elif result["skipped"]["large_files"]:
        output.say(
            f"{_count(result['skipped']['large_files'], 'file')} over 1 MiB not shown, where it is too"
        )
    if result["truncated"]:
        output.say("there are more; --limit, --glob or a path chooses others")
    between = "--\n" if result["context_lines"] else ""
    return between.join(map(_as_match, result["results"]))


def _as_match(match: dict[str, Any]) -> str:
    path, line = match["path"], match["line"]
    first = line - len(match["context_before"])
    before = [f"{path}-{number}- {text}\n" for number, text in enumerate(match["context_before"], first)]
    after = [f"{path}-{number}- {text}\n" for number, text in enumerate(match["context_after"], line + 1)]
    return "".join([*before, f"{path}:{line}: {match['text']}\n", *after])


def _as_issues(result: dict[str, Any]) -> str:
    path = result["path"]
    if not result["issues"]:
        return f"{path}: no issues ({result['language']}{_UNPARSED * ('syntax' not in result['checked'])})\n"
    return "".join(
        f"{path}:{issue['line']}:{issue['column']}: {issue['severity']}: {issue['message']}\n"
        for issue in result["issues"]
    )


def _say_unreadable(count: int, one: str, several: str) -> None:
    if count:
        output.say(f"{count:,} {one if count == 1 else several} could not be read")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
