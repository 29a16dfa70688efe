"""The store of approval requests: private, right under concurrent processes, and usable after kill -9."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorder import NOW, Recorder

from ksadk.errors import KsadkError
from ksadk.tools.approval_store import KEPT_SECONDS, ApprovalStore
from ksadk.tools.approvals import ApprovalRequest, State, iso, new_request
from ksadk.tools.gateway import ToolGateway
from ksadk.tools.registry import Plan, Tool


def tool() -> None: ...


TOOL = Tool("t", tool, "g", "b")
PLAN_OF_NUMBERS = '{"summary": 1, "where": 2, "content_digest": 3, "diff": 4, "details": []}'
PLAN_WITHOUT_DETAILS = '{"summary": "", "where": "", "content_digest": "", "diff": "", "details": [1]}'
PLAN = Plan("touch a", "here", "0" * 64, diff="-a\n+b\n", details=(("mode", "0644"),))


def request(now: float = NOW, ttl: float = 900, **changes: object) -> ApprovalRequest:
    made = new_request(TOOL, {"path": "a"}, PLAN, project="/p", ttl_seconds=ttl, now=now)
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> ApprovalStore:
    return ApprovalStore(tmp_path / "state" / "agentengine" / "approvals.sqlite3", clock=clock)


def code_of(error: pytest.ExceptionInfo[KsadkError]) -> str:
    return error.value.code


def test_a_request_comes_back_as_it_was_kept(store: ApprovalStore) -> None:
    kept = request(account_id="acme", session_id="s", workspace_root="/w", side_effects=("disk", "net"))
    store.create(kept)
    assert store.get(kept.id) == kept


@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v, max_size=3)
        ),
        max_size=4,
    ),
    st.text(),
)
def test_whatever_a_model_passed_comes_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory, arguments: dict[str, object], words: str
) -> None:
    store = ApprovalStore(tmp_path_factory.getbasetemp() / "hostile" / "a.sqlite3", clock=Clock())
    kept = request(arguments=arguments, plan=Plan(words, words, words, diff=words, details=((words, words),)))
    store.create(kept)
    assert store.get(kept.id) == kept


@pytest.mark.parametrize("name", ["a b", "中文", "caf\udce9", "\\udce9", "x\ny"], ids=ascii)
def test_a_project_of_any_name_is_found_again(store: ApprovalStore, name: str) -> None:
    kept = request(project=f"/p/{name}", workspace_root=f"/w/{name}")
    store.create(kept)
    store.create(request())
    assert store.list(f"/p/{name}") == [kept]
    store.grant("terminal", kept, 60)
    assert store.granted("terminal", kept)


def test_the_file_is_the_users_own_whatever_the_umask(store: ApprovalStore) -> None:
    before = os.umask(0)
    try:
        store.create(request())
    finally:
        os.umask(before)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    beside = [p for p in store.path.parent.iterdir() if stat.S_IMODE(p.stat().st_mode) != 0o600]
    assert beside == []


def test_only_what_can_still_be_answered_or_used_is_listed(store: ApprovalStore, clock: Clock) -> None:
    waits, approved, denied, used = (request(NOW + n) for n in range(4))
    other = request(project="/q")
    for each in (waits, approved, denied, used, other):
        store.create(each)
    store.decide(approved.id, "approved", by="me")
    store.decide(denied.id, "denied", by="me", reason="no")
    assert store.claim(used, states=("pending",), by="caller")
    assert [r.id for r in store.list("/p")] == [waits.id, approved.id]
    assert {r.id for r in store.list()} == {waits.id, approved.id, other.id}
    assert len(store.list("/p", every=True)) == 4
    clock.now += 10_000
    assert store.list("/p") == []


@pytest.mark.parametrize(
    ("first", "second"), [("approved", "approved"), ("denied", "denied"), ("denied", "approved")]
)
def test_a_request_is_decided_once(store: ApprovalStore, first: State, second: State) -> None:
    kept = request()
    store.create(kept)
    decided = store.decide(kept.id, first, by="one", reason="because")
    assert decided == store.get(kept.id)
    with pytest.raises(KsadkError, match=f"already {first} by one") as caught:
        store.decide(kept.id, second, by="two")
    assert code_of(caught) == "approval_decided"
    assert store.get(kept.id).decided_by == "one"


def test_an_approval_that_is_not_used_yet_can_be_taken_back(store: ApprovalStore) -> None:
    kept = request()
    store.create(kept)
    store.decide(kept.id, "approved", by="one")
    assert store.decide(kept.id, "denied", by="two", reason="no").state == "denied"
    assert not store.claim(kept, by="caller")


def test_a_request_that_is_used_expired_or_unknown_is_neither_decided_nor_amended(
    store: ApprovalStore, clock: Clock
) -> None:
    used, late = request(), request()
    for each in (used, late):
        store.create(each)
    store.claim(used, states=("pending",), by="caller")
    clock.now = late.expires_at
    for each, code in (
        (used, "approval_used"),
        (late, "approval_expired"),
        (request(), "approval_not_found"),
    ):
        with pytest.raises(KsadkError) as caught:
            store.decide(each.id, "approved", by="me")
        assert code_of(caught) == code
        with pytest.raises(KsadkError) as caught:
            store.amend(each)
        assert code_of(caught) == code


@pytest.mark.parametrize("change", [{"arguments_digest": "other"}, {"plan": Plan("", "", "other")}])
def test_a_request_is_decided_only_as_it_was_seen(store: ApprovalStore, change: dict[str, object]) -> None:
    first = request()
    store.create(first)
    amended = dataclasses.replace(first, edited=True, **change)  # type: ignore[arg-type]
    store.amend(amended)
    with pytest.raises(KsadkError, match="edited since it was shown") as caught:
        store.decide(first.id, "approved", by="me", seen=first)
    assert code_of(caught) == "approval_mismatch"
    assert store.decide(first.id, "approved", by="me", seen=amended).state == "approved"


def test_a_request_that_was_amended_is_used_only_as_it_is_now(store: ApprovalStore) -> None:
    first = request()
    store.create(first)
    amended = dataclasses.replace(first, arguments={"path": "b"}, arguments_digest="other", edited=True)
    store.amend(amended)
    assert store.get(first.id) == amended
    assert not store.claim(first, states=("pending",), by="caller")
    assert store.claim(amended, states=("pending",), by="caller")


@pytest.mark.parametrize(
    ("state", "states", "wins"),
    [
        ("pending", ("approved",), False),
        ("pending", ("approved", "pending"), True),
        ("approved", ("approved",), True),
        ("denied", ("approved", "pending"), False),
    ],
)
def test_a_request_is_claimed_only_in_these_states(
    store: ApprovalStore, state: State, states: tuple[State, ...], wins: bool
) -> None:
    kept = request()
    store.create(kept)
    if state != "pending":
        store.decide(kept.id, state, by="me")
    assert store.claim(kept, states=states, by="caller") is wins
    assert not store.claim(kept, states=states, by="caller")


def test_an_expired_request_is_not_claimed(store: ApprovalStore, clock: Clock) -> None:
    kept = request()
    store.create(kept)
    store.decide(kept.id, "approved", by="me")
    clock.now = kept.expires_at
    assert not store.claim(kept, by="caller")


def test_to_expire_a_request_ends_it_now_and_only_while_it_waits(store: ApprovalStore, clock: Clock) -> None:
    waits, approved = request(), request()
    for each in (waits, approved):
        store.create(each)
    store.decide(approved.id, "approved", by="me")
    store.expire(waits.id)
    store.expire(approved.id)
    assert store.get(waits.id).expires_at == clock.now
    assert store.get(approved.id).expires_at == approved.expires_at


def test_requests_are_forgotten_some_days_after_their_time(store: ApprovalStore, clock: Clock) -> None:
    old, newer = request(), request(NOW + 60)
    for each in (old, newer):
        store.create(each)
    clock.now = old.expires_at + KEPT_SECONDS + 1
    store.create(request(clock.now))
    with pytest.raises(KsadkError) as caught:
        store.get(old.id)
    assert code_of(caught) == "approval_not_found"
    assert store.get(newer.id) == newer


@pytest.mark.parametrize(
    "change",
    [
        {"project": "/q"},
        {"account_id": "a"},
        {"tool_name": "u"},
        {"arguments_digest": "x"},
        {"plan": Plan("", "there", "")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_grant_is_for_exactly_that_call(
    store: ApprovalStore, clock: Clock, change: dict[str, object]
) -> None:
    store.grant("terminal", request(), 60)
    assert store.granted("terminal", request())
    assert not store.granted("terminal", request(**change))  # type: ignore[arg-type]
    assert not store.granted("another terminal", request())
    clock.now += 60
    assert not store.granted("terminal", request())


def test_grants_are_forgotten_when_their_time_is_over(store: ApprovalStore, clock: Clock) -> None:
    store.grant("terminal", request(), 60)
    clock.now += 61
    store.create(request(clock.now))
    with sqlite3.connect(store.path) as db:
        assert db.execute("SELECT * FROM session_grants").fetchall() == []
    db.close()


@pytest.mark.parametrize("moment", [1e300, float("inf"), 253_402_300_800.0, -1e300, float("-inf")])
def test_any_moment_can_be_written(moment: float) -> None:
    assert iso(moment) == ("9999-12-31T23:59:59Z" if moment > 0 else "1970-01-01T00:00:00Z")


# What a store cannot be made of


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("arguments", "{"),
        ("arguments", "5"),
        ("arguments", "null"),
        ("arguments", "[[1, 2]]"),
        ("arguments", "[" * 100_000),
        ("side_effects", "5"),
        ("side_effects", "[1]"),
        ("plan", "{}"),
        ("plan", "[]"),
        ("plan", "null"),
        ("plan", PLAN_OF_NUMBERS),
        ("plan", PLAN_WITHOUT_DETAILS),
        ("project", "中文"),
        ("decided_by", b"\xff"),
    ],
)
def test_a_row_that_was_damaged_is_said(store: ApprovalStore, column: str, value: str | bytes) -> None:
    kept = request()
    store.create(kept)
    with sqlite3.connect(store.path) as db:
        db.execute(f"UPDATE requests SET {column} = CAST(? AS TEXT)", (value,))
    db.close()
    for use in (lambda: store.get(kept.id), lambda: store.list(every=True)):
        with pytest.raises(KsadkError) as caught:
            use()
        assert code_of(caught) == "log_unavailable"
        assert caught.value.hint


def test_a_file_of_a_newer_program_is_refused_with_words(store: ApprovalStore) -> None:
    store.create(request())
    with sqlite3.connect(store.path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(KsadkError, match="newer version") as caught:
        store.list()
    assert code_of(caught) == "log_unavailable"
    assert "Upgrade" in str(caught.value.hint)


def corrupt(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a database, but long enough to look like something that was one once" * 20)


def truncated(path: Path) -> None:
    ApprovalStore(path).create(request())
    path.write_bytes(path.read_bytes()[:3000])


def directory(path: Path) -> None:
    path.mkdir(parents=True)


def file_in_the_way(path: Path) -> None:
    path.parent.parent.mkdir(parents=True)
    path.parent.write_text("")


def other_tables(path: Path) -> None:
    path.parent.mkdir(parents=True)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE requests (x)")
    db.close()


@pytest.mark.parametrize("spoil", [corrupt, truncated, directory, file_in_the_way, other_tables])
def test_without_a_store_that_works_a_risky_call_does_not_start(
    store: ApprovalStore, tmp_path: Path, spoil: object
) -> None:
    spoil(store.path)  # type: ignore[operator]
    recorder = Recorder(tmp_path)
    gateway = ToolGateway(approval_mode="strict", store=store)
    for approval in (None, {"approved": True, "id": "appr_1"}):
        result = recorder.call(gateway, approval)
        assert result["error_type"] == "log_unavailable"
        assert str(store.path) in result["error_message"]
        assert result["hint"]
    assert not recorder.ran_it


def test_a_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.geteuid() == 0:  # who may write anywhere but here
        closed = Path("/proc")
    store = ApprovalStore(closed / "agentengine" / "approvals.sqlite3")
    with pytest.raises(KsadkError) as caught:
        store.create(request())
    assert code_of(caught) == "log_unavailable"
