"""A center as a team runs it: agents registered from outside, restarts, and kill -9 of everything."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a_process import EXAMPLES, Serving, serving
from support import Run

LOAD = Path(__file__).with_name("space_load.py")
MESSAGES = 40


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "center"


@contextlib.contextmanager
def center(tmp_path: Path, data: Path, *options: str, port: str = "0") -> Iterator[Serving]:
    """`agentengine a2a center`."""
    log = tmp_path / "center.log"
    with serving("--data-dir", str(data), *options, verb="center", log=log, port=port) as it:
        yield it


@pytest.fixture
def register(agentengine: Run, data: Path) -> Callable[..., Any]:
    def run(center: str, card: str, *options: str, status: int = 0) -> Any:
        admin = ("--admin-token-file", str(data / "admin.token"))
        done = agentengine(
            "a2a", "register", card, "--space-id", "team", "--center", center, *admin, *options, "--json"
        )
        assert done.returncode == status, done.stderr
        return json.loads(done.stdout)

    return run


def exported(served: Serving) -> dict[str, str]:
    """What a client has in its environment."""
    return {
        "KSADK_A2A_SPACE_IDS": "team",
        "KSADK_A2A_CONTROL_PLANE_URL": served.url,
        "KSADK_A2A_TOKEN_DIR": served.told["token_dirs"]["local"],
    }


def test_an_agent_is_registered_called_and_there_after_a_restart(
    tmp_path: Path, data: Path, register: Callable[..., Any], agentengine: Run
) -> None:
    echo = EXAMPLES / "echo"
    with serving(str(echo), "--task-store-dsn", "sqlite://", log=tmp_path / "echo.log") as agent:
        with center(tmp_path, data) as first:
            made = register(first.url, agent.url)
            assert (made["space_id"], made["route_kind"]) == ("team", "hosted_gateway")
            assert register(first.url, agent.url) == made
            called = agentengine("a2a", "call", made["agent_id"], "hi there", "--json", **exported(first))
            assert called.returncode == 0, called.stderr
            task = json.loads(called.stdout)
            assert task["status"] == "completed"
            assert first.end(signal.SIGTERM) == 0
        with center(tmp_path, data) as second:
            assert second.told["space_ids"] == ["team"]
            listed = agentengine("a2a", "discover", "--json", **exported(second))
            assert [agent["agent_id"] for agent in json.loads(listed.stdout)] == [made["agent_id"]]
            stands = agentengine("a2a", "status", task["task_id"], "--json", **exported(second))
            assert json.loads(stands.stdout)["status"] == "completed"
            said = first.said()
    for name in ("admin.token", "signing.key", "center.db", "tokens/a2a-gateway.jwt"):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600
    for secret in ("admin.token", "signing.key", "tokens/a2a-gateway.jwt"):
        assert (data / secret).read_text().split()[-1] not in said


def test_an_external_agent_is_registered_by_a_file_and_a_card_that_is_none_is_refused(
    tmp_path: Path, data: Path, register: Callable[..., Any], agentengine: Run
) -> None:
    card = tmp_path / "card.json"
    made = agentengine("a2a", "card", "--url", "https://vendor.example.com", "--name", "vendor")
    card.write_text(made.stdout)
    key = tmp_path / "key.json"
    key.write_text('{"Headers": {"X-Api-Key": "vendor-key-1"}}')
    with center(tmp_path, data) as served:
        options = ("--route", "public", "--credential", str(key), "--blocked", "not yet approved")
        agent = register(served.url, str(card), *options)
        assert (agent["source"], agent["callable"], agent["blocked_reason"]) == (
            "external", False, "not yet approved"
        )  # fmt: skip
        card.write_text(made.stdout.replace("https://", "http://"))
        refused = register(served.url, str(card), "--route", "public", status=1)
        assert "https" in refused["error"]["message"]
        elsewhere = register(served.url, str(tmp_path / "none.json"), status=3)
        assert elsewhere["error"]["code"] == "A2ACLI_ERR_CARD_NOT_FOUND"
        (tmp_path / "other.token").write_text("admin another-token-0123456789\n")
        other = ("--admin-token-file", str(tmp_path / "other.token"))
        denied = register(served.url, str(card), *other, status=4)
        assert denied["error"]["code"] == "A2A_CONTROL_PLANE_DENIED"


def test_a_center_that_others_reach_needs_the_address_that_they_reach_it_at(agentengine: Run) -> None:
    done = agentengine("a2a", "center", "--host", "0.0.0.0", "--port", "0")
    assert (done.returncode, "--url" in done.stderr) == (2, True)
    done = agentengine("a2a", "center", "--port", "0", "--url", "http://center.example.com")
    assert (done.returncode, "https" in done.stderr) == (2, True)


def test_a_place_where_tokens_cannot_be_is_told_of_in_words(agentengine: Run, data: Path) -> None:
    center = ("a2a", "center", "--data-dir", str(data), "--port", "0")
    done = agentengine(*center, "--token-dir", "/proc/tokens")
    assert (done.returncode, "/proc/tokens/" in done.stderr, "Traceback" in done.stderr) == (8, True, False)
    done = agentengine(*center, "--token-dir", "a=x", "--token-dir", "b=x/../x")
    assert (done.returncode, "given twice" in done.stderr) == (2, True)


def test_a_center_to_try_keeps_nothing(agentengine: Run) -> None:
    for option in (("--data-dir", "kept"), ("--db", "sqlite:///kept.db")):
        done = agentengine("a2a", "center", "demo", "--port", "0", *option)
        assert (done.returncode, "keeps nothing" in done.stderr) == (2, True)
    assert not Path("kept").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("demo", [True, False], ids=["demo", "kept"])
def test_a_center_that_ends_leaves_nothing_in_temporary_places(
    tmp_path: Path, data: Path, number: signal.Signals, demo: bool
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    arguments = ("demo",) if demo else ("--data-dir", str(data))
    log = tmp_path / "center.log"
    with serving(*arguments, verb="center", log=log, TMPDIR=str(temporary)) as it:
        assert len(list(temporary.iterdir())) == demo
        assert it.end(number) == 0
    assert list(temporary.iterdir()) == []


class Processes:
    """A center, an agent and a client, each of which can be killed and started again at its own place."""

    def __init__(self, tmp_path: Path, data: Path) -> None:
        self._tmp_path = tmp_path
        self._data = data
        self._scopes: dict[str, contextlib.ExitStack] = {}
        self.running: dict[str, Any] = {}
        self._clients = 0
        self._ports = {name: str(free_port()) for name in ("center", "agent")}
        self.log = tmp_path / "load.log"

    def start(self, name: str) -> Any:
        scope = self._scopes[name] = contextlib.ExitStack()
        self.running[name] = scope.enter_context(getattr(self, f"_{name}")())
        return self.running[name]

    def kill(self, name: str) -> None:
        process = self.running[name] if name == "client" else self.running[name].process
        process.kill()
        process.wait()
        self._scopes.pop(name).close()

    def end(self) -> None:
        for scope in self._scopes.values():
            scope.close()

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def go_on(self, messages: int) -> None:
        """Wait until the client has come so far, or to its end."""
        wanted, client = len(self.lines()) + messages, self.running["client"]
        until(lambda: len(self.lines()) >= wanted or client.poll() == 0, "the client goes on")

    def _center(self) -> Any:
        return center(self._tmp_path, self._data, "--task-timeout", "4s", port=self._ports["center"])

    def _agent(self) -> Any:
        directory = self._tmp_path / "tasks.db"
        return serving(
            str(EXAMPLES / "echo"), "--task-store-dsn", f"sqlite:///{directory}", "--grace", "0",
            port=self._ports["agent"], log=self._tmp_path / "agent.log",
        )  # fmt: skip

    @contextlib.contextmanager
    def _client(self) -> Iterator[subprocess.Popen[bytes]]:
        self._clients += 1
        process = subprocess.Popen(
            [sys.executable, str(LOAD), str(self.log), str(MESSAGES), str(self._clients)],
            env={**os.environ, **exported(self.running["center"])},
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def rows(data: Path, query: str) -> list[Any]:
    connection = sqlite3.connect(data / "center.db")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_kill_9_of_center_agent_and_client_under_load_loses_no_event_and_ends_every_task(
    tmp_path: Path, data: Path, register: Callable[..., Any]
) -> None:
    processes = Processes(tmp_path, data)
    try:
        served, agent = processes.start("center"), processes.start("agent")
        register(served.url, agent.url)
        processes.start("client")
        chance = random.Random(8)
        for name in chance.sample(["center", "client", "agent"] * 2, 6):
            processes.go_on(chance.randint(0, 3))
            processes.kill(name)
            processes.start(name)
            if name != "client" and processes.running["client"].poll() not in (None, 0):
                processes.start("client")
        until(lambda: processes.running["client"].poll() is not None, "the client ends")
        assert processes.running["client"].returncode == 0
        still = "SELECT count(*) FROM a2a_center_tasks WHERE ended_by IS NULL"
        until(lambda: rows(data, still) == [(0,)], "every task ends")
    finally:
        processes.end()
    done = {line[2]: (line[3], int(line[4])) for line in processes.lines() if line[1] == "done"}
    listed = rows(data, "SELECT task_id, state, event_count FROM a2a_center_tasks")
    tasks = {task: rest for task, *rest in listed}
    assert len({line[0] for line in processes.lines()}) == MESSAGES
    assert len(done) > MESSAGES / 2
    for task, (status, events) in done.items():
        assert tasks[task][0] == status, task
        assert tasks[task][1] >= events, task
    kept = rows(data, "SELECT task_id, count(*), max(number) FROM a2a_center_events GROUP BY task_id")
    assert [(task, count) for task, count, last in kept if count != last or tasks[task][1] != count] == []
    twice = """SELECT task_id FROM a2a_center_events WHERE wire_position IS NOT NULL
        GROUP BY task_id, kind, payload, wire_position, ordinal HAVING count(*) > 1"""
    assert rows(data, twice) == []
    unplaced = "SELECT DISTINCT status FROM a2a_center_events WHERE wire_position IS NULL"
    assert set(rows(data, unplaced)) <= {("failed",)}  # the center's own
    outbox = sqlite3.connect("outbox.sqlite3")
    assert outbox.execute("SELECT count(*) FROM a2a_task_event_outbox").fetchone() == (0,)
    outbox.close()
