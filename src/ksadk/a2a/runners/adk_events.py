"""What events of Google ADK say, and what they ask."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from google.adk.events import Event as AdkEvent
from google.genai import types

from ksadk.a2a.runners.base import Artifact, DataPart, Event, Part, RawPart, Text, TextPart, Thinking, UrlPart

CONFIRMATION = "adk_request_confirmation"
INPUT = "adk_request_input"
CREDENTIAL = "adk_request_credential"


@dataclass(frozen=True)
class Asked:
    """A function call of ADK's that whoever uses the agent answers.

    `step` is the call of a tool that it is about; `args` are what ADK says of it, as JSON values.
    """

    kind: Literal["confirmation", "input", "tool"]
    id: str
    name: str
    step: str
    args: dict[str, Any] = field(default_factory=dict)
    approval: dict[str, Any] | None = None

    def of_approval(self, approval: Mapping[str, Any] | None) -> Asked:
        """The same, where a gateway asks it."""
        return self if approval is None else replace(self, approval=dict(approval))

    def to_json(self) -> dict[str, Any]:
        """Its fields, to make it of again."""
        return asdict(self)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The question."""
        if self.kind == "input":
            words = TextPart(str(self.args.get("message") or "The agent asks for input."))
            known = {key: self.args[key] for key in ("payload", "response_schema") if self.args.get(key)}
            return (words, DataPart(known)) if known else (words,)
        if self.kind == "tool":
            return (TextPart(f"{self.name} waits for its result."), DataPart({self.name: self.args}))
        called = self.args.get("originalFunctionCall", {})
        confirmation = self.args.get("toolConfirmation", {})
        hint = confirmation.get("hint") or f"May the agent call {called.get('name')}?"
        if self.approval is not None:
            return (TextPart(hint),)
        return (TextPart(hint), DataPart({"tool": called.get("name"), "args": called.get("args", {})}))


def asked_by(event: AdkEvent) -> Iterator[Asked]:
    """What an event asks: confirmations, input, and results of tools that run long."""
    waiting = event.long_running_tool_ids or set()
    for call in event.get_function_calls():
        if not call.id or call.id not in waiting or event.partial or call.name == CREDENTIAL:
            continue
        args = call.model_dump(mode="json")["args"] or {}
        if call.name == CONFIRMATION:
            step = str(args.get("originalFunctionCall", {}).get("id", ""))
            yield Asked("confirmation", call.id, CONFIRMATION, step, args)
        else:
            yield Asked("input" if call.name == INPUT else "tool", call.id, call.name or "", call.id, args)


def confirmation_again(event: AdkEvent, repeated: list[Asked]) -> AdkEvent:
    """The event by which ADK asks for confirmations, for calls that have asked once more in `event`."""
    calls = []
    for asked in repeated:
        confirmation = event.actions.requested_tool_confirmations[asked.step]
        args = {
            "originalFunctionCall": asked.args["originalFunctionCall"],
            "toolConfirmation": confirmation.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        calls.append(types.FunctionCall(id=f"adk-{uuid.uuid4()}", name=CONFIRMATION, args=args))
    return AdkEvent(
        invocation_id=event.invocation_id,
        author=event.author,
        branch=event.branch,
        content=types.Content(role="model", parts=[types.Part(function_call=call) for call in calls]),
        long_running_tool_ids={str(call.id) for call in calls},
    )


Kind = type[Text] | type[Thinking]


class Said:
    """Tells what the events of one invocation say, each piece once.

    A model that streams says its pieces, and then everything again in one event. Where that is something else
    than the pieces were, it replaces them.
    """

    def __init__(self) -> None:
        self.anything = False
        self._all: dict[Kind, str] = {Text: "", Thinking: ""}
        self._pieces: dict[tuple[str, str | None, Kind], str] = {}
        """By agent and branch, since agents may speak at the same time."""

    def events(self, event: AdkEvent) -> Iterator[Event]:
        """What an event says that was not said yet."""
        if event.author == "user" or event.content is None:
            return
        whole: dict[Kind, str] = {Text: "", Thinking: ""}
        for part in event.content.parts or ():
            kind: Kind = Thinking if part.thought else Text
            speaker = (event.author, event.branch, kind)
            if part.text and (event.partial or speaker not in self._pieces):
                if event.partial:
                    self._pieces[speaker] = self._pieces.get(speaker, "") + part.text
                self._all[kind] += part.text
                yield self._told(kind(part.text))
            elif part.text:
                whole[kind] += part.text
            elif not event.partial and (file := _file(part)):
                yield self._told(Artifact((file,)))
        if not event.partial:
            for kind, final in whole.items():
                yield from self._settle((event.author, event.branch, kind), final)

    def _settle(self, speaker: tuple[str, str | None, Kind], final: str) -> Iterator[Event]:
        """What the whole adds to its pieces, or puts in their place."""
        pieces, kind = self._pieces.pop(speaker, ""), speaker[2]
        if not final or final == pieces:
            return
        if final.startswith(pieces):
            self._all[kind] += final[len(pieces) :]
            yield kind(final[len(pieces) :])
        else:
            self._all[kind] = self._all[kind].removesuffix(pieces) + final
            yield kind(self._all[kind], replace=True)

    def _told(self, event: Event) -> Event:
        self.anything = True
        return event


def _file(part: types.Part) -> RawPart | UrlPart | None:
    if part.inline_data and part.inline_data.data:
        blob = part.inline_data
        return RawPart(blob.data, blob.display_name or "", blob.mime_type or "")
    if part.file_data and part.file_data.file_uri:
        file = part.file_data
        return UrlPart(file.file_uri, file.display_name or "", file.mime_type or "")
    return None
