"""A warm process whose children write, and are killed with SIGKILL before or after any system call they make.

Each line of stdin is an order, `{"job", "root", "reads", "new", ...}`, and is answered by lines: what the
child said, if it came to that, and how it ended. `kill` is the number of a call and `before` or `after`; with
`foreign`, another program writes the file right before names are exchanged. With `plainly`, calls are not
counted, and the child is killed after `delay` seconds, if that is given.
"""

from __future__ import annotations

import builtins
import fcntl
import json
import os
import signal
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ksadk.errors import KsadkError
from ksadk.workspace import editing, exchange, writing
from ksadk.workspace.read_state import ReadStates

FOREIGN = "foreign\n"

_NO_CALLS = {"_exit", "fspath", "getpid", "kill", "strerror"}


def edit(root: Path, states: ReadStates, new: str) -> None:
    editing.edit(root, states, "f", editing.Edit("\nline 7\n", "\nLINE 7\n"))


def multi_edit(root: Path, states: ReadStates, new: str) -> None:
    changes = [editing.Edit("\nline 7\n", "\nLine 7\n"), editing.Edit("\nLine 7\n", "\nLINE 7\n")]
    editing.multi_edit(root, states, "f", changes)


def write(root: Path, states: ReadStates, new: str) -> None:
    writing.write_file(root, states, "f", new)


def write_several(root: Path, states: ReadStates, new: str) -> None:
    files = [{"path": path, "content": new} for path in ("f", "made/f")]
    writing.write_files(root, states, files)


def write_naively(root: Path, states: ReadStates, new: str) -> None:
    with open(root / "f", "w") as file:  # noqa: PTH123  # the one that truncates
        file.write(new)


JOBS = {job.__name__: job for job in (edit, multi_edit, write, write_several, write_naively)}


class Calls:
    """Counts the system calls of a child, and ends it at one of them."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.names: list[str] = []
        self._at, self._when = order.get("kill") or (None, "")
        self._foreign = Path(order["root"]) / "f" if order.get("foreign") else None

    def count(self) -> None:
        """Count from here on."""
        for name, value in list(vars(os).items()):
            if isinstance(value, types.BuiltinFunctionType) and name not in _NO_CALLS:
                self.wrap(os, name)
        self.wrap(fcntl, "flock")
        self.wrap(builtins, "open")

    def wrap(self, owner: Any, name: str) -> None:
        call: Callable[..., Any] = getattr(owner, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            if name == "renameat2" and self._foreign is not None:
                target, self._foreign = self._foreign, None
                _write_as_another_program(target)
            number = len(self.names)
            self.names.append(name)
            self._end(number, "before")
            try:
                return call(*arguments, **named)
            finally:
                self._end(number, "after")

        setattr(owner, name, counted)

    def _end(self, number: int, when: str) -> None:
        if (number, when) == (self._at, self._when):
            _kill(os.getpid(), signal.SIGKILL)


_kill, _fork, _rename = os.kill, os.fork, os.rename


def _write_as_another_program(target: Path) -> None:
    fresh = target.parent.with_name("fresh")
    fresh.write_text(FOREIGN)
    _rename(fresh, target)


def _child(order: dict[str, Any]) -> None:
    calls = Calls(order)
    if not order.get("plainly"):
        calls.count()
        calls.wrap(exchange, "renameat2")
    try:
        JOBS[order["job"]](Path(order["root"]), ReadStates(Path(order["reads"])), order["new"])
        said = "ok"
    except KsadkError as error:
        said = error.code
    answer = json.dumps({"said": said, "names": calls.names})
    sys.__stdout__.write(answer + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


def _run(order: dict[str, Any]) -> None:
    begun = time.perf_counter()
    child = _fork()
    if child == 0:
        _child(order)
        os._exit(0)
    if "delay" in order:
        time.sleep(order["delay"])
        _kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    answer = {"killed": os.WIFSIGNALED(status), "seconds": time.perf_counter() - begun}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    exchange._renameat2()
    for line in sys.stdin:
        _run(json.loads(line))
