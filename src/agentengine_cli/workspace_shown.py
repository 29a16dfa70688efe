"""What the workspace commands print."""

from __future__ import annotations

from typing import Any

from agentengine_cli import output, workspace_words

_UNPARSED = "; only NUL characters and blanks at line ends were looked for"


def status(result: dict[str, Any]) -> str:
    _say_unreadable(result["unreadable"], "directory", "directories")
    files = [(f"{file['size']:,}".rjust(12), file["path"]) for file in result["files"]]
    shown = _count(result["file_count_sampled"], "file")
    return f"{result['workspace_root']}\n{output.columns(files)}{shown} shown\n"


def listing(result: dict[str, Any]) -> str:
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


def numbered(result: dict[str, Any]) -> str:
    width = len(str(result["end_line"]))
    lines = result["content"].split("\n") if result["content"] else []
    if result["suggested_action"]:
        output.say(workspace_words.in_options("read_workspace_file", result["suggested_action"]))
    return "".join(
        _ended(line.partition(" ")[0].rjust(width) + " " + line.partition(" ")[2]) for line in lines
    )


def plain(result: dict[str, Any]) -> str:
    return _ended(result["content"])


def edit(result: dict[str, Any]) -> str:
    done = f"edited {result['absolute_path']}: {_count(result['replacements'], 'replacement')}"
    return f"{done}{_how(result)}\n"


def write(result: dict[str, Any]) -> str:
    return f"{'created' if result['created'] else 'replaced'} {result['absolute_path']}{_how(result)}\n"


def _how(result: dict[str, Any]) -> str:
    if "warning" in result:
        output.say(f"warning: {result['warning']}")
    return ", in place and not in one step" if result.get("atomic") is False else ""


def plan(result: dict[str, Any]) -> str:
    rows = [("would", result["summary"]), ("where", result["where"]), *result["details"]]
    return f"{output.columns(rows)}{result['diff']}"


def matches(result: dict[str, Any]) -> str:
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


def issues(result: dict[str, Any]) -> str:
    path = result["path"]
    if not result["issues"]:
        return f"{path}: no issues ({result['language']}{_UNPARSED * ('syntax' not in result['checked'])})\n"
    return "".join(
        f"{path}:{issue['line']}:{issue['column']}: {issue['severity']}: {issue['message']}\n"
        for issue in result["issues"]
    )


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def _say_unreadable(count: int, one: str, several: str) -> None:
    if count:
        output.say(f"{count:,} {one if count == 1 else several} could not be read")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
