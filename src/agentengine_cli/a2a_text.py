"""What an agent said, as text: one `Label: value` a line, and longer texts as blocks under their label.

The lines of a block are indented and a blank line ends it, so that no text of an agent's can pass for a
field. Control characters are shown as escapes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from agentengine_cli.a2a_place import Place
from agentengine_cli.output import visible, write_utf8
from ksadk.a2a.client import Update
from ksadk.a2a.parts import REASONING
from ksadk.a2a.stream import Output, is_thinking


def show_update(update: Update, place: Place, artifacts: Iterable[str] | None = None) -> None:
    """Print how a task stands, or a message, with what to type next. Instead of all that its artifacts hold,
    `artifacts` are the lines about them."""
    names = [field(*name) for name in place.names(update)]
    about = _artifacts(update) if artifacts is None else artifacts
    resume = [field("Resume", command)] if (command := place.command(update)) else []
    write_utf8("".join([*names, *_said(update), *about, *resume]))


class StreamText:
    """Prints a stream thing by thing: of an artifact that grows only what is new, and once its name."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._output = Output()
        self._named: set[str] = set()
        self._state = ""

    def show(self, update: Update) -> None:
        """Print one thing; after the last, the ids and what to type next."""
        if update.kind == "artifact_update":
            self._state = "working"  # which whoever says something is
            write_utf8("".join(self._artifact(update)))
            return
        if update.ends:
            show_update(update, self._place, self._rest(update))
            return
        told, self._state = self._state, update.state
        names = self._place.names(update)
        lines = [field(*name) for name in (names if update.kind == "task" else names[-1:])]
        if update.state == told:
            lines = []
        write_utf8("".join([*lines, *_said(update), *_artifacts(update)]))

    def _artifact(self, update: Update) -> Iterator[str]:
        artifact = update.value.artifact_update.artifact
        if artifact.artifact_id not in self._named and artifact.name != REASONING:
            yield field("Artifact", artifact.name or artifact.artifact_id)
        self._named.add(artifact.artifact_id)
        yield from self._grown(update)
        yield from _content([part for part in artifact.parts if part.WhichOneof("content") != "text"], "")

    def _rest(self, update: Update) -> Iterator[str]:
        """What of the artifacts of an end was not shown before; all of them where one is new."""
        artifacts = update.value.task.artifacts if update.kind == "task" else ()
        if any(artifact.artifact_id not in self._named for artifact in artifacts):
            yield from _artifacts(update)
        elif artifacts:
            yield from self._grown(update)

    def _grown(self, update: Update) -> Iterator[str]:
        for event in self._output.take(update):
            label = "Thinking" if event["type"] == "thinking" else "Text"
            yield field(f"{label} anew" if event["replace"] else label, event["delta"])


def field(label: str, value: str) -> str:
    """A line, or a block where the value has several lines. Line breaks that end it are none of its lines."""
    value = value.rstrip("\n")
    if "\n" not in value:
        return f"{label}: {visible(value, keep=chr(9))}\n"
    return f"{label}:\n" + "".join(f"  {visible(line, keep=chr(9))}\n" for line in value.split("\n")) + "\n"


def _said(update: Update) -> Iterator[str]:
    if update.said is not None:
        yield from _content(update.said.parts, "Message")


def _artifacts(update: Update) -> Iterator[str]:
    for artifact in update.value.task.artifacts if update.kind == "task" else ():
        yield from _parts(artifact)


def _parts(artifact: Any) -> Iterator[str]:
    name = artifact.name or artifact.artifact_id
    if artifact.name != REASONING:
        yield field("Artifact", name)

    def label(part: Any) -> str:
        if part.WhichOneof("content") != "text":
            return ""
        return "Thinking" if is_thinking(artifact, part) else "Text"

    # What streamed in pieces, and was not closed by the whole, is one text.
    for of_what, parts in groupby(artifact.parts, label):
        if of_what:
            yield field(of_what, "".join(part.text for part in parts))
        else:
            yield from _content(parts, "")


def _content(parts: Iterable[Any], label: str) -> Iterator[str]:
    from ksadk.a2a.parts import value_of

    for part in parts:
        kind = part.WhichOneof("content")
        if kind == "text":
            yield field(label, part.text)
        elif kind == "data":
            yield field("Data", json.dumps(value_of(part.data), ensure_ascii=False, indent=2))
        elif kind == "raw":
            about = [part.filename, part.media_type, f"{len(part.raw):,} bytes"]
            yield field("File", ", ".join(item for item in about if item))
        elif kind == "url":
            yield field(
                "File", ", ".join(item for item in (part.filename, part.media_type, part.url) if item)
            )
