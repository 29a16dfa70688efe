"""Where in a call's answers an event comes from: its item's number, and its own number among the item's.

A client that was ended in between, or that asks again, tells of the same thing under another call's permit,
and so under another id. What was told at the same position, of the same kind, with the same payload, is the
same event. The wire does not carry the position, but the id of an event is a hash of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ksadk.a2a.space.events import EventKind, source_event_id

_ITEMS_AHEAD = 8
"""How many items of a call may be missing, whose events were never accepted."""


class Place(NamedTuple):
    """A place in the answers to the call of a permit. Both numbers count from 0."""

    permit_sha256: str
    wire_position: int
    ordinal: int


class WirePositions:
    """Finds the places of one task's events, which come in order.

    last: of each permit of the task, the place of its last event; `(-1, 0)` where there is none.
    """

    def __init__(self, task_id: str, last: Mapping[str, tuple[int, int]]) -> None:
        self._task_id = task_id
        self._before = last
        self._last = dict(last)

    def place(self, source_event: str, kind: EventKind) -> Place | None:
        """The place of an event; None where it is of no call that is known."""
        for permit, (position, ordinal) in self._last.items():
            next_ones = [(position, ordinal + 1)] if position >= 0 else []
            next_ones += [(position + ahead, 0) for ahead in range(1, _ITEMS_AHEAD + 1)]
            for there in next_ones:
                if source_event_id(self._task_id, permit, *there, kind) == source_event:
                    self._last[permit] = there
                    return Place(permit, *there)
        return None

    def moved(self) -> list[Place]:
        """The last places of those calls of which events were found."""
        return [
            Place(permit, *there) for permit, there in self._last.items() if there != self._before[permit]
        ]
