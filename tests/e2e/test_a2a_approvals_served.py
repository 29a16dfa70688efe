"""Tasks that wait for a person: who decides, what runs once, and what a restart of the server leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from serving import call, decide, example, finished, request_of, said, serving, state
from support import Run, Spawn

pytest.importorskip("langgraph.checkpoint.sqlite")
pytest.importorskip("google.adk")


def steps(agent: str) -> int:
    """How often the step before the one that pauses has run."""
    return len((Path(agent) / ".agentengine" / "steps.log").read_text().splitlines())


def saved(agent: str, name: str = "note.txt") -> list[str]:
    return [path.read_text() for path in Path(agent).rglob(name)]


@pytest.mark.parametrize("agent", ["langgraph_agent", "adk_agent"])
@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
@pytest.mark.parametrize("key", ["y", "n"])
def test_a_decision_lets_an_agent_go_on_from_the_step_that_paused(
    agent: str, restarted: bool, key: str, agentengine: Run, terminal: Spawn
) -> None:
    directory = example(agent)
    with serving(directory) as url:
        waits = call(agentengine, url, "save buy tea")
        request = request_of(waits)
        assert (steps(agent), saved(agent)) == (1, [])
        if not restarted:
            decide(terminal, request["id"], key)
            task = finished(agentengine, url, waits["id"])
    if restarted:
        with serving(directory) as url:
            assert request_of(finished(agentengine, url, waits["id"])) == request
            decide(terminal, request["id"], key)
            task = finished(agentengine, url, waits["id"])
    assert state(task) == "completed"
    assert said(task) == "Saved." if key == "y" else said(task).startswith("Not saved: ")
    assert (steps(agent), saved(agent)) == (1, ["buy tea"] if key == "y" else [])


@pytest.mark.parametrize("agent", ["langgraph_agent", "adk_agent"])
def test_a_decision_that_was_made_while_the_server_was_down_counts(
    agent: str, agentengine: Run, terminal: Spawn
) -> None:
    directory = example(agent)
    with serving(directory) as url:
        waits = call(agentengine, url, "save buy tea")
    decide(terminal, request_of(waits)["id"])
    with serving(directory) as url:
        task = finished(agentengine, url, waits["id"])
    assert (state(task), steps(agent), saved(agent)) == ("completed", 1, ["buy tea"])


def test_a_plain_function_asks_then_waits_and_goes_on(agentengine: Run, terminal: Spawn) -> None:
    with serving(example("notes_agent")) as url:
        asks = call(agentengine, url, "save buy tea")
        assert asks["status"]["message"]["parts"] == [{"text": "What is the note called?"}]
        waits = call(agentengine, url, "--task-id", asks["id"], "shopping")
        decide(terminal, request_of(waits)["id"])
        task = finished(agentengine, url, asks["id"])
    assert (state(task), said(task)) == ("completed", "Saved as shopping.")
    assert (steps("notes_agent"), saved("notes_agent", "shopping.txt")) == (1, ["buy tea"])


def test_a_plain_function_that_waits_does_not_outlive_its_server(agentengine: Run) -> None:
    directory = example("notes_agent")
    with serving(directory) as url:
        waits = call(agentengine, url, "save buy tea")
    with serving(directory) as url:
        task = finished(agentengine, url, waits["id"])
    assert state(task) == "failed"
    assert task["status"]["message"]["parts"][0]["text"]


DECISION = {"kind": "approval_decision", "approval_request_id": "ID", "decision": "approve"}


@pytest.mark.parametrize(
    "words",
    [("yes",), ("approve",), ("--data", '{"approved": true}'), ("--data", json.dumps(DECISION))],
    ids=["yes", "approve", "approved", "decision"],
)
def test_what_a_caller_says_approves_nothing(words: tuple[str, ...], agentengine: Run) -> None:
    with serving(example("langgraph_agent")) as url:
        waits = call(agentengine, url, "save buy tea")
        request_id = request_of(waits)["id"]
        again = call(
            agentengine,
            url,
            "--task-id",
            waits["id"],
            *(word.replace('"ID"', f'"{request_id}"') for word in words),
        )
        assert state(again) == "input_required"
        assert saved("langgraph_agent") == []


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_known_caller_decides_where_that_is_allowed(decision: str, agentengine: Run) -> None:
    Path("tokens").write_text("ann a-secret-of-32-characters-ann\n")
    data = {"kind": "approval_decision", "decision": decision}
    options = ("--bearer-file", "tokens", "--remote-approvals")
    known = ("--bearer", "a-secret-of-32-characters-ann")
    with serving(example("langgraph_agent"), *options) as url:
        waits = call(agentengine, url, *known, "save buy tea")
        data["approval_request_id"] = request_of(waits)["id"]
        task = call(agentengine, url, *known, "--task-id", waits["id"], "--data", json.dumps(data))
    assert state(task) == "completed"
    assert saved("langgraph_agent") == (["buy tea"] if decision == "approve" else [])


@pytest.mark.parametrize("agent", ["langgraph_agent", "adk_agent"])
def test_what_resumes_a_task_is_shown_to_nobody(agent: str, agentengine: Run) -> None:
    with serving(example(agent)) as url:
        shown = json.dumps(call(agentengine, url, "save buy tea"))
    for secret in ("checkpoint", "journal", "pending", "thread", "adk_request_confirmation"):
        assert secret not in shown
