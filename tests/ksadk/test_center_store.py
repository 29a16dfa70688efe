"""What a center keeps of agents, tasks and events, in each database that it can be kept in."""

from __future__ import annotations

import asyncio
import hashlib
import json
import stat
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import postgres
import pytest
from centers import ANN, BOB, SPACE, Clock, card_of
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ksadk.a2a.center.credentials import Credentials
from ksadk.a2a.center.database import CenterStoreError, Database, open_database
from ksadk.a2a.center.event_log import MAX_EVENTS, EventLog, Patience
from ksadk.a2a.center.ledger import Call, Ledger, TaskCall
from ksadk.a2a.center.permits import LIFETIME_MS, Permits
from ksadk.a2a.center.refusal import Refusal
from ksadk.a2a.center.registry import Registration, Registry
from ksadk.a2a.center.workload_tokens import Signer
from ksadk.a2a.space.events import TaskEvent, source_event_id
from ksadk.a2a.space.models import Credential, PreparedOperation, RemoteTask
from ksadk.errors import KsadkError

T = TypeVar("T")

TABLES = ("agents", "versions", "tasks", "operations", "permits", "repeats", "events")
SHA = "a" * 64
BASE = "http://127.0.0.1:8090"
CARD = card_of("research-agent", "http://127.0.0.1:9")


class Desk:
    """Registry, ledger and events of one database, as one process has them."""

    def __init__(self, dsn: str, directory: Path, clock: Clock) -> None:
        self.clock = clock
        self.directory = directory
        self.database: Database = open_database(dsn, directory=directory)
        self.credentials = Credentials(directory / "credentials")
        self.registry = Registry(self.database, self.credentials, clock=clock)
        permits = Permits(Signer(b"k" * 64, clock=clock))
        self.ledger = Ledger(self.database, self.registry, permits, BASE, clock=clock)
        self.events = EventLog(self.database, patience=Patience(60, 600, 6000), clock=clock)

    async def registered(self, **more: Any) -> str:
        """An agent's id."""
        fields = {"space_id": SPACE, "card": CARD, "route_kind": "hosted_gateway", **more}
        return (await self.registry.register(Registration(**fields))).agent_id

    async def called(self, token: str = "t") -> PreparedOperation:
        agent = await self.registered()
        return await self.ledger.prepare_call(ANN, Call(SPACE, agent, "m", SHA, token))

    async def looked(self, task_id: str) -> PreparedOperation:
        return await self.ledger.prepare_operation(ANN, TaskCall(task_id, "get_task"))

    async def rows(self, query: str) -> list[dict[str, Any]]:
        async with self.database.transaction() as transaction:
            return [dict(row) for row in await transaction.run(query)]

    async def task(self) -> dict[str, Any]:
        (task,) = await self.rows("SELECT * FROM a2a_center_tasks")
        return task

    async def told(self) -> list[tuple[str, str]]:
        """Kind and payload of each event, in order."""
        rows = await self.rows("SELECT * FROM a2a_center_events ORDER BY number")
        assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
        return [(row["kind"], row["payload"]) for row in rows]


@pytest.fixture(scope="module")
def postgres_dsn() -> Iterator[str]:
    with postgres.running() as dsn:
        yield dsn


@pytest.fixture(params=["sqlite", "sqlalchemy", "postgresql"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return "sqlite:///center.db"
    if request.param == "sqlalchemy":
        return f"sqlite+aiosqlite:///{tmp_path}/center.db?timeout=5"
    found: str = request.getfixturevalue("postgres_dsn")
    asyncio.run(_empty(found, tmp_path))
    return found


async def _empty(dsn: str, directory: Path) -> None:
    database = open_database(dsn, directory=directory)
    async with database.transaction() as transaction:
        for table in TABLES:
            await transaction.run(f"DELETE FROM a2a_center_{table}")
    await database.aclose()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def do(dsn: str, tmp_path: Path, clock: Clock) -> Any:
    """Runs a coroutine function with a desk of the database; each time as a new process would."""

    def run(work: Any) -> Any:
        async def with_desk() -> Any:
            desk = Desk(dsn, tmp_path, clock)
            try:
                return await work(desk)
            finally:
                await desk.database.aclose()

        return asyncio.run(with_desk())

    return run


async def refused(work: Coroutine[Any, Any, Any]) -> tuple[int, str]:
    with pytest.raises(Refusal) as error:
        await work
    return error.value.status, error.value.error_code


def event(n: int, kind: str = "status", payload: Any = None, status: str | None = None) -> TaskEvent:
    return TaskEvent(f"e-{n}", kind, payload or {"n": n}, "2026-11-30T08:00:00.000Z", status)  # type: ignore[arg-type]


def wired(
    prepared: PreparedOperation,
    position: int,
    ordinal: int,
    kind: str,
    payload: Any,
    status: str | None = None,
) -> TaskEvent:
    """An event as a client makes it, of a place in the answers to a call."""
    permit = hashlib.sha256(prepared.call_permit.encode()).hexdigest()
    source = source_event_id(prepared.task_id, permit, position, ordinal, kind)  # type: ignore[arg-type]
    return TaskEvent(source, kind, payload, "2026-11-30T08:00:00.000Z", status)  # type: ignore[arg-type]


def test_the_same_card_is_the_same_version_and_another_card_another_version(do: Any) -> None:
    async def work(desk: Desk) -> None:
        first = await desk.registry.register(Registration(SPACE, CARD, "hosted_gateway"))
        again = await desk.registry.register(Registration(SPACE, CARD, "hosted_gateway"))
        newer = await desk.registry.register(
            Registration(SPACE, CARD | {"version": "2.0.0"}, "hosted_gateway")
        )
        back = await desk.registry.register(Registration(SPACE, CARD, "hosted_gateway", "on holiday"))
        elsewhere = await desk.registry.register(Registration("other", CARD, "hosted_gateway"))
        assert first == again
        assert first.agent_id == newer.agent_id == back.agent_id != elsewhere.agent_id
        assert newer.version_id != first.version_id == back.version_id
        assert (back.blocked_reason, first.blocked_reason) == ("on holiday", "")
        assert await desk.registry.agents(SPACE) == [back]
        assert await desk.registry.spaces() == ["other", SPACE]

    do(work)


def test_what_was_kept_is_there_for_the_next_process(do: Any) -> None:
    async def before(desk: Desk) -> PreparedOperation:
        prepared = await desk.called()
        await desk.ledger.bind(ANN, prepared.task_id, RemoteTask("r", "c"))
        await desk.events.append(ANN, prepared.task_id, [event(1, status="working")])
        return prepared

    async def after(desk: Desk) -> None:
        assert await desk.called() == replace(prepared, remote_task=RemoteTask("r", "c"))
        assert (await desk.looked(prepared.task_id)).remote_task == RemoteTask("r", "c")
        assert await desk.events.append(ANN, prepared.task_id, [event(1), event(2)]) == 1
        assert (await desk.task())["state"] == "working"

    prepared = do(before)
    do(after)


def test_the_published_card_of_a_hosted_agent_names_the_gateway_only(
    do: Any,
) -> None:
    hidden = {
        "securitySchemes": {"b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"b": {"list": []}}}],
    }

    async def work(desk: Desk) -> None:
        agent = await desk.registry.register(Registration(SPACE, CARD | hidden, "hosted_gateway"))
        item = agent.listed(BASE).to_payload()
        card = item["AgentCard"]
        assert [interface["url"] for interface in card["supportedInterfaces"]] == [
            f"{BASE}/agents/{agent.agent_id}/a2a/jsonrpc",
            f"{BASE}/agents/{agent.agent_id}/a2a/v1",
        ]
        assert "127.0.0.1:9/" not in json.dumps(item) and not hidden.keys() & card.keys()
        text = json.dumps(card, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert item["CardSha256"] == hashlib.sha256(text.encode()).hexdigest()

    do(work)


INTERFACE = CARD["supportedInterfaces"][0]


@pytest.mark.parametrize(
    ("card", "route", "words"),
    [
        (CARD | {"name": ""}, "hosted_gateway", "name"),
        (CARD | {"name": "a\nb"}, "hosted_gateway", "printable"),
        (CARD | {"name": "n" * 300}, "hosted_gateway", "256"),
        (CARD | {"url": "http://x.example"}, "hosted_gateway", "url"),
        (CARD | {"later": 1}, "hosted_gateway", "later"),
        (CARD | {"supportedInterfaces": [INTERFACE | {"tenant": "t"}]}, "hosted_gateway", "no interface"),
        (
            CARD | {"supportedInterfaces": [INTERFACE | {"protocolBinding": "GRPC"}]},
            "hosted_gateway",
            "no inter",
        ),
        (
            CARD | {"supportedInterfaces": [INTERFACE | {"protocolVersion": "2.0"}]},
            "hosted_gateway",
            "A2A 1.0",
        ),
        (CARD, "external_public", "over https"),
        (CARD, "external_vpc", "over https"),
    ],
)
def test_a_card_that_clients_could_not_use_is_refused(
    tmp_path: Path, card: dict[str, Any], route: Any, words: str
) -> None:
    async def work() -> None:
        desk = Desk("sqlite://", tmp_path, Clock())
        with pytest.raises(Refusal, match=words) as refusal:
            await desk.registry.register(Registration(SPACE, card, route))
        assert (refusal.value.status, refusal.value.field) == (400, "AgentCard")
        assert await desk.rows("SELECT * FROM a2a_center_agents") == []

    asyncio.run(work())


def test_a_credential_stays_until_the_agent_moves_or_it_is_taken_back(tmp_path: Path) -> None:
    vendor = card_of("vendor", "https://vendor.example.com")
    moved = card_of("vendor", "https://elsewhere.example.com")
    key = Credential({"X-Api-Key": "vendor-key-1"})

    async def work() -> None:
        desk = Desk("sqlite://", tmp_path, Clock())

        async def register(card: Any, credential: Credential | None) -> str | None:
            made = Registration(SPACE, card, "external_public", credential=credential)
            return (await desk.registry.register(made)).credential_handle

        first = await register(vendor, key)
        assert first and desk.credentials.get(first, "u") == replace(key, expires_at="u")
        assert await register(vendor | {"version": "2"}, None) == first
        assert await refused(register(moved, None)) == (409, "A2A_CREDENTIAL_REQUIRED")
        second = await register(moved, key)
        assert second not in (None, first)
        assert [file.stem for file in (tmp_path / "credentials").iterdir()] == [second]
        assert await register(moved, Credential()) is None
        assert list((tmp_path / "credentials").iterdir()) == []

    asyncio.run(work())


def test_a_credential_that_no_agent_got_is_deleted_but_not_one_that_is_just_being_registered(
    tmp_path: Path,
) -> None:
    credentials = Credentials(tmp_path / "credentials")
    used, orphan = (credentials.keep(Credential({"X-Api-Key": "vendor-key-1"})) for _ in range(2))
    files = [tmp_path / "credentials" / f"{handle}.json" for handle in (used, orphan)]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
    assert stat.S_IMODE((tmp_path / "credentials").stat().st_mode) == 0o700
    kept_at = files[1].stat().st_mtime
    credentials.forget_all_but({used}, kept_at - 1)
    assert files[1].exists()
    credentials.forget_all_but({used}, kept_at + 1)
    assert (files[0].exists(), files[1].exists()) == (True, False)


def test_a_token_stands_for_one_request_of_one_workload(do: Any) -> None:
    async def work(desk: Desk) -> None:
        first = await desk.called()
        agent = first.target.agent_id
        assert await desk.called() == first
        conflict = (409, "A2A_IDEMPOTENCY_CONFLICT")
        assert (
            await refused(desk.ledger.prepare_call(ANN, Call(SPACE, agent, "m", "b" * 64, "t"))) == conflict
        )
        assert await refused(desk.ledger.prepare_call(ANN, Call(SPACE, agent, "m2", SHA, "t"))) == conflict
        other = TaskCall(first.task_id, "cancel_task", token="t")
        assert await refused(desk.ledger.prepare_operation(ANN, other)) == conflict
        theirs = await desk.ledger.prepare_call(BOB, Call(SPACE, agent, "m", "b" * 64, "t"))
        assert theirs.task_id != first.task_id
        sends = TaskCall(first.task_id, "send_message", "m2", SHA, "t2")
        assert await desk.ledger.prepare_operation(ANN, sends) == await desk.ledger.prepare_operation(
            ANN, sends
        )

    do(work)


def test_the_answer_to_a_token_is_the_same_after_the_agent_changed_and_new_once_it_expired(
    do: Any, clock: Clock
) -> None:
    async def work(desk: Desk) -> None:
        first = await desk.called()
        await desk.registry.register(Registration(SPACE, CARD | {"version": "2"}, "hosted_gateway"))
        call = Call(SPACE, first.target.agent_id, "m", SHA, "t", first.target.version_id)
        assert await desk.ledger.prepare_call(ANN, call) == first
        other = Call(SPACE, first.target.agent_id, "m", SHA, "t2", first.target.version_id)
        assert await refused(desk.ledger.prepare_call(ANN, other)) == (409, "A2A_TARGET_VERSION_CHANGED")
        clock.now += LIFETIME_MS / 1000
        renewed = await desk.ledger.prepare_call(ANN, call)
        assert renewed.call_permit != first.call_permit
        changed = {
            "call_permit": renewed.call_permit,
            "call_permit_expires_at": renewed.call_permit_expires_at,
        }
        assert renewed == replace(first, **changed)
        assert len(await desk.rows("SELECT * FROM a2a_center_tasks")) == 1

    do(work)


def test_a_blocked_agent_is_called_no_more_nor_are_its_tasks_gone_on_with(do: Any) -> None:
    async def work(desk: Desk) -> None:
        prepared = await desk.called()
        await desk.registered(blocked_reason="it leaks")
        blocked = (403, "A2A_AGENT_BLOCKED")
        assert await refused(desk.looked(prepared.task_id)) == blocked
        assert (
            await refused(desk.ledger.prepare_call(ANN, Call(SPACE, prepared.target.agent_id, "m", SHA, "t")))
            == blocked
        )

    do(work)


def test_a_task_is_bound_once_and_to_one_task_of_the_agents(do: Any) -> None:
    async def work(desk: Desk) -> None:
        one, two = await desk.called("t1"), await desk.called("t2")
        conflict = (409, "A2A_REMOTE_BINDING_CONFLICT")
        await desk.ledger.bind(ANN, one.task_id, RemoteTask("r"))
        await desk.ledger.bind(ANN, one.task_id, RemoteTask("r", "c"))
        await desk.ledger.bind(ANN, one.task_id, RemoteTask("r"))
        assert (await desk.looked(one.task_id)).remote_task == RemoteTask("r", "c")
        assert await refused(desk.ledger.bind(ANN, one.task_id, RemoteTask("other"))) == conflict
        assert await refused(desk.ledger.bind(ANN, one.task_id, RemoteTask("r", "other"))) == conflict
        assert await refused(desk.ledger.bind(ANN, two.task_id, RemoteTask("r"))) == conflict
        assert (await desk.looked(two.task_id)).remote_task is None

    do(work)


@pytest.mark.parametrize("dsn", ["sqlite", "postgresql"], indirect=True)
def test_centers_that_share_a_database_bind_a_task_to_one_task_of_the_agents(
    dsn: str, tmp_path: Path, clock: Clock
) -> None:
    async def work() -> None:
        desks = [Desk(dsn, tmp_path, clock) for _ in range(4)]
        await desks[0].registered()
        for n in range(5):
            task = (await desks[0].called(f"t{n}")).task_id
            binds = [
                desk.ledger.bind(ANN, task, RemoteTask(f"r{n}-{m}", "c")) for m, desk in enumerate(desks)
            ]
            answers = await asyncio.gather(*binds, return_exceptions=True)
            (bound,) = (m for m, answer in enumerate(answers) if answer is None)
            assert {type(answer) for answer in answers} == {type(None), Refusal}
            assert (await desks[0].looked(task)).remote_task == RemoteTask(f"r{n}-{bound}", "c")
        for desk in desks:
            await desk.database.aclose()

    asyncio.run(work())


def test_events_are_kept_in_order_and_each_once_by_its_id(do: Any) -> None:
    async def work(desk: Desk) -> None:
        task = (await desk.called()).task_id
        assert await desk.events.append(ANN, task, [event(1), event(2)]) == 2
        assert await desk.events.append(ANN, task, [event(1), event(2), event(3)]) == 1
        assert await desk.events.append(ANN, task, [event(4), event(4)]) == 1
        assert [payload for _, payload in await desk.told()] == [f'{{"n":{n}}}' for n in (1, 2, 3, 4)]

    do(work)


@pytest.mark.parametrize("dsn", ["sqlite", "postgresql"], indirect=True)
def test_centers_that_share_a_database_keep_each_event_once(dsn: str, tmp_path: Path, clock: Clock) -> None:
    async def work() -> None:
        desks = [Desk(dsn, tmp_path, clock) for _ in range(4)]
        task = (await desks[0].called()).task_id
        batches = [desk.events.append(ANN, task, [event(n) for n in range(5)]) for desk in desks]
        assert sorted(await asyncio.gather(*batches)) == [0, 0, 0, 5]
        assert len(await desks[0].told()) == 5
        agent = (await desks[0].looked(task)).target.agent_id
        calls = [desk.ledger.prepare_call(ANN, Call(SPACE, agent, "m", SHA, "t2")) for desk in desks]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        prepared = [answer for answer in answers if isinstance(answer, PreparedOperation)]
        assert {type(answer) for answer in answers} <= {PreparedOperation, CenterStoreError}
        assert len(prepared) > 0 and all(answer == prepared[0] for answer in prepared)
        for desk in desks:
            assert await desk.ledger.prepare_call(ANN, Call(SPACE, agent, "m", SHA, "t2")) == prepared[0]
            await desk.database.aclose()

    asyncio.run(work())


@pytest.mark.parametrize("dsn", ["sqlite", "postgresql"], indirect=True)
def test_centers_that_begin_at_one_time_on_an_empty_database_all_begin(
    dsn: str, tmp_path: Path, clock: Clock
) -> None:
    async def work() -> None:
        desk = Desk(dsn, tmp_path, clock)
        async with desk.database.transaction() as transaction:
            for table in TABLES:
                await transaction.run(f"DROP TABLE a2a_center_{table}")
        await desk.database.aclose()
        desks = [Desk(dsn, tmp_path, clock) for _ in range(4)]
        await asyncio.gather(*(desk.registry.spaces() for desk in desks))
        for desk in desks:
            await desk.called()
            await desk.database.aclose()

    asyncio.run(work())


WORKING = {"state": "TASK_STATE_WORKING"}
DONE = {"state": "TASK_STATE_COMPLETED"}
CHUNK = {"Artifact": {"artifactId": "a", "parts": [{"text": "ha"}]}, "Append": True, "LastChunk": False}


def test_an_event_at_the_position_of_the_same_one_of_another_call_is_dropped(do: Any) -> None:
    async def work(desk: Desk) -> None:
        call = await desk.called()
        said = [("status", WORKING), ("artifact", CHUNK), ("artifact", CHUNK), ("status", DONE)]
        one = [wired(call, number, 0, kind, payload) for number, (kind, payload) in enumerate(said)]
        assert await desk.events.append(ANN, call.task_id, one[:3]) == 3
        # A client that begins again under another permit tells of all of it again, and of what is new.
        again = await desk.looked(call.task_id)
        two = [wired(again, number, 0, kind, payload) for number, (kind, payload) in enumerate(said)]
        assert await desk.events.append(ANN, call.task_id, two) == 1
        assert await desk.events.append(ANN, call.task_id, one[3:]) == 0
        assert [kind for kind, _ in await desk.told()] == [kind for kind, _ in said]

    do(work)


def test_events_at_other_positions_or_with_other_contents_are_events_of_their_own(do: Any) -> None:
    async def work(desk: Desk) -> None:
        call, again = await desk.called(), None
        items = [wired(call, 0, 0, "status", WORKING), wired(call, 0, 1, "artifact", CHUNK)]
        assert await desk.events.append(ANN, call.task_id, items) == 2
        again = await desk.looked(call.task_id)
        items = [
            wired(again, 0, 0, "status", DONE),
            wired(again, 0, 1, "artifact", CHUNK | {"Append": False}),
            wired(again, 1, 0, "artifact", CHUNK),
            wired(again, 5, 0, "artifact", CHUNK),
            wired(again, 900, 0, "artifact", CHUNK),
        ]
        assert await desk.events.append(ANN, call.task_id, items) == 5
        places = await desk.rows("SELECT wire_position, ordinal FROM a2a_center_events ORDER BY number")
        known = [(row["wire_position"], row["ordinal"]) for row in places]
        assert known == [(0, 0), (0, 1), (0, 0), (0, 1), (1, 0), (5, 0), (None, None)]

    do(work)


# Not shrunk: that would take minutes.
@settings(max_examples=60, phases=[Phase.explicit, Phase.generate])
@given(data=st.data())
def test_however_batches_are_cut_and_repeated_each_event_is_there_once(
    data: st.DataObject,
) -> None:
    async def work(directory: Path) -> None:
        desk = Desk("sqlite://", directory, Clock())
        call = await desk.called()
        length = data.draw(st.integers(1, 12))
        said = [{"Artifact": {"n": data.draw(st.integers(0, 1))}} for _ in range(length)]
        sent = 0
        for _ in range(data.draw(st.integers(1, 3))):  # processes, each under a permit of its own
            mine = await desk.looked(call.task_id)
            events = [wired(mine, n, 0, "artifact", payload) for n, payload in enumerate(said)]
            upto = data.draw(st.integers(0, length))
            at = 0
            while at < upto:  # batches in order, of which each may be sent twice
                size = data.draw(st.integers(1, 4))
                for _ in range(data.draw(st.integers(1, 2))):
                    await desk.events.append(ANN, call.task_id, events[at : min(at + size, upto)])
                at += size
            sent = max(sent, upto)
        wanted = [json.dumps(payload, separators=(",", ":")) for payload in said[:sent]]
        assert [payload for _, payload in await desk.told()] == wanted

    asyncio.run(work(Path.cwd()))


@pytest.mark.parametrize(
    ("statuses", "state", "ended_by"),
    [
        (["working"], "working", None),
        (["working", "completed"], "completed", "agent"),
        (["working", "completed", "working"], "completed", "agent"),
        (["completed", "failed"], "completed", "agent"),
        (["input_required"], "input_required", None),
        (["canceled"], "canceled", "agent"),
        (["rejected"], "rejected", "agent"),
        (["17"], "17", None),
        ([], "submitted", None),
    ],
)
def test_a_task_stands_as_its_last_event_says_until_it_has_ended(
    tmp_path: Path, statuses: list[str], state: str, ended_by: str | None
) -> None:
    async def work() -> None:
        desk = Desk("sqlite://", tmp_path, Clock())
        call = await desk.called()
        for number, status in enumerate(statuses):
            await desk.events.append(ANN, call.task_id, [event(number, status=status)])
        task = await desk.task()
        assert (task["state"], task["ended_by"]) == (state, ended_by)
        assert len(await desk.told()) == len(statuses)

    asyncio.run(work())


def test_a_task_whose_runtime_is_gone_is_ended_once_and_a_waiting_one_later(do: Any, clock: Clock) -> None:
    async def work(desk: Desk) -> None:
        working, waiting = await desk.called("t1"), await desk.called("t2")
        await desk.events.append(ANN, waiting.task_id, [event(1, status="input_required")])
        clock.now += 59
        assert await desk.events.end_silent() == 0
        clock.now += 1
        assert [await desk.events.end_silent() for _ in range(2)] == [1, 0]
        clock.now += 540
        assert [await desk.events.end_silent() for _ in range(2)] == [1, 0]
        tasks = await desk.rows("SELECT * FROM a2a_center_tasks")
        assert {(task["state"], task["ended_by"]) for task in tasks} == {("failed", "center")}
        (told,) = await desk.rows(f"SELECT * FROM a2a_center_events WHERE task_id = '{working.task_id}'")
        assert (told["status"], json.loads(told["payload"])["state"]) == ("failed", "TASK_STATE_FAILED")

    do(work)


def test_what_the_agent_says_of_its_end_takes_the_place_of_what_the_center_took_for_it(
    do: Any, clock: Clock
) -> None:
    async def work(desk: Desk) -> None:
        call = await desk.called()
        clock.now += 60
        assert await desk.events.end_silent() == 1
        await desk.events.append(ANN, call.task_id, [event(1, status="working")])
        assert (await desk.task())["state"] == "failed"
        await desk.events.append(ANN, call.task_id, [event(2, status="completed")])
        assert (await desk.task())["state"] == "completed"
        assert len(await desk.told()) == 3
        clock.now += 6001
        assert await desk.events.end_silent() == 0

    do(work)


def test_a_new_message_lets_a_silent_task_wait_longer_and_a_look_does_not(do: Any, clock: Clock) -> None:
    async def work(desk: Desk) -> None:
        one, two = await desk.called("t1"), await desk.called("t2")
        clock.now += 59
        await desk.looked(one.task_id)
        sends = TaskCall(two.task_id, "send_message", "m2", SHA, "t3")
        await desk.ledger.prepare_operation(ANN, sends)
        clock.now += 1
        assert await desk.events.end_silent() == 1
        states = await desk.rows("SELECT task_id, state FROM a2a_center_tasks")
        assert {row["task_id"]: row["state"] for row in states} == {
            one.task_id: "failed", two.task_id: "submitted"
        }  # fmt: skip

    do(work)


def test_what_ended_long_ago_is_forgotten_and_nothing_else(do: Any, clock: Clock) -> None:
    async def work(desk: Desk) -> None:
        ended, open_ = await desk.called("t1"), await desk.called("t2")
        await desk.events.append(ANN, ended.task_id, [event(1, status="completed")])
        await desk.looked(open_.task_id)
        clock.now += 5999
        await desk.events.forget_old()
        assert len(await desk.rows("SELECT * FROM a2a_center_tasks")) == 2
        clock.now += 400
        await desk.events.forget_old()
        counts = [
            len(await desk.rows(f"SELECT * FROM a2a_center_{table}"))
            for table in ("tasks", "events", "repeats", "operations", "permits")
        ]
        assert counts == [1, 0, 0, 1, 0]
        assert (await desk.looked(open_.task_id)).task_id == open_.task_id
        assert await refused(desk.looked(ended.task_id)) == (404, "A2A_TASK_NOT_FOUND")

    do(work)


def test_of_a_batch_that_is_too_much_for_a_task_nothing_is_kept(tmp_path: Path) -> None:
    async def work() -> None:
        desk = Desk("sqlite://", tmp_path, Clock())
        call = await desk.called()
        async with desk.database.transaction() as transaction:
            await transaction.run("UPDATE a2a_center_tasks SET event_count = :count", count=MAX_EVENTS - 1)
        many = desk.events.append(ANN, call.task_id, [event(1), event(2)])
        assert await refused(many) == (409, "A2A_TASK_LOG_FULL")
        assert await desk.rows("SELECT * FROM a2a_center_events") == []
        assert await desk.events.append(ANN, call.task_id, [event(1)]) == 1

    asyncio.run(work())


@pytest.mark.parametrize(
    ("dsn", "code"),
    [
        ("nonsense", "invalid_dsn"),
        ("sqlite://relative.db", "invalid_dsn"),
        ("mysql+nodriver://h/d", "invalid_dsn"),
        ("sqlite:////proc/none/center.db", "task_store_unavailable"),
    ],
)
def test_a_database_that_cannot_be_used_is_told_of(tmp_path: Path, dsn: str, code: str) -> None:
    with pytest.raises(KsadkError) as error:
        open_database(dsn, directory=tmp_path)
    assert error.value.code == code


def test_the_password_of_a_database_that_is_away_is_in_no_message(tmp_path: Path) -> None:
    async def work() -> None:
        database = open_database("postgresql+asyncpg://u:hunter2@127.0.0.1:9/d", directory=tmp_path)
        with pytest.raises(KsadkError) as error:
            async with database.transaction():
                pass
        assert error.value.code == "task_store_unavailable"
        assert "hunter2" not in str(error.value)
        await database.aclose()

    asyncio.run(work())


def test_the_file_of_a_center_is_only_its_users(tmp_path: Path) -> None:
    open_database("sqlite:///deep/center.db", directory=tmp_path)
    assert stat.S_IMODE((tmp_path / "deep/center.db").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "deep").stat().st_mode) == 0o700
