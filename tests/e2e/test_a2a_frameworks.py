"""The examples of every framework, served and called; and agents that call each other."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from serving import call, decide, example, finished, request_of, said, serving, state
from support import Run, Spawn

from ksadk.a2a import stream_a2a_agent_events

pytest.importorskip("langgraph.checkpoint.sqlite")
pytest.importorskip("google.adk")


def heard(url: str, text: str) -> list[tuple[str, str]]:
    """What an agent thinks and says, with neighbours of one type put together."""

    async def run() -> list[tuple[str, str]]:
        pieces: list[tuple[str, str]] = []
        async for event in stream_a2a_agent_events(url, text):
            assert not event["replace"]
            if pieces and pieces[-1][0] == event["type"]:
                pieces[-1] = (event["type"], pieces[-1][1] + event["delta"])
            else:
                pieces.append((event["type"], event["delta"]))
        return pieces

    return asyncio.run(run())


LANGGRAPH = [("thinking", "Let me see. "), ("text", "I am only a script.")]
ADK = [("thinking", "Let me see. "), ("text", "You said: hello")]
ANSWERS = {
    "langgraph_agent": LANGGRAPH,
    "adk_agent": ADK,
    "langchain_agent": [("text", "There is much to tell.")],
    "notes_agent": [("text", "Say: save TEXT")],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_example_thinks_and_answers_in_order(name: str) -> None:
    with serving(example(name)) as url:
        assert heard(url, "hello") == ANSWERS[name]


@pytest.mark.parametrize(
    ("caller", "called", "expected"),
    [
        ("langgraph_caller", "langgraph_agent", LANGGRAPH),
        ("langgraph_caller", "adk_agent", ADK),
        ("adk_caller", "adk_agent", ADK),
        ("adk_caller", "langgraph_agent", LANGGRAPH),
    ],
)
def test_an_agent_passes_on_what_another_thinks_and_says(
    caller: str, called: str, expected: list[tuple[str, str]]
) -> None:
    with serving(example(called)) as remote, serving(example(caller), REMOTE_AGENT=remote) as url:
        assert heard(url, "hello") == expected


def test_a_deep_agent_writes_once_a_person_has_approved(agentengine: Run, terminal: Spawn) -> None:
    with serving(example("deepagents_agent")) as url:
        waits = call(agentengine, url, "report")
        assert request_of(waits)["tool_name"] == "write_workspace_file"
        decide(terminal, request_of(waits)["id"])
        task = finished(agentengine, url, waits["id"])
    assert (state(task), said(task)) == ("completed", "The report is written.")
    (report,) = Path("deepagents_agent").rglob("report.txt")
    assert report.read_text() == "All is well.\n"


@pytest.mark.parametrize("answer", [("Paris",), ("--data", json.dumps("Paris"))])
def test_a_graph_s_question_is_answered_by_text_or_data(answer: tuple[str, ...], agentengine: Run) -> None:
    with serving(example("langgraph_agent")) as url:
        waits = call(agentengine, url, "weather")
        assert state(waits) == "input_required"
        assert waits["status"]["message"]["parts"] == [{"text": "Which city?"}]
        task = call(agentengine, url, "--task-id", waits["id"], *answer)
    assert (state(task), said(task)) == ("completed", "It is sunny in Paris.")
