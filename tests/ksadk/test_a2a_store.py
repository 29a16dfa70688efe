"""The SQLite store of tasks: what it keeps, for whom, and in what order it tells of it."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from a2a.auth.user import User
from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryTaskStore, TaskStore
from a2a.types import Artifact, ListTasksRequest, Part, Task, TaskState, TaskStatus
from a2a.utils.errors import InvalidParamsError
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ksadk.a2a.stores.base import ACCOUNT_KEY, RUNTIME_KEY, OwnerContext, Paused, default_owner_resolver
from ksadk.a2a.stores.opening import PROGRESS_SECONDS, SQLiteStores, open_stores

SUBMITTED, WORKING = TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING
ASKING, COMPLETED = TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_COMPLETED


TASKS_OF_FILE = "SELECT task FROM ksadk_a2a_tasks"


def task(task_id: str, state: TaskState = WORKING, *, context: str = "c", at: int | None = 1000) -> Task:
    """A task; `at` is the time of its status in milliseconds."""
    status = TaskStatus(state=state)
    if at is not None:
        status.timestamp.FromMilliseconds(at)
    return Task(id=task_id, context_id=context, status=status)


def owner(name: str) -> OwnerContext:
    return OwnerContext(owner=name)


ANN, BOB = owner("ann"), owner("bob")


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[SQLiteStores]:
    opened = open_stores("sqlite:///.agentengine/a2a_tasks.db", directory=tmp_path)
    assert isinstance(opened, SQLiteStores)
    yield opened
    asyncio.run(opened.aclose())


def again(stores: SQLiteStores) -> SQLiteStores:
    """The same stores after their server was started again."""
    path = stores._file.path
    asyncio.run(stores.aclose())
    return SQLiteStores(path, "normal", None)


def saved(stores: SQLiteStores, *tasks: Task, context: ServerCallContext = ANN) -> None:
    async def save() -> None:
        await asyncio.gather(*(stores.tasks.save(each, context) for each in tasks))

    asyncio.run(save())


def got(stores: SQLiteStores, task_id: str, context: ServerCallContext = ANN) -> Task | None:
    return asyncio.run(stores.tasks.get(task_id, context))


def test_a_task_comes_back_whole_also_after_a_restart(stores: SQLiteStores) -> None:
    kept = task("t", COMPLETED)
    kept.artifacts.append(Artifact(artifact_id="a", parts=[Part(text="你好 🚀"), Part(raw=b"\x00\xff")]))
    kept.metadata.update({"k": [1, None, {"x": True}]})
    saved(stores, kept)
    assert got(stores, "t") == kept
    restarted = again(stores)
    assert got(restarted, "t") == kept
    asyncio.run(restarted.aclose())


def test_what_was_got_is_the_callers_own(stores: SQLiteStores) -> None:
    saved(stores, task("t"))
    first = got(stores, "t")
    assert first is not None
    first.status.state = COMPLETED
    assert got(stores, "t") == task("t")


def test_what_is_saved_later_is_what_is_kept(stores: SQLiteStores) -> None:
    saved(stores, task("t", SUBMITTED), task("t", WORKING), task("t", COMPLETED, at=2000))
    assert got(stores, "t") == task("t", COMPLETED, at=2000)
    assert listed(stores).total_size == 1


def test_somebody_elses_task_is_not_there(stores: SQLiteStores) -> None:
    saved(stores, task("t"))
    assert got(stores, "t", BOB) is None
    assert listed(stores, context=BOB).total_size == 0
    asyncio.run(stores.tasks.delete("t", BOB))
    saved(stores, task("t", COMPLETED), context=BOB)
    assert got(stores, "t") == task("t")
    asyncio.run(stores.tasks.delete("t", ANN))
    assert got(stores, "t") is None
    assert got(stores, "t", BOB) == task("t", COMPLETED)


@pytest.mark.parametrize("hostile", ["", "'; DROP TABLE x; --", "%", "../x", "\x00", "é" * 5000])
def test_any_text_is_an_id(stores: SQLiteStores, hostile: str) -> None:
    saved(stores, task(hostile, context=hostile), context=owner(hostile))
    assert got(stores, hostile, owner(hostile)) == task(hostile, context=hostile)
    assert got(stores, hostile) is None


def listed(stores: SQLiteStores, context: ServerCallContext = ANN, **asked: Any) -> Any:
    return asyncio.run(stores.tasks.list(ListTasksRequest(**asked), context))


def test_a_page_token_stays_valid_when_its_task_changes_or_goes(stores: SQLiteStores) -> None:
    saved(stores, *(task(str(number), at=1000 + number) for number in range(6)))
    first = listed(stores, page_size=2)
    assert [each.id for each in first.tasks] == ["5", "4"]
    assert first.total_size == 6
    saved(stores, task("4", COMPLETED, at=9000))
    asyncio.run(stores.tasks.delete("5", ANN))
    second = listed(stores, page_size=3, page_token=first.next_page_token)
    assert [each.id for each in second.tasks] == ["3", "2", "1"]
    last = listed(stores, page_size=3, page_token=second.next_page_token)
    assert [each.id for each in last.tasks] == ["0"]
    assert last.next_page_token == ""


@pytest.mark.parametrize(
    "asked",
    [
        {"page_token": "?"},
        {"page_token": "eA=="},
        {"page_token": "eyJ0cyI6MX0"},
        {"page_token": "e30"},
        {"page_token": "eyJ0cyI6OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5LCJpZCI6IngifQ"},
        {"page_size": 101},
        {"page_size": -1},
    ],
)
def test_a_page_that_is_none_is_told(stores: SQLiteStores, asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidParamsError):
        listed(stores, **asked)


def test_a_time_after_all_times_finds_nothing(stores: SQLiteStores) -> None:
    saved(stores, task("t"))
    after = Timestamp()
    after.FromJsonString("9999-12-31T23:59:59.999999999Z")
    assert listed(stores, status_timestamp_after=after).total_size == 0
    after.FromJsonString("0001-01-01T00:00:00Z")
    assert listed(stores, status_timestamp_after=after).total_size == 1


TASKS = st.lists(
    st.builds(
        task,
        st.sampled_from([f"t{number}" for number in range(12)]),
        st.sampled_from([SUBMITTED, WORKING, ASKING, COMPLETED]),
        context=st.sampled_from(["c", "d"]),
        at=st.none() | st.integers(0, 4).map(lambda tenths: 1000 + tenths),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tasks=TASKS,
    size=st.integers(1, 7),
    state=st.sampled_from([0, SUBMITTED, WORKING, COMPLETED]),
    context=st.sampled_from(["", "c", "d"]),
    after=st.none() | st.integers(0, 5).map(lambda tenths: 1000 + tenths),
)
def test_every_list_is_the_sdks(
    tasks: list[Task], size: int, state: TaskState, context: str, after: int | None
) -> None:
    ours = open_stores("sqlite://").tasks
    theirs = InMemoryTaskStore(lambda call: call.owner)
    asked = ListTasksRequest(context_id=context, status=state, page_size=size)
    if after is not None:
        asked.status_timestamp_after.FromMilliseconds(after)

    async def pages(store: TaskStore) -> list[tuple[Any, ...]]:
        for each in tasks:
            await store.save(each, ANN)
        asked.page_token = ""
        seen = []
        while True:
            page = await store.list(asked, ANN)
            seen.append((list(page.tasks), page.total_size, page.page_size, page.next_page_token))
            if not page.next_page_token:
                return seen
            asked.page_token = page.next_page_token

    assert asyncio.run(pages(ours)) == asyncio.run(pages(theirs))


def statements(stores: SQLiteStores, work: Callable[[], Coroutine[Any, Any, None]]) -> list[str]:
    """The first words of what was run on the database meanwhile."""
    run: list[str] = []
    stores._file._db.set_trace_callback(lambda statement: run.append(statement.split()[0]))
    asyncio.run(work())
    stores._file._db.set_trace_callback(None)
    return run


def test_what_is_saved_in_one_turn_of_the_loop_is_one_transaction(stores: SQLiteStores) -> None:
    async def work() -> None:
        asking = Paused("t1", "c", "ann", "question")
        await asyncio.gather(
            *(stores.tasks.save(task(f"t{number}"), ANN) for number in range(40)), stores.pauses.save(asking)
        )

    assert statements(stores, work) == ["BEGIN", *["INSERT"] * 41, "COMMIT"]


def test_a_save_returns_when_it_is_committed_and_reads_see_no_less(stores: SQLiteStores) -> None:
    async def work() -> None:
        saving = asyncio.ensure_future(stores.tasks.save(task("t"), ANN))
        await asyncio.sleep(0)
        assert not saving.done()
        assert await stores.tasks.get("t", ANN) is None
        await saving
        assert not stores._file._db.in_transaction
        assert await stores.tasks.get("t", ANN) == task("t")

    asyncio.run(work())


def test_the_task_is_kept_as_it_was_when_it_was_saved(stores: SQLiteStores) -> None:
    async def work() -> None:
        changing = task("t", WORKING)
        saving = asyncio.ensure_future(stores.tasks.save(changing, ANN))
        await asyncio.sleep(0)
        changing.status.state = COMPLETED
        await saving
        assert await stores.tasks.get("t", ANN) == task("t", WORKING)

    asyncio.run(work())


def test_who_stops_waiting_for_a_save_stops_nobody_else(stores: SQLiteStores) -> None:
    async def work() -> None:
        given_up = asyncio.ensure_future(stores.tasks.save(task("a"), ANN))
        other = asyncio.ensure_future(stores.tasks.save(task("b"), ANN))
        await asyncio.sleep(0)
        given_up.cancel()
        await other

    asyncio.run(work())
    assert got(stores, "a") == task("a")
    assert got(stores, "b") == task("b")


def test_what_is_queued_at_the_end_is_written(tmp_path: Path) -> None:
    async def work() -> None:
        stores = SQLiteStores(tmp_path / "t.db", "normal", None)
        saving = asyncio.ensure_future(stores.tasks.save(task("t"), ANN))
        await asyncio.sleep(0)
        await stores.aclose()
        await saving

    asyncio.run(work())
    reopened = SQLiteStores(tmp_path / "t.db", "normal", None)
    assert got(reopened, "t") == task("t")
    asyncio.run(reopened.aclose())


def test_the_unfinished_tasks_are_those_that_somebody_worked_on(stores: SQLiteStores) -> None:
    saved(stores, task("w", WORKING, at=2000), task("q", ASKING), task("d", COMPLETED))
    saved(stores, task("s", SUBMITTED, at=1000), context=BOB)
    unfinished = asyncio.run(stores.unfinished())
    assert [(each.owner, each.task.id) for each in unfinished] == [("bob", "s"), ("ann", "w")]
    failed = unfinished[0].task
    failed.status.state = TaskState.TASK_STATE_FAILED
    saved(stores, failed, context=unfinished[0].context)
    assert got(stores, "s", BOB) == failed
    assert [each.task.id for each in asyncio.run(stores.unfinished())] == ["w"]


def test_pauses_come_back_and_go(stores: SQLiteStores) -> None:
    first = Paused("t1", "c", "ann", "question", state={"thread": "x", "n": [1, None]})
    second = Paused("t2", "c", "bob", "approval", "apr_1")

    async def work() -> None:
        await stores.pauses.save(first)
        await stores.pauses.save(second)

    asyncio.run(work())
    restarted = again(stores)

    async def look() -> None:
        pauses = restarted.pauses
        assert await pauses.waiting() == [first, second]
        assert await pauses.get("t1") == first
        await pauses.save(Paused("t1", "c", "ann", "approval", "apr_2"))
        assert [each.request_id for each in await pauses.waiting()] == ["apr_1", "apr_2"]
        await pauses.delete("t1")
        await pauses.delete("t1")
        assert await pauses.get("t1") is None

    asyncio.run(look())
    asyncio.run(restarted.aclose())


def test_only_the_user_reads_the_files(stores: SQLiteStores) -> None:
    saved(stores, task("t"))
    path = stores._file.path
    assert path is not None
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert modes == dict.fromkeys([path.name, *(path.name + end for end in ("-wal", "-shm", ".lock"))], 0o600)


@pytest.mark.parametrize(("durability", "synchronous"), [("normal", 1), ("full", 2)])
def test_the_log_is_written_as_durably_as_was_asked_for(
    tmp_path: Path, durability: Any, synchronous: int
) -> None:
    stores = SQLiteStores(tmp_path / "t.db", durability, None)
    assert stores._file.rows("PRAGMA journal_mode") == [("wal",)]
    assert stores._file.rows("PRAGMA synchronous") == [(synchronous,)]
    asyncio.run(stores.aclose())


class Named(User):
    def __init__(self, name: str) -> None:
        self.user_name = name
        self.is_authenticated = True

    user_name = ""
    is_authenticated = False


@pytest.mark.parametrize(
    ("state", "user", "expected"),
    [
        ({ACCOUNT_KEY: "acme", RUNTIME_KEY: "rt"}, "u", "acme/rt"),
        ({ACCOUNT_KEY: "acme"}, "u", "acme"),
        ({RUNTIME_KEY: "rt", ACCOUNT_KEY: ""}, "u", "rt"),
        ({ACCOUNT_KEY: "a/b", RUNTIME_KEY: "c"}, "u", "a%2Fb/c"),
        ({ACCOUNT_KEY: "a", RUNTIME_KEY: "b/c"}, "u", "a/b%2Fc"),
        ({}, "u", "u"),
        ({}, "", "anonymous"),
    ],
)
def test_a_task_is_whose_the_trusted_edge_says(state: dict[str, str], user: str, expected: str) -> None:
    assert default_owner_resolver(ServerCallContext(state=state, user=Named(user))) == expected


def test_what_a_task_at_work_says_is_read_at_once_and_written_soon(stores: SQLiteStores) -> None:
    def written() -> list[int]:
        with closing(sqlite3.connect(f"file:{stores._file.path}?mode=ro", uri=True)) as other:
            return [len(Task.FromString(blob).artifacts) for (blob,) in other.execute(TASKS_OF_FILE)]

    async def work() -> None:
        said = task("t", SUBMITTED)
        await stores.tasks.save(said, ANN)
        assert written() == [0], "its beginning is there before anybody is told of it"
        said.status.state = WORKING
        for number in range(3):
            said.artifacts.append(Artifact(artifact_id=str(number)))
            await stores.tasks.save(said, ANN)
        assert written() == [0]
        kept = await stores.tasks.get("t", ANN)
        assert kept is not None
        assert len(kept.artifacts) == 3
        await asyncio.sleep(2 * PROGRESS_SECONDS)
        assert written() == [3]
        said.artifacts.append(Artifact(artifact_id="last"))
        await stores.tasks.save(said, ANN)
        said.status.state = COMPLETED
        await stores.tasks.save(said, ANN)
        assert written() == [4], "what it comes to is there before anybody is told of it"

    asyncio.run(work())


def test_a_list_tells_of_what_was_said_just_now(stores: SQLiteStores) -> None:
    async def work() -> None:
        said = task("t", SUBMITTED)
        await stores.tasks.save(said, ANN)
        said.status.state = WORKING
        await stores.tasks.save(said, ANN)
        page = await stores.tasks.list(ListTasksRequest(status=WORKING), ANN)
        assert [each.id for each in page.tasks] == ["t"]

    asyncio.run(work())
