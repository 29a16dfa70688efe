"""What an agent said, as text: one `Label: value` a line, and longer texts as blocks under their label.

The lines of a block are indented and a blank line ends it, so that no text of an agent's can pass for a
field. Control characters are shown as escapes.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from agentengine_cli.output import visible, write_utf8
from ksadk.a2a.client import INTERRUPTED, TERMINAL, Update
from ksadk.a2a.parts import REASONING
from ksadk.a2a.stream import Output, is_thinking


def show_update(update: Update, target: str) -> None:
    """Print how a task stands, or a message, with what to type next."""
    write_utf8("".join([*_ids(update), *_said(update), *_artifacts(update), *resume(update, target)]))


class StreamText:
    """Prints a stream thing by thing: of an artifact that grows only what is new, and once its name."""

    def __init__(self, target: str) -> None:
        self._target = target
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
            show_update(update, self._target)
            return
        told, self._state = self._state, update.state
        lines = _ids(update) if update.kind == "task" else [field("State", update.state)]
        if update.kind != "task" and update.state == told:
            lines = []
        write_utf8("".join([*lines, *_said(update), *_artifacts(update)]))

    def _artifact(self, update: Update) -> Iterator[str]:
        artifact = update.value.artifact_update.artifact
        if artifact.artifact_id not in self._named and artifact.name != REASONING:
            self._named.add(artifact.artifact_id)
            yield field("Artifact", artifact.name or artifact.artifact_id)
        for event in self._output.take(update):
            label = "Thinking" if event["type"] == "thinking" else "Text"
            yield field(f"{label} anew" if event["replace"] else label, event["delta"])
        yield from _content([part for part in artifact.parts if part.WhichOneof("content") != "text"], "")


def field(label: str, value: str) -> str:
    """A line, or a block where the value has several lines."""
    if "\n" not in value:
        return f"{label}: {visible(value, keep=chr(9))}\n"
    return f"{label}:\n" + "".join(f"  {visible(line, keep=chr(9))}\n" for line in value.split("\n")) + "\n"


def _ids(update: Update) -> list[str]:
    if update.kind == "message":
        return [field("Context", update.context_id)] if update.context_id else []
    return [field("Task", update.task_id), field("Context", update.context_id), field("State", update.state)]


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
    for part in artifact.parts:
        yield from _content([part], "Thinking" if is_thinking(artifact, part) else "Text")


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


def approval_request(update: Update) -> dict[str, Any] | None:
    """What the agent wants to have approved; None where it asks for anything else."""
    from ksadk.a2a.parts import value_of

    for part in update.said.parts if update.said else ():
        data = value_of(part.data) if part.WhichOneof("content") == "data" else None
        if isinstance(data, dict) and data.get("kind") == "approval_request":
            inner = data.get("approval_request")
            return inner if isinstance(inner, dict) else {}
    return None


def resume(update: Update, target: str) -> list[str]:
    """The line with the exact command that goes on from here."""
    return [field("Resume", command)] if (command := resume_command(update, target)) else []


def resume_command(update: Update, target: str) -> str:
    """The command that goes on: it answers, looks again, or begins the next task in the same context."""
    at = f"-a {shlex.quote(target)}"
    if update.state in INTERRUPTED and approval_request(update) is not None:
        return f"agentengine a2a status {shlex.quote(update.task_id)} {at}"  # no answer of words decides
    if update.state in INTERRUPTED and update.state != "auth-required":
        return f"agentengine a2a call {at} --task-id {shlex.quote(update.task_id)} ANSWER"
    if update.task_id and update.state not in TERMINAL:
        return f"agentengine a2a status {shlex.quote(update.task_id)} {at} --wait"
    if update.context_id:
        return f"agentengine a2a call {at} --context-id {shlex.quote(update.context_id)} MESSAGE"
    return ""
