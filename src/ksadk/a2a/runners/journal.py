"""What the steps of a run have asked and done, for frameworks that run a step again once it is answered."""

from __future__ import annotations

import copy
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ksadk.runtime_context import scoped


class Journal:
    """Entries by place: the step, the call in it, and which of the equal calls of the step it is.

    `step` names the step that the code now running belongs to, the same name when the step is run again;
    empty where there is none. An entry holds the `request` that a call made, and its `result` once it has
    run. What it holds is given back as it was, never shared.
    """

    def __init__(self, step: Callable[[], str], entries: Mapping[str, Any] | None = None) -> None:
        self.step = step
        self._entries: dict[str, dict[str, Any]] = {
            key: dict(entry) for key, entry in (entries or {}).items()
        }
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def place(self, call: str) -> str:
        """The place of a call that begins now; empty outside of every step."""
        step = self.step()
        if not step:
            return ""
        with self._lock:
            base = f"{step}\n{call}"
            self._seen[base] += 1
            return f"{base}\n{self._seen[base]}"

    def run_again(self) -> None:
        """Every step that has not finished is about to be run again, from its beginning."""
        with self._lock:
            self._seen.clear()

    def entry(self, place: str) -> dict[str, Any]:
        """What is known of a call; empty where it is new."""
        with self._lock:
            return copy.deepcopy(self._entries.get(place, {}))

    def write(self, place: str, **known: Any) -> None:
        """Add to what is known of a call."""
        with self._lock:
            self._entries[place] = {**self._entries.get(place, {}), **copy.deepcopy(known)}

    def asked(self, request_id: str) -> bool:
        """Whether one of the calls has made that request."""
        with self._lock:
            return any(entry.get("request") == request_id for entry in self._entries.values())

    def keep(self, steps: Iterable[str]) -> None:
        """Forget the calls of all steps but those in whose name one of `steps` occurs."""
        steps = tuple(steps)
        with self._lock:
            for place in [key for key in self._entries if not any(step in key for step in steps)]:
                del self._entries[place]

    def to_json(self) -> dict[str, Any]:
        """The entries as JSON values; a result that is none is left out."""
        with self._lock:
            return {key: _jsonable(entry) for key, entry in self._entries.items()}


_journal: ContextVar[Journal | None] = ContextVar("ksadk_a2a_journal", default=None)


def current_journal() -> Journal | None:
    """The journal of the run that this code is in; None where steps are never run again."""
    return _journal.get()


@contextmanager
def journal_scope(journal: Journal | None) -> Iterator[None]:
    """Make `journal` the current one inside a `with` block."""
    with scoped(_journal, journal):
        yield


def _jsonable(entry: dict[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(entry)
    except (TypeError, ValueError):
        return {key: value for key, value in entry.items() if key != "result"}
    return entry
