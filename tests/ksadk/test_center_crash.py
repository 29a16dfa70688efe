"""A center that is killed at any point keeps what it has answered, and loses and doubles nothing.

Whoever was not answered asks again, with the same ids; then everything stands as if nothing had happened.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ZYGOTE = Path(__file__).with_name("center_crash_zygote.py")


class Zygote:
    def __init__(self, process: subprocess.Popen[str], directory: Path) -> None:
        self._process = process
        self.directory = directory

    def run(self, kill: int = -1, *, naive: bool = False) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        order = {"directory": str(self.directory), "kill": kill, "naive": naive}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def empty(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture
def zygote(tmp_path: Path) -> Iterator[Zygote]:
    process = subprocess.Popen(
        [sys.executable, str(ZYGOTE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield Zygote(process, tmp_path / "center")
    process.communicate(timeout=20)


def rows(directory: Path, query: str) -> list[Any]:
    if not (directory / "center.db").exists():
        return []
    connection = sqlite3.connect(directory / "center.db")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def standing(directory: Path) -> Any:
    """All that is kept, but for ids and keys that are made by chance."""
    return [
        [file.read_text() for file in (directory / "credentials").iterdir()],
        rows(directory, "SELECT space_id, name, credential_handle IS NULL FROM a2a_center_agents"),
        rows(directory, "SELECT card FROM a2a_center_versions ORDER BY card"),
        rows(
            directory,
            "SELECT state, ended_by, event_count, remote_task_id FROM a2a_center_tasks ORDER BY state",
        ),
        rows(directory, "SELECT kind, token FROM a2a_center_operations ORDER BY token"),
        rows(directory, "SELECT count(*) FROM a2a_center_permits"),
        rows(
            directory,
            "SELECT number, payload FROM a2a_center_events WHERE status IS NOT 'failed' ORDER BY number",
        ),
        rows(directory, "SELECT count(*) FROM a2a_center_events WHERE status = 'failed'"),
    ]


def whole(directory: Path, answered: list[str]) -> bool:
    """Whether what is there right after a kill fits together, and holds what was answered."""
    counts = rows(
        directory,
        """SELECT event_count, (SELECT count(*) FROM a2a_center_events e WHERE e.task_id = t.task_id),
            (SELECT count(*) FROM a2a_center_operations o WHERE o.task_id = t.task_id),
            (SELECT count(*) FROM a2a_center_permits p WHERE p.task_id = t.task_id)
        FROM a2a_center_tasks t""",
    )
    versions = rows(
        directory,
        """SELECT version_id FROM a2a_center_versions
        WHERE agent_id NOT IN (SELECT agent_id FROM a2a_center_agents)""",
    )
    handles = rows(directory, "SELECT credential_handle FROM a2a_center_agents")
    credentials = all((directory / f"credentials/{handle}.json").exists() for (handle,) in handles)
    fits = all(told == kept and operations == permits > 0 for told, kept, operations, permits in counts)
    most = max([0, *(kept for _, kept, _, _ in counts)])
    needed = max([0, *(int(number) for number in answered if number.isdigit())])
    bound = "bound" not in answered or any(rows(directory, "SELECT remote_task_id FROM a2a_center_tasks"))
    return fits and credentials and not versions and most >= needed and bound


@pytest.mark.parametrize("part", range(4))
def test_a_center_that_is_killed_at_any_point_has_all_of_it_or_nothing(zygote: Zygote, part: int) -> None:
    names = zygote.run()["points"]
    wanted = standing(zygote.directory)
    assert wanted[6][-1] == (5, '{"n":5}') and wanted[3][1][:2] == ("failed", "center")
    assert {"before COMMIT", "after COMMIT", "before replace", "after unlink"} <= set(names)
    assert len(names) > 100
    for point, name in list(enumerate(names))[part::4]:
        zygote.empty()
        killed = zygote.run(point)
        assert killed["killed"], name
        assert whole(zygote.directory, killed["answered"]), f"{point}: {name}"
        again = zygote.run()
        assert not again["killed"] and not again["failed"], f"{point}: {name}"
        assert standing(zygote.directory) == wanted, f"{point}: {name}"


def test_one_that_commits_each_statement_by_itself_is_noticed(zygote: Zygote) -> None:
    names = zygote.run(naive=True)["points"]
    wanted = standing(zygote.directory)
    broken = []
    for point, name in enumerate(names):
        if not name.startswith("after INSERT"):
            continue
        zygote.empty()
        killed = zygote.run(point, naive=True)
        if not whole(zygote.directory, killed["answered"]):
            broken.append("whole")
            continue
        zygote.run(naive=True)
        if standing(zygote.directory) != wanted:
            broken.append("standing")
    assert broken.count("whole") > 3
