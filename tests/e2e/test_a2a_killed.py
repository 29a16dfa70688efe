"""kill -9 of a server: no task that a client was told of is lost, and none works for ever."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types import ListTasksRequest, Task, TaskState
from a2a_process import serving
from killable_server import agent

from ksadk.a2a.card import build_agent_card
from ksadk.a2a.runners.callable import CallableRunner
from ksadk.a2a.server import A2AServer
from ksadk.a2a.stores.base import OwnerContext
from ksadk.a2a.stores.opening import open_stores

SCRIPT = Path(__file__).with_name("killable_server.py")
TERMINAL = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED"}
Told = dict[str, str]
"""The last state that a client was told of each task."""


def message(text: str, *, task_id: str = "", at_once: bool = False) -> dict[str, Any]:
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], "taskId": task_id}
    return {"message": said, "configuration": {"returnImmediately": at_once}}


async def told(
    client: httpx.AsyncClient, url: str, method: str, params: dict[str, Any]
) -> AsyncIterator[Any]:
    """The results that a client is told in answer to a request, until the server is killed."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"A2A-Version": "1.0"}
    with contextlib.suppress(httpx.TransportError):
        async with client.stream("POST", url, json=request, headers=headers) as answer:
            if method != "SendStreamingMessage":
                yield json.loads(await answer.aread())["result"]
                return
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))["result"]


async def tell(tasks: Told, results: AsyncIterator[Any]) -> str:
    """Write down what a client is told; the task that it is about."""
    task_id = ""
    async for result in results:
        if "task" in result:
            task_id = result["task"]["id"]
            tasks[task_id] = result["task"]["status"]["state"]
        elif "statusUpdate" in result:
            task_id = result["statusUpdate"]["taskId"]
            tasks[task_id] = result["statusUpdate"]["status"]["state"]
        else:
            tasks.setdefault(result["artifactUpdate"]["taskId"], "")
    return task_id


async def talk(url: str, tasks: Told) -> None:
    """One client that starts tasks in every way, and answers one that asks."""
    async with asyncio.timeout(20), httpx.AsyncClient(timeout=20) as client:
        await tell(tasks, told(client, url, "SendStreamingMessage", message("hello")))
        await tell(tasks, told(client, url, "SendMessage", message("hello")))
        asking = await tell(tasks, told(client, url, "SendMessage", message("ask")))
        await tell(tasks, told(client, url, "SendMessage", message("this one", task_id=asking)))
        await tell(tasks, told(client, url, "SendMessage", message("hello", at_once=True)))


def wrong(directory: Path, tasks: Told) -> list[str]:
    """What a server that starts again makes of the tasks that clients were told of, where that is wrong."""

    async def look() -> list[str]:
        stores = open_stores("sqlite:///tasks.db", directory=directory)
        card = build_agent_card(name="killed", base_url="http://127.0.0.1:1")
        server = A2AServer(CallableRunner(agent), card, stores)
        await server.start()
        owner = OwnerContext(owner="anonymous")
        kept = {task.id: task for task in (await stores.tasks.list(ListTasksRequest(), owner)).tasks}
        assert await stores.pauses.waiting() == []
        await server.aclose()
        return faults(tasks, kept)

    return asyncio.run(look())


def faults(tasks: Told, kept: dict[str, Task]) -> list[str]:
    found = [f"{task_id}: lost, and was {state}" for task_id, state in tasks.items() if task_id not in kept]
    for task_id, task in kept.items():
        state = TaskState.Name(task.status.state)
        was = tasks.get(task_id)
        if state in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"):
            found.append(f"{task_id}: stuck, {state}")
        elif was in TERMINAL and state != was:
            found.append(f"{task_id}: was {was}, and is {state}")
        elif state == "TASK_STATE_FAILED" and not task.status.message.parts:
            found.append(f"{task_id}: failed without a reason")
    return found


class Killable:
    """Serves once for each point; see `killable_server`."""

    def __init__(self, process: subprocess.Popen[str], directory: Path) -> None:
        self._process = process
        self._directory = directory
        self._served = 0

    def run(self, point: int) -> tuple[int, list[str]]:
        """Serve and talk until the server is killed at a point, else when all is said; how many points there
        were, and what is wrong afterwards."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{point}\n")
        self._process.stdin.flush()
        port, pid = self._process.stdout.readline().split()
        tasks: Told = {}
        asyncio.run(talk(f"http://127.0.0.1:{port}/a2a/jsonrpc", tasks))
        with contextlib.suppress(ProcessLookupError):
            for _ in range(0 if point < 0 else 50):  # what it does when all is said has points, too
                os.kill(int(pid), 0)
                time.sleep(0.01)
            os.kill(int(pid), signal.SIGKILL)
        points = int(self._process.stdout.readline())
        directory = self._directory / str(self._served)
        self._served += 1
        return points, wrong(directory, tasks)


@contextmanager
def killable(store: str, directory: Path) -> Iterator[Killable]:
    directory.mkdir()
    command = [sys.executable, str(SCRIPT), store, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Killable(process, directory)
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("part", range(4))
def test_a_server_killed_before_or_after_anything_that_its_store_does_loses_no_task(
    tmp_path: Path, part: int
) -> None:
    with killable("ours", tmp_path / "killed") as server:
        points, found = server.run(-1)
        assert found == []
        assert points > 60
        reached = []
        for point in range(part, points, 4):
            killed_at, found = server.run(point)
            reached.append(killed_at == point)
            assert found == [], f"killed at point {point}"
        # How much is written in one transaction depends on the moment, and so does the number of points.
        assert sum(reached) > 0.8 * len(reached)


@pytest.mark.parametrize("store", ["memory", "later"])
def test_the_same_kill_catches_a_naive_store(tmp_path: Path, store: str) -> None:
    with killable(store, tmp_path / "killed") as server:
        _, found = server.run(-1)
    assert [fault for fault in found if "lost" in fault or "stuck" in fault]


AGENT = """
import asyncio

async def root_agent(text):
    for number in range(5):
        yield f"{number} "
        await asyncio.sleep(0.01)
"""


def test_a_server_killed_under_load_loses_no_task(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "agent.py").write_text(AGENT)
    tasks: Told = {}

    def ended() -> int:
        return sum(state in TERMINAL for state in tasks.values())

    async def load(url: str, pid: int) -> None:
        async with httpx.AsyncClient(timeout=20, limits=httpx.Limits(max_connections=40)) as client:

            async def work(method: str) -> None:
                while await tell(tasks, told(client, f"{url}/a2a/jsonrpc", method, message("hello"))):
                    pass

            async def kill() -> None:
                enough = ended() + 50
                while ended() < enough:
                    await asyncio.sleep(0.01)
                os.kill(pid, signal.SIGKILL)

            methods = ["SendMessage", "SendStreamingMessage"] * 8
            await asyncio.gather(kill(), *(work(method) for method in methods))

    for _ in range(3):
        with serving(str(project), log=tmp_path / "log") as served:
            asyncio.run(load(served.url, served.process.pid))
            served.process.wait(10)
    with serving(str(project), log=tmp_path / "log") as served:
        kept = asyncio.run(every_task(served.url))
    assert len(tasks) >= 150
    assert any(state not in TERMINAL for state in tasks.values())
    assert faults(tasks, kept) == []


async def every_task(url: str) -> dict[str, Task]:
    """The tasks of a served agent, page by page."""
    from google.protobuf.json_format import ParseDict

    kept, token = {}, ""
    async with httpx.AsyncClient(timeout=20) as client:
        while True:
            params = {"pageSize": 100, "pageToken": token}
            (page,) = [page async for page in told(client, f"{url}/a2a/jsonrpc", "ListTasks", params)]
            for found in page["tasks"]:
                kept[found["id"]] = ParseDict(found, Task())
            token = page.get("nextPageToken", "")
            if not token:
                return kept
