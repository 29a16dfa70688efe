"""Adds rules to the user's `rules.yaml` and removes them; whatever else is in the file stays as it was."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ksadk.errors import KsadkError
from ksadk.tools.rule_files import read_bytes, user_file
from ksadk.tools.rule_reader import Entry, InvalidRules, read_rules
from ksadk.whole_files import replace_file

_HEADER = "# Rules for tool calls; agentengine approvals rules list shows what holds.\n"


def add_rule(written: Mapping[str, Any]) -> tuple[Entry, bool]:
    """Save a rule at the end of the user's file; returns it, and whether it is new.

    `written` is the rule as the file has it: `{"allow": TOOL, "where": {...}, ...}`. Its self-tests run
    first. Raises `InvalidRules` for a bad rule, and for a file that cannot be read as it is.
    """
    path = user_file()
    with _locked(path):
        data = read_bytes(path) if os.path.lexists(path) else b""
        before = read_rules(path, data, "user")
        text = _appended(data, written)
        after = read_rules(path, text.encode("utf-8", "surrogatepass"), "user")
        new = after.entries[-1]
        if new.problem or [new.where, new.argv] != _plain([written.get("where", {}), written.get("argv")]):
            problem = new.problem or "it holds what YAML cannot keep"
            raise InvalidRules(f"the rule was not saved: {problem}", hint="Write it otherwise.")
        kept = next((entry for entry in before.entries if _said(entry) == _said(new)), None)
        if kept is not None:
            return kept, False
        _check_kept(before.entries, after.entries[:-1], path)
        _replace(path, text)
        return new, True


def remove_rule(shown: Entry) -> None:
    """Remove a rule of the user's file; `unknown_rule` where it is no longer there as it was read."""
    path = user_file()
    with _locked(path):
        data = read_bytes(path) if os.path.lexists(path) else b""
        before = read_rules(path, data, "user")
        wanted = replace(shown, rule=None)
        now = enumerate(replace(entry, rule=None) for entry in before.entries)
        at = next((number for number, entry in now if entry == wanted), None)
        if at is None:
            raise KsadkError(
                f"the rule at {path}:{shown.line} has changed or is gone; nothing was removed",
                code="unknown_rule",
                hint="agentengine approvals rules list shows what is there now.",
            )
        rest = (*before.entries[:at], *before.entries[at + 1 :])
        text = _without(data, at)
        _check_kept(rest, read_rules(path, text.encode(), "user").entries, path)
        _replace(path, text)


def rule_text(written: Mapping[str, Any]) -> str:
    """A rule as it is saved: YAML, one key a line."""
    stream = io.StringIO()
    _yaml(2).dump([_block(written)], stream)
    lines = stream.getvalue().splitlines()
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    return "".join(f"{line[indent:]}\n" for line in lines)


def _appended(data: bytes, written: Mapping[str, Any]) -> str:
    text = data.decode("utf-8-sig")
    found = re.search(r"^( *)- ", text, re.MULTILINE)
    yaml = _yaml(len(found[1]) if found else 2)
    document = yaml.load(text) if text.strip() else None
    if document is None:
        stream = io.StringIO()
        yaml.dump({"rules": [_block(written)]}, stream)
        return (text if text.endswith("\n") or not text else text + "\n") + (
            stream.getvalue() if text else _HEADER + stream.getvalue()
        )
    if document.get("rules") is None:
        document["rules"] = []
    document["rules"].append(_block(written))
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


def _yaml(offset: int) -> Any:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.allow_duplicate_keys = True  # a rule that is bad for it is left as it is
    yaml.width = 1 << 20  # lines stay as they are
    yaml.indent(mapping=2, sequence=offset + 2, offset=offset)
    return yaml


def _block(written: Mapping[str, Any]) -> Any:
    """A rule as round-trip YAML writes it, without references between equal parts."""
    from ruamel.yaml.comments import CommentedMap

    return CommentedMap((key, _plain(value)) for key, value in written.items())


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _without(data: bytes, number: int) -> str:
    """The text without one rule. Its lines go; where it shares a line with others, the YAML library writes
    the file anew."""
    from ruamel.yaml import YAML

    text = data.decode("utf-8-sig")
    root = YAML(typ="safe", pure=True).compose(text)
    rules = next(value for key, value in root.value if key.value == "rules")
    node = rules.value[number]
    if not rules.flow_style:
        lines = text.splitlines(keepends=True)
        end = _last_line(node) + 1
        while not lines[end - 1].strip():  # blank lines behind a block of text
            end -= 1
        del lines[node.start_mark.line : end]
        return "".join(lines)
    yaml = _yaml(2)
    document = yaml.load(text)
    del document["rules"][number]
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


def _last_line(node: Any) -> int:
    """The last line with something of a node; comments behind it are not of it."""
    if node.id == "scalar" or node.flow_style:
        mark = node.end_mark
        behind = mark.column == 0 and mark.line > node.start_mark.line
        return int(mark.line) - 1 if behind else int(mark.line)
    children = [part for pair in node.value for part in pair] if node.id == "mapping" else node.value
    return max((_last_line(child) for child in children), default=int(node.start_mark.line))


def _said(entry: Entry) -> tuple[Any, ...]:
    return entry.verdict, entry.tool, entry.argv, entry.where, entry.project, entry.expires


def _check_kept(wanted: Sequence[Entry], found: Sequence[Entry], path: str) -> None:
    if list(map(_said, wanted)) != list(map(_said, found)):
        raise InvalidRules(
            f"{path}: the file is written in a way that this program does not change",
            hint="Change it in an editor.",
        )


def _replace(path: str, text: str) -> None:
    real = Path(os.path.realpath(path))  # the file may be a link into somebody's collection of such files
    try:
        replace_file(real, text.encode())
    except OSError as error:
        raise _not_saved(path, error) from error


@contextmanager
def _locked(path: str) -> Iterator[None]:
    import fcntl

    directory = Path(path).parent
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory / "rules.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _not_saved(path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _not_saved(path: str, error: OSError) -> KsadkError:
    return KsadkError(f"{path} cannot be written: {error.strerror}", code="io_error")
