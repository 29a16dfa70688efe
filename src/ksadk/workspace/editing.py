"""Replacing snippets of a file that was read, and nothing else of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ksadk.workspace import charsets, files, matching, nearby
from ksadk.workspace.differences import near_miss
from ksadk.workspace.diffs import unified
from ksadk.workspace.files import current_state, locked, read_bytes
from ksadk.workspace.left_overs import reported, told
from ksadk.workspace.paths import SEE_LIST, Place, WorkspaceError, locate
from ksadk.workspace.read_state import Content, ReadStates
from ksadk.workspace.reading import stamp_written
from ksadk.workspace.text import Change, Document, encode, line_ending

MAX_SHOWN_MATCHES = 20


@dataclass(frozen=True)
class Edit:
    """One snippet and what replaces it. `expected` is how often the snippet must be there."""

    old: str
    new: str
    expected: int = 1
    replace_all: bool = False


@dataclass(frozen=True)
class How:
    """How a file is read and written for an edit."""

    encoding: str | None = None
    in_place: bool = False


STANDARD = How()


@dataclass(frozen=True)
class Edited:
    """What edits make of a file, not yet written."""

    place: Place
    before: bytes
    after: Content
    total_lines: int
    diff: str
    encoding: str
    notes: list[dict[str, Any]] = field(default_factory=list)
    """One `{index, replacements, used_quote_normalization}` for each edit, and `matches` if `numbered`."""
    warning: str | None = None

    @property
    def replacements(self) -> int:
        return sum(note["replacements"] for note in self.notes)


def prepare(
    root: Path,
    states: ReadStates,
    path: str,
    edits: Sequence[Edit],
    how: How = STANDARD,
    *,
    numbered: bool = False,
) -> Edited:
    """Find out what the edits would do, each to what the one before it left; nothing is written.

    With `numbered`, an error says which edit failed (`failed_edit_index`). Raises `missing_old_text`,
    `file_not_read`, `file_modified_since_read`, `snippet_not_found`, `ambiguous_edit`, `unchanged_edit`,
    `invalid_text`, what `Document.decode` does, and what keeps a file from being read or written.
    """
    for index, edit in enumerate(edits):
        with _naming(index, edits, numbered):
            _check_texts(edit)
    place = locate(root, path)
    if current_state(place, in_place=how.in_place) is None:
        raise WorkspaceError(
            f"{place.shown}: there is no such file", code="not_found", hint=SEE_LIST, path=place.shown
        )
    data, _ = read_bytes(place)
    content = Content(data)
    known = states.check(place, content)
    before = Document.decode(data, place.shown, how.encoding)
    change, notes = Change(0, 0, ""), []
    for index, edit in enumerate(edits):
        with _naming(index, edits, numbered):
            if before.encoding != charsets.UTF8:
                encode(edit.new, "new_text", before.encoding)
            text = change.made(before.text) if index else before.text
            found, made = _applied(place, text, edit)
        change = change.then(before.text, made) if index else made
        note = {"replacements": len(found.matches), "used_quote_normalization": found.how == "quotes"}
        notes.append({"index": index} | note | ({"matches": _shown_matches(text, found)} if numbered else {}))
    if before.text[change.start : change.end] == change.text:
        raise WorkspaceError("the edits cancel each other out", code="unchanged_edit", path=place.shown)
    after, same = before.changed(data, change, place.shown)
    warnings = [_ending_warning(before.text, change)]
    if how.encoding is None:
        warnings.append(_declaration_warning(place, before, after))
    return Edited(
        place, data, Content(after, content, same), known.total_lines + _lines_more(before.text, change),
        unified(before.text, change, place.shown), before.encoding, notes,
        " ".join(filter(None, warnings)) or None,
    )  # fmt: skip


def edit(root: Path, states: ReadStates, path: str, change: Edit, how: How = STANDARD) -> dict[str, Any]:
    """Replace one snippet; the result of `edit_workspace_file`."""
    done, state = _write(root, states, path, [change], how)
    quotes = done.notes[0]["used_quote_normalization"]
    facts = {"replacements": done.replacements, "used_quote_normalization": quotes, "diff": done.diff}
    return _result(done, state, how, facts)


def multi_edit(
    root: Path, states: ReadStates, path: str, changes: Sequence[Edit], how: How = STANDARD
) -> dict[str, Any]:
    """Replace several snippets, all or none; the result of `multi_edit_workspace_file`."""
    done, state = _write(root, states, path, changes, how, numbered=True)
    facts = {
        "edit_count": len(changes),
        "replacements": done.replacements,
        "edits": done.notes,
        "diff": done.diff,
    }
    return _result(done, state, how, facts)


def read_edits(items: object, replace_all: bool = False) -> list[Edit]:
    """The edits of a caller: a list of `{old_text, new_text, expected_replacements?, replace_all?}`.

    Raises `invalid_edits`, or `invalid_edit` with `failed_edit_index`.
    """
    if not isinstance(items, (list, tuple)) or not items:
        raise WorkspaceError(
            "edits must be a list with at least one edit", code="invalid_edits",
            hint='Each edit is {"old_text": ..., "new_text": ...}.',
        )  # fmt: skip
    return [_read_edit(item, index, len(items), replace_all) for index, item in enumerate(items)]


@contextmanager
def _naming(index: int, edits: Sequence[Edit], numbered: bool) -> Iterator[None]:
    """Add to an error which edit it is about."""
    try:
        yield
    except WorkspaceError as error:
        if numbered:
            error.details |= {"failed_edit_index": index, "edit_count": len(edits)}
        raise


def _write(
    root: Path, states: ReadStates, path: str, edits: Sequence[Edit], how: How, *, numbered: bool = False
) -> tuple[Edited, os.stat_result]:
    with told(root, path), locked(root):
        done = prepare(root, states, path, edits, how, numbered=numbered)
        state = files.replace(done.place, done.after.data, before=done.before, in_place=how.in_place)
        stamp_written(states, done.place, done.after, state, done.total_lines)
    return done, state


def _result(done: Edited, state: os.stat_result, how: How, facts: dict[str, Any]) -> dict[str, Any]:
    result = {"ok": True, "path": done.place.shown, "absolute_path": str(done.place.real)} | facts
    if done.warning:
        result["warning"] = done.warning
    if how.in_place:
        result["atomic"] = False
    result |= {"encoding": done.encoding, "size": state.st_size, "mtime_ns": state.st_mtime_ns}
    return reported([done.place], result)


def _check_texts(edit: Edit) -> None:
    if not edit.old.strip():
        raise WorkspaceError(
            "old_text is blank", code="missing_old_text",
            hint="Copy the text to replace from the file, with enough of its surroundings to be unique.",
        )  # fmt: skip
    if edit.expected < 1:
        raise WorkspaceError("expected_replacements must be 1 or more", code="invalid_edit")
    encode(edit.new, "new_text")
    if edit.old == edit.new:
        raise WorkspaceError(
            "old_text and new_text are the same", code="unchanged_edit", hint="Nothing needs to be done."
        )


def _applied(place: Place, text: str, edit: Edit) -> tuple[matching.Found, Change]:
    found = matching.find(text, edit.old)
    count = len(found.matches)
    if not count:
        raise _missing(place, text, edit)
    if not edit.replace_all and (count != edit.expected or found.overlapping):
        raise _ambiguous(place, text, edit, found)
    change = matching.replaced(text, found, edit.old, edit.new)
    if text[change.start : change.end] == change.text:
        raise WorkspaceError(f"the edit changes nothing in {place.shown}", code="unchanged_edit")
    return found, change


def _ambiguous(place: Place, text: str, edit: Edit, found: matching.Found) -> WorkspaceError:
    count = len(found.matches)
    words = f"old_text is in {place.shown} {count} times, and {edit.expected} was expected"
    if count == edit.expected:
        words = f"old_text overlaps with itself in {place.shown}, so that where it stands is unclear"
    return WorkspaceError(
        words, code="ambiguous_edit", path=place.shown, occurrences=count,
        hint="Add surrounding lines to old_text, set expected_replacements, or set replace_all.",
        expected_replacements=edit.expected, overlapping=found.overlapping,
        matches=_shown_matches(text, found),
    )  # fmt: skip


def _missing(place: Place, text: str, edit: Edit) -> WorkspaceError:
    miss = near_miss(text, edit.old)
    details: dict[str, Any] = {} if miss.difference is None else {"difference": miss.difference}
    return WorkspaceError(
        f"old_text is not in {place.shown}", code="snippet_not_found",
        hint="Copy it exactly as the file has it, without line numbers.", path=place.shown, occurrences=0,
        nearby_candidates=miss.candidates, **details,
        suggested_action=f"Read {place.shown} again and copy the lines to replace.",
    )  # fmt: skip


def _shown_matches(text: str, found: matching.Found) -> list[dict[str, Any]]:
    return [nearby.shown(text, match.start, match.end) for match in found.matches[:MAX_SHOWN_MATCHES]]


def _lines_more(before: str, change: Change) -> int:
    """How many lines more a text has after a change: those that an LF ends, and one without."""
    was, now = before[change.start : change.end], change.text
    more = now.count("\n") - was.count("\n")
    if change.end < len(before):
        return more
    last = (before[: change.start][-1:] + now)[-1:]
    return more + (last not in ("", "\n")) - (before[-1:] not in ("", "\n"))


def _ending_warning(before: str, change: Change) -> str | None:
    """What to say of a file whose lines all ended alike, and do no longer."""
    first = before.find("\n")
    was = line_ending(before[max(0, first - 1) : first + 1])
    lead = "\r" * before.endswith("\r", 0, change.start)
    around = lead + change.text + "\n" * before.startswith("\n", change.end)
    if was == "none" or line_ending(around) in (was, "none") or line_ending(before) != was:
        return None
    return f"The file's lines ended in {was.upper()}; new_text brought in another line end."


def _declaration_warning(place: Place, before: Document, after: bytes) -> str | None:
    """An edit of the line that declares the encoding does not change what the other bytes are in."""
    try:
        now = charsets.of_file(after, place.shown).name
    except WorkspaceError as error:
        return f"The file is still {before.encoding}, but now {error.message}."
    if now != before.encoding:
        return f"The file is still {before.encoding}, but now says that it is {now}."
    return None


def _read_edit(item: object, index: int, count: int, replace_all: bool) -> Edit:
    def refuse(words: str, code: str = "invalid_edit") -> WorkspaceError:
        return WorkspaceError(
            f"edits[{index}]: {words}", code=code, failed_edit_index=index, edit_count=count,
            hint="An edit is {old_text, new_text, expected_replacements?, replace_all?}.",
        )  # fmt: skip

    if not isinstance(item, Mapping):
        raise refuse("it is not an object")
    unknown = item.keys() - {"old_text", "new_text", "expected_replacements", "replace_all"}
    if unknown:
        raise refuse(f"{min(map(str, unknown))!r} is not one of its fields")
    old, new = item.get("old_text"), item.get("new_text")
    expected, every = item.get("expected_replacements", 1), item.get("replace_all", replace_all)
    if old is None:
        raise refuse("old_text is missing", "missing_old_text")
    if new is None:
        raise refuse("new_text is missing; an empty text deletes", "missing_new_text")
    if not isinstance(old, str) or not isinstance(new, str):
        raise refuse("old_text and new_text must be text")
    if type(expected) is not int or type(every) is not bool:
        raise refuse("expected_replacements must be a whole number, and replace_all a truth value")
    return Edit(old, new, expected, every or replace_all)
