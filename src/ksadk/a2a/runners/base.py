"""What passes between an agent and the server that serves it: parts, events, pauses, and the runner itself.

Nothing here knows a framework or the wire. An agent's author may yield or return any of the events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ksadk.errors import KsadkError
from ksadk.runtime_context import scoped


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text; `media_type` is empty where nothing was said, and text/plain is meant."""

    text: str
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class DataPart:
    """A JSON value."""

    data: Any
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class RawPart:
    """The bytes of a file."""

    data: bytes
    filename: str = ""
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class UrlPart:
    """A file that is somewhere else."""

    url: str
    filename: str = ""
    media_type: str = ""


Part = TextPart | DataPart | RawPart | UrlPart


def text_of(parts: Iterable[Part]) -> str:
    """The text among parts, a line end between two."""
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True)
class Text:
    """The next piece of the answer; with `replace`, all of the answer so far is replaced by it."""

    text: str
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Thinking:
    """The next piece of the agent's reasoning, which a server may keep to itself; `replace` as for `Text`."""

    text: str
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Artifact:
    """Something that the agent made, or with `append` more of the artifact of that id.

    Without `artifact_id` each is one of its own. `last` says that nothing will be appended to it; an
    artifact that is given again without `append` is replaced.
    """

    parts: tuple[Part, ...]
    name: str = ""
    artifact_id: str = ""
    description: str = ""
    append: bool = False
    last: bool = True


@dataclass(frozen=True, slots=True)
class Reply:
    """A message that answers without a task. Only a runner with `messages` may give it, first and alone."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """What the agent is doing, in words for people; it is no part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class InputRequired:
    """The agent asks, and goes on when it is answered. It is the last event before the answer.

    question: what is asked, shown as the status message.
    approval: where a gateway asks whether a call may run, the request as JSON values, with its `id`; text
        never answers that.
    state: what a runner needs to go on after the server was started again, as JSON values; None where it
        cannot. It is kept by the server and shown to nobody.
    """

    question: tuple[Part, ...]
    approval: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AuthRequired:
    """The agent cannot go on until the caller has signed in somewhere; `text` says where."""

    text: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The agent does not take this task; `text` says why."""

    text: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The agent could not do it; `text` is for the caller."""

    text: str


@dataclass(frozen=True, slots=True)
class Completed:
    """The agent is done; `text` is a last word, beside the answer. What ends without it is done, too."""

    text: str = ""


Event = (
    Text | Thinking | Artifact | Reply | Status | InputRequired | AuthRequired | Rejected | Failed | Completed
)


@dataclass(frozen=True)
class Call:
    """One message to an agent, and the task that it is about.

    `metadata` is the message's own; nothing in it is to be believed about who is calling. `history` is what
    was said in this context before, the oldest first, as `(role, text)`, where the server knows it.
    `session_id` is what the agent keeps the context's memory under: a server that keeps callers apart gives
    one that no two of them share, since anybody may name any context. Empty, it is the context.
    """

    message_id: str
    task_id: str
    context_id: str
    parts: tuple[Part, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[tuple[str, str], ...] = ()
    session_id: str = ""

    @property
    def session(self) -> str:
        """The name of the agent's session."""
        return self.session_id or self.context_id

    @property
    def text(self) -> str:
        """The text of the message: its text parts, a line end between two."""
        return text_of(self.parts)


@dataclass(frozen=True)
class Answer:
    """What answers an `InputRequired`: the parts of a message or, to a request for approval, the decision.

    `request_id` is the request that was decided about.
    """

    parts: tuple[Part, ...] = ()
    decision: Literal["approved", "denied", "expired"] | None = None
    request_id: str = ""

    @property
    def text(self) -> str:
        """The text of the answer, a line end between two parts."""
        return text_of(self.parts)

    @property
    def value(self) -> Any:
        """What an agent that waits for a value gets: the decision, the data of a single data part, or the
        text."""
        if self.decision is not None:
            return self.decision
        if len(self.parts) == 1 and isinstance(self.parts[0], DataPart):
            return self.parts[0].data
        return self.text


class RunnerError(KsadkError):
    """An agent that cannot be loaded or run as it is."""

    code = "agent_not_loadable"


class Run(Protocol):
    """One task's run of an agent, from its start over any number of pauses to its end."""

    def events(self) -> AsyncIterator[Event]:
        """What the agent says, at once as it says it: up to the next `InputRequired`, or the end.

        After an answer it is called again and goes on. What the agent raises travels through.
        """

    async def answer(self, answer: Answer) -> None:
        """Give the answer to the `InputRequired` that `events` ended with."""

    async def cancel(self) -> None:
        """Stop the agent; returns when it has stopped. Raises `RunnerError` (code `not_cancelable`) where it
        goes on all the same, as a thread that never looks up does."""


class Runner(Protocol):
    """One agent, ready to run any number of tasks at the same time.

    `input_modes` and `output_modes` are media types; `messages` says that it may answer with `Reply`.
    """

    input_modes: tuple[str, ...]
    output_modes: tuple[str, ...]
    messages: bool

    def start(self, call: Call) -> Run:
        """A run that has not begun; nothing of the agent runs before its `events` are asked for."""

    def restore(self, call: Call, state: Mapping[str, Any]) -> Run | None:
        """The paused run whose `InputRequired.state` this was, after the server was started again; it waits
        for its answer. None where it is gone."""

    async def aclose(self) -> None:
        """Release what the agent holds. Runs are over by then."""


class Pause(Protocol):
    """Asks whoever the current run answers to, from inside the agent.

    Returns the answer when there is one; or None where this framework lets the call end first and repeats it
    with the answer. It may raise what makes the framework stop here.
    """

    def __call__(self, asked: InputRequired, /) -> Answer | None: ...


_pause: ContextVar[Pause | None] = ContextVar("ksadk_a2a_pause", default=None)


def current_pause() -> Pause | None:
    """How the run that this code is in asks; None outside a run."""
    return _pause.get()


@contextmanager
def pause_scope(pause: Pause) -> Iterator[None]:
    """Make `pause` how code inside a `with` block asks."""
    with scoped(_pause, pause):
        yield
