"""Which sandboxes are alive: one for each key, reused until its time is over, always ended by somebody."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ksadk.errors import KsadkError
from ksadk.runtime_context import get_current_account_id, scoped
from ksadk.sandbox import records
from ksadk.sandbox.base import SandboxBackend, SandboxError, SandboxInputFile, SandboxSession
from ksadk.sandbox.left_overs import end_left_over
from ksadk.sandbox.records import Facts, Record, account_tag
from ksadk.settings import Settings

__all__ = [
    "GLOBAL_SANDBOX_REGISTRY",
    "SandboxEntry",
    "SandboxRegistry",
    "bind_sandbox_registry",
]


@dataclass(eq=False)
class SandboxEntry:
    """A sandbox that is alive. Times are seconds since the epoch; a limit of 0 is none.

    `users` counts the calls that run in it now: while there are any it is neither swept nor evicted.
    """

    key: str
    backend_name: str
    session: SandboxSession
    isolated: bool
    ttl_seconds: float
    idle_ttl_seconds: float
    created_at: float
    last_used_at: float
    users: int = 0
    record: Record | None = field(default=None, repr=False)

    @property
    def sandbox_id(self) -> str:
        """The id that its backend gave it."""
        return self.session.sandbox_id

    @property
    def expires_at(self) -> float | None:
        """When its time is over, if it is not used any more."""
        ends = [self.created_at + self.ttl_seconds] if self.ttl_seconds else []
        ends += [self.last_used_at + self.idle_ttl_seconds] if self.idle_ttl_seconds else []
        return min(ends, default=None)

    def idle_seconds(self, now: float | None = None) -> float:
        """How long it has not been used."""
        return max(0.0, (time.time() if now is None else now) - self.last_used_at)

    def expired(self, now: float) -> bool:
        """Whether its time is over."""
        end = self.expires_at
        return not self.users and end is not None and now >= end


class SandboxRegistry:
    """Sandboxes by key. Its methods may be called from any thread.

    reap: ends what a killed program left behind, given its facts; raises `KsadkError` where that cannot be
        done now, and it is tried again at another start.
    """

    def __init__(self, *, reap: Callable[[Facts], None] = end_left_over) -> None:
        self._reap = reap
        self._lock = threading.RLock()
        self._entries: dict[str, SandboxEntry] = {}
        self._coming: dict[str, tuple[threading.Lock, int]] = {}
        self._starting = 0
        self._reaped = False
        self._closed = False
        self._sweeper: _Sweeper | None = None

    def get_or_create(
        self,
        *,
        key: str,
        backend_name: str,
        backend: SandboxBackend,
        ttl_seconds: float,
        isolated: bool,
        idle_ttl_seconds: float | None = None,
        max_sessions: int | None = None,
        input_files: Sequence[SandboxInputFile] | None = None,
        now: float | None = None,
    ) -> tuple[SandboxEntry, bool]:
        """The sandbox of a key, and whether it was started for this call.

        One whose time is over, or that is of another backend, is ended first. Where `max_sessions` (0 or
        None: no limit) are alive, the least recently used one that is not in use is ended;
        `SandboxError` where all are in use.
        """
        with self._key_lock(key):
            moment = time.time() if now is None else now
            found = self._reusable(key, backend_name, isolated, moment)
            if found is not None:
                found.last_used_at = moment
                return found, False
            self._reap_left_over(moment)
            with self._place(max_sessions or 0):
                mark = secrets.token_hex(16)
                session = backend.create_session(
                    session_id=key, env={records.MARK: mark}, input_files=input_files
                )
                entry = SandboxEntry(
                    key, backend_name, session, isolated, ttl_seconds, idle_ttl_seconds or 0, moment, moment
                )
                self._keep(entry, mark)
            return entry, True

    @contextlib.contextmanager
    def lease(self, **wanted: Any) -> Iterator[tuple[SandboxEntry, bool]]:
        """`get_or_create`, and the sandbox is in use inside the `with` block."""
        while True:
            entry, created = self.get_or_create(**wanted)
            with self._lock:
                if self._entries.get(entry.key) is entry:
                    entry.users += 1
                    break  # else it was ended in this moment
        try:
            yield entry, created
        finally:
            with self._lock:
                entry.users -= 1
                entry.last_used_at = time.time()

    def latest(self, key: str | None = None) -> SandboxEntry | None:
        """The sandbox of a key, or without one the most recently used one of all."""
        with self._lock:
            if key is not None:
                return self._entries.get(key)
            return max(self._entries.values(), key=lambda entry: entry.last_used_at, default=None)

    def entries(self) -> list[SandboxEntry]:
        """Every sandbox that is alive, the least recently used one first."""
        with self._lock:
            return sorted(self._entries.values(), key=lambda entry: entry.last_used_at)

    def sweep(self, now: float | None = None) -> list[SandboxEntry]:
        """End the sandboxes whose time is over; returns them. One that cannot be ended is tried again."""
        moment = time.time() if now is None else now
        with self._lock:
            over = [entry for entry in self._entries.values() if entry.expired(moment)]
            for entry in over:
                del self._entries[entry.key]
        ended = []
        for entry in over:
            with contextlib.suppress(KsadkError):
                self._end(entry)
                ended.append(entry)
        return ended

    def kill(self, key: str) -> bool:
        """End the sandbox of a key, in use or not; False where there is none. Raises where it cannot be."""
        with self._lock:
            entry = self._entries.pop(key, None)
        if entry is None:
            return False
        self._end(entry)
        return True

    def keep(self, key: str) -> SandboxEntry | None:
        """Let the sandbox of a key outlive this program, until it expires; returns it."""
        with self._lock:
            entry = self._entries.pop(key, None)
        if entry is not None and entry.record is not None:
            entry.record.change(replace(entry.record.facts, kept=True, expires_at=entry.expires_at))
            entry.record.release()
        return entry

    def clear(self) -> None:
        """End every sandbox. One that cannot be ended does not keep the others; it stays written down."""
        with self._lock:
            entries = list(self._entries.values())
            self._entries.clear()
        for entry in entries:
            with contextlib.suppress(KsadkError):
                self._end(entry)

    def close(self) -> None:
        """`clear`, and start none from now on."""
        with self._lock:
            self._closed = True
            sweeper, self._sweeper = self._sweeper, None
        if sweeper is not None:
            sweeper.stop()
        self.clear()

    def reset_for_tests(self) -> None:
        """`clear`, and be as new."""
        self.close()
        self._reaped = self._closed = False

    def forget(self) -> None:
        """In a child of a fork: the sandboxes are the parent's, and so are their records."""
        for entry in self._entries.values():
            if entry.record is not None:
                entry.record.release()
        self._lock = threading.RLock()
        self._entries, self._coming, self._starting, self._sweeper = {}, {}, 0, None

    @contextlib.contextmanager
    def _key_lock(self, key: str) -> Iterator[None]:
        """One call at a time starts the sandbox of a key; others go on meanwhile."""
        with self._lock:
            lock, waiting = self._coming.get(key, (threading.Lock(), 0))
            self._coming[key] = lock, waiting + 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, waiting = self._coming.pop(key)
                if waiting > 1:
                    self._coming[key] = lock, waiting - 1

    def _reusable(self, key: str, backend_name: str, isolated: bool, now: float) -> SandboxEntry | None:
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            same = (found.backend_name, found.isolated) == (backend_name, isolated)
            if same and not found.expired(now):
                return found
            del self._entries[key]
        self._end(found)
        return None

    @contextlib.contextmanager
    def _place(self, limit: int) -> Iterator[None]:
        """Room for one more."""
        with self._lock:
            if self._closed:
                raise SandboxError("the sandboxes were closed, so none is started any more")
            surplus = len(self._entries) + self._starting + 1 - limit if limit else 0
            evicted = [entry for entry in self.entries() if not entry.users][: max(0, surplus)]
            if len(evicted) < surplus:
                raise SandboxError(
                    f"{limit} sandboxes are in use, which is the limit",
                    hint="Wait until one is free, or raise KSADK_SANDBOX_MAX_SESSIONS.",
                )
            for entry in evicted:
                del self._entries[entry.key]
            self._starting += 1
        try:
            for entry in evicted:
                with contextlib.suppress(KsadkError):
                    self._end(entry)
            yield
        finally:
            with self._lock:
                self._starting -= 1

    def _keep(self, entry: SandboxEntry, mark: str) -> None:
        try:
            entry.record = Record.make(_facts_of(entry, mark))
            with self._lock:
                if self._closed:
                    raise SandboxError("the sandboxes were closed while one was started")
                self._entries[entry.key] = entry
                self._sweeper = self._sweeper or _Sweeper.started(self)
        except OSError as error:
            entry.session.kill()
            raise SandboxError(
                f"a sandbox that is not written down is not used: {error.filename}: {error.strerror}",
                hint="See to the directory of the user's state, XDG_STATE_HOME.",
            ) from error
        except BaseException:
            self._end(entry)
            raise

    def _end(self, entry: SandboxEntry) -> None:
        """End a sandbox; where that fails its record stays, for a later start to try again."""
        record, entry.record = entry.record, None
        try:
            entry.session.kill()
        except BaseException:
            if record is not None:
                record.release()
            raise
        if record is not None:
            record.drop()

    def _reap_left_over(self, now: float) -> None:
        """Once a program: end what others, that were killed, left behind."""
        with self._lock:
            due, self._reaped = not self._reaped, True
        if due:
            reap_left_over(self._reap, now)


class _Sweeper:
    """The thread that sweeps a registry, from its first sandbox until it is closed."""

    def __init__(self, registry: SandboxRegistry, seconds: float) -> None:
        self._registry = registry
        self._seconds = seconds
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="ksadk-sandbox-sweep", daemon=True).start()

    @classmethod
    def started(cls, registry: SandboxRegistry) -> _Sweeper | None:
        """One that sweeps as often as the setting says, or None where it says never."""
        seconds = Settings.from_env().sandbox_sweep_interval_seconds
        return cls(registry, seconds) if seconds else None

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._registry.sweep()


def reap_left_over(reap: Callable[[Facts], None], now: float | None = None) -> list[Facts]:
    """End the sandboxes whose programs were killed; returns those that were. What cannot be ended now stays
    written down."""
    ended = []
    for record in records.left_over(time.time() if now is None else now):
        try:
            reap(record.facts)
        except KsadkError:
            record.release()
        else:
            record.drop()
            ended.append(record.facts)
    return ended


def _facts_of(entry: SandboxEntry, mark: str) -> Facts:
    return Facts(
        sandbox_id=entry.sandbox_id,
        backend=entry.backend_name,
        workspace=str(getattr(entry.session, "workspace_root", "")),
        created_at=entry.created_at,
        account=account_tag(get_current_account_id()),
        mark=mark,
        pid=os.getpid(),
    )


_FALLBACK = SandboxRegistry()
_bound: ContextVar[SandboxRegistry] = ContextVar("ksadk_sandbox_registry", default=_FALLBACK)


class _Global:
    """Stands for the registry that is bound where it is used, else for the process's own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_bound.get(), name)


GLOBAL_SANDBOX_REGISTRY = cast("SandboxRegistry", _Global())


@contextlib.contextmanager
def bind_sandbox_registry(registry: SandboxRegistry) -> Iterator[SandboxRegistry]:
    """Let `GLOBAL_SANDBOX_REGISTRY` be `registry` inside a `with` block. Its owner closes it."""
    with scoped(_bound, registry):
        yield registry


atexit.register(_FALLBACK.clear)
os.register_at_fork(after_in_child=_FALLBACK.forget)
