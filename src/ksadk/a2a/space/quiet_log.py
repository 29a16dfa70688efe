"""Troubles that repeat, said once, and then now and then."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

REPEAT_SECONDS = 60.0


@dataclass(slots=True)
class _Trouble:
    since: float
    said: float
    times: int = 1


class QuietLog:
    """What fails for each of many things: a line when it begins, at most one a minute while it lasts, and one
    when it is over."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._troubles: dict[str, _Trouble] = {}

    @property
    def troubled(self) -> bool:
        """Whether something fails."""
        return bool(self._troubles)

    def failed(self, thing: str, what: str) -> None:
        """`thing` failed; `what` holds no secret."""
        now = self._clock()
        trouble = self._troubles.get(thing)
        if trouble is None:
            self._troubles[thing] = _Trouble(now, now)
            self._log.warning("%s: %s", thing, what)
            return
        trouble.times += 1
        if now - trouble.said >= REPEAT_SECONDS:
            trouble.said = now
            self._log.warning("%s: %s (%d times in %.0f s)", thing, what, trouble.times, now - trouble.since)

    def works(self, thing: str) -> bool:
        """`thing` works; whether it failed before."""
        trouble = self._troubles.pop(thing, None)
        if trouble is not None:
            lasted = self._clock() - trouble.since
            self._log.warning("%s: works again, after %d failures in %.0f s", thing, trouble.times, lasted)
        return trouble is not None

    def forget(self, thing: str) -> None:
        """`thing` is not tried any more."""
        self._troubles.pop(thing, None)

    def forget_all(self) -> None:
        """Nothing is tried any more."""
        self._troubles.clear()
