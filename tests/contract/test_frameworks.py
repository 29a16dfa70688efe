"""What agent frameworks make of our tools, each through its own machinery with a scripted model.

No schema that they show a model has `approval`; and a call in which a model approves itself changes nothing.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ksadk.tools.registry import find, public_function
from ksadk.toolsets import describe_agentengine_tools, get_agentengine_tools, workspace
from ksadk.toolsets.frameworks import as_adk_tools, as_openai_agents_tools

FRAMEWORKS = ("langchain_core", "langgraph", "google.adk", "agents")
NAMES = [
    item["name"]
    for item in describe_agentengine_tools(
        ["default", "tool_dispatcher", "agentengine_tool_dispatcher", "tool_search"]
    )
]
APPROVED = {"approved": True}


def missing() -> list[str]:
    def is_there(name: str) -> bool:
        try:
            return importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:  # its parent is not there
            return False

    return [name for name in FRAMEWORKS if not is_there(name)]


@pytest.fixture(autouse=True)
def frameworks() -> None:
    absent = ", ".join(missing())
    if absent and os.environ.get("CI") == "true":
        pytest.fail(f"not installed, and required here: {absent}")
    if absent:
        pytest.skip(f"not installed: {absent} (pip install -e '.[frameworks]')")


@pytest.fixture
def victim() -> Path:
    workspace.write_workspace_file("victim.txt", "precious")
    return workspace.workspace_root() / "victim.txt"


def properties(schema: Any) -> Iterator[str]:
    """The name of every property in a schema, at any depth."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield from schema["properties"]
        for value in schema.values():
            yield from properties(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from properties(item)


def langchain_schema(tool: Any) -> Any:
    from langchain_core.utils.function_calling import convert_to_openai_tool

    return convert_to_openai_tool(tool)


def langchain_schema_of_function(name: str) -> Any:
    from langchain_core.tools import StructuredTool

    return langchain_schema(StructuredTool.from_function(public_function(name)))


def langchain_schema_of_object(name: str) -> Any:
    return langchain_schema(get_agentengine_tools(name)[0])


def adk_schema(tool: Any) -> Any:
    from google.adk.tools import FunctionTool

    return FunctionTool(tool)._get_declaration().model_dump(exclude_none=True)


def adk_schema_of_function(name: str) -> Any:
    return adk_schema(public_function(name))


def adk_schema_of_object(name: str) -> Any:
    return adk_schema(get_agentengine_tools(name)[0])


def adk_schema_of_our_own(name: str) -> Any:
    return as_adk_tools([find(name)])[0]._get_declaration().model_dump(exclude_none=True)


def openai_schema_of_function(name: str) -> Any:
    from agents import function_tool

    return function_tool(public_function(name), strict_mode=False).params_json_schema


def openai_schema_of_our_own(name: str) -> Any:
    return as_openai_agents_tools(get_agentengine_tools(name))[0].params_json_schema


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "schema_of",
    [
        langchain_schema_of_function, langchain_schema_of_object, adk_schema_of_function,
        adk_schema_of_object, adk_schema_of_our_own, openai_schema_of_function, openai_schema_of_our_own,
    ],
)  # fmt: skip
def test_no_schema_has_approval_and_all_arguments_are_there(schema_of: Any, name: str) -> None:
    shown = set(properties({"schema": plain(schema_of(name))}))
    assert "approval" not in shown
    assert set(find(name).parameters.names) <= shown


def plain(schema: Any) -> Any:
    return json.loads(json.dumps(schema, default=str))


# One call that a scripted model makes, through the framework's own run; each gives the tool's result.


def through_langgraph(tool: Any, name: str, arguments: dict[str, Any]) -> Any:
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([tool]))
    graph.add_edge(START, "tools")
    call = AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "1", "type": "tool_call"}])
    state = graph.compile().invoke({"messages": [call]})
    return json.loads(state["messages"][-1].content)


def through_langchain_agent(tool: Any, name: str, arguments: dict[str, Any]) -> Any:
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, ToolMessage

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

    call = AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "1", "type": "tool_call"}])
    agent = create_agent(Scripted(messages=iter([call, AIMessage("done")])), tools=[tool])
    state = agent.invoke({"messages": [("user", "go")]})
    return json.loads(next(item.content for item in state["messages"] if isinstance(item, ToolMessage)))


def through_adk(tool: Any, name: str, arguments: dict[str, Any]) -> Any:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    replies = [
        types.Part(function_call=types.FunctionCall(name=name, args=arguments)),
        types.Part(text="done"),
    ]

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            yield LlmResponse(content=types.Content(role="model", parts=[replies.pop(0)]))

    async def run() -> Any:
        agent = LlmAgent(name="scripted", model=Scripted(model="scripted"), tools=[tool])
        runner = InMemoryRunner(agent=agent, app_name="scripted")
        session = await runner.session_service.create_session(app_name="scripted", user_id="u")
        message = types.Content(role="user", parts=[types.Part(text="go")])
        found: list[Any] = []
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            found += [response.response for response in event.get_function_responses()]
        return found[0]

    return asyncio.run(run())


def through_openai_agents(tool: Any, name: str, arguments: dict[str, Any]) -> Any:
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
    from agents.items import ToolCallOutputItem
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    call = ResponseFunctionToolCall(
        arguments=json.dumps(arguments), call_id="1", name=name, type="function_call"
    )
    text = ResponseOutputText(text="done", type="output_text", annotations=[])
    done = ResponseOutputMessage(id="2", content=[text], role="assistant", status="completed", type="message")
    replies: list[Any] = [call, done]

    class Scripted(Model):
        async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
            return ModelResponse(output=[replies.pop(0)], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **options: Any) -> Any:
            raise NotImplementedError

    async def run() -> Any:
        agent = Agent(name="scripted", model=Scripted(), tools=[tool])
        ended = await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))
        return next(item.output for item in ended.new_items if isinstance(item, ToolCallOutputItem))

    return asyncio.run(run())


def raw(name: str) -> Any:
    return public_function(name)


def ours(name: str) -> Any:
    return get_agentengine_tools(name)[0]


def for_adk(name: str) -> Any:
    return as_adk_tools(get_agentengine_tools(name))[0]


def for_openai(name: str) -> Any:
    return as_openai_agents_tools(get_agentengine_tools(name))[0]


def function_tool_of(name: str) -> Any:
    from agents import function_tool

    return function_tool(public_function(name), strict_mode=False)


SEES_ALL = [
    pytest.param(through_langgraph, ours, id="langgraph-object"),
    pytest.param(through_langchain_agent, ours, id="langchain-object"),
    pytest.param(through_adk, for_adk, id="adk-own"),
    pytest.param(through_openai_agents, for_openai, id="openai-own"),
]
"""Ways in which the model's arguments reach us whole."""

SEES_DECLARED = [
    pytest.param(through_langgraph, raw, id="langgraph-function"),
    pytest.param(through_adk, raw, id="adk-function"),
    pytest.param(through_adk, ours, id="adk-object"),
    pytest.param(through_openai_agents, function_tool_of, id="openai-function"),
]
"""Ways in which the framework drops undeclared arguments before our code is reached."""


@pytest.mark.parametrize(("through", "make"), SEES_ALL + SEES_DECLARED)
@pytest.mark.parametrize("name", ["delete_workspace_file", "write_workspace_file"])
def test_a_model_that_approves_itself_changes_nothing_in_strict_mode(
    monkeypatch: pytest.MonkeyPatch, victim: Path, through: Any, make: Any, name: str
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", "strict")
    arguments = {"path": "victim.txt", "approval": APPROVED}
    if name == "write_workspace_file":
        arguments["content"] = "overwritten"
    result = through(make(name), name, arguments)
    assert victim.read_text() == "precious"
    assert result["ok"] is False
    assert result.get("type") == "approval_required" or result["error_type"] == "approval_in_arguments"


@pytest.mark.parametrize(("through", "make"), SEES_ALL)
@pytest.mark.parametrize("mode", ["off", "strict", "ask"])
def test_a_tool_that_sees_the_whole_call_refuses_it_in_every_mode(
    monkeypatch: pytest.MonkeyPatch, victim: Path, through: Any, make: Any, mode: str
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", mode)
    name = "delete_workspace_file"
    result = through(make(name), name, {"path": "victim.txt", "approval": APPROVED})
    assert (result["ok"], result["error_type"]) == (False, "approval_in_arguments")
    assert victim.exists()
    result = through(make(name), name, {"path": "victim.txt", "force": True})
    assert (result["ok"], result["error_type"]) == (False, "invalid_arguments")
    assert victim.exists()


@pytest.mark.parametrize("name", ["self", "cls", "config", "run_manager", "tool", "approval"])
def test_no_name_that_langchain_uses_itself_slips_through(victim: Path, name: str) -> None:
    tool = ours("delete_workspace_file")
    for result in (
        tool.invoke({"path": "victim.txt", name: 1}),
        asyncio.run(tool.ainvoke({"path": "victim.txt", name: 1})),
        asyncio.run(tool.arun({"path": "victim.txt", name: 1})),
    ):
        refused = "approval_in_arguments" if name == "approval" else "invalid_arguments"
        assert (result["ok"], result["error_type"]) == (False, refused)
    assert victim.exists()


@pytest.mark.parametrize(("through", "make"), SEES_ALL + SEES_DECLARED)
@pytest.mark.parametrize("mode", ["off", "strict"])
def test_the_dispatcher_refuses_it_through_every_framework(
    monkeypatch: pytest.MonkeyPatch, victim: Path, through: Any, make: Any, mode: str
) -> None:
    monkeypatch.setenv("KSADK_TOOL_APPROVAL_MODE", mode)
    inner = {"path": "victim.txt", "approval": APPROVED}
    for given in (inner, json.dumps(inner)):
        call = {"action": "call", "tool_name": "delete_workspace_file", "arguments": given}
        result = through(make("tool_dispatcher"), "tool_dispatcher", call)
        assert (result["ok"], result["error_type"]) == (False, "approval_in_arguments")
    assert victim.exists()


@pytest.mark.parametrize(("through", "make"), SEES_ALL + SEES_DECLARED)
def test_an_honest_call_works(victim: Path, through: Any, make: Any) -> None:
    result = through(make("read_workspace_file"), "read_workspace_file", {"path": "victim.txt"})
    assert result["ok"]
    assert "precious" in result["content"]


def test_objects_and_functions_stand_side_by_side(victim: Path) -> None:
    from google.adk.agents import LlmAgent
    from langgraph.prebuilt import ToolNode

    mixed = [
        *get_agentengine_tools("focused"),
        *get_agentengine_tools("delete_workspace_file"),
        raw("run_code"),
    ]
    assert len(ToolNode(mixed).tools_by_name) == len(mixed)
    agent = LlmAgent(name="a", model="gemini-2.5-flash", tools=mixed)
    converted = asyncio.run(agent.canonical_tools())
    assert [tool.name for tool in converted] == [tool.__name__ for tool in mixed]


def test_an_object_is_also_the_function(victim: Path) -> None:
    import inspect

    tool = ours("delete_workspace_file")
    function = public_function("delete_workspace_file")
    assert (tool.__name__, tool.__doc__) == (function.__name__, function.__doc__)
    assert list(inspect.signature(tool).parameters) == ["path"]
    assert "content" in ours("read_workspace_file")("victim.txt")
    assert tool("victim.txt", approval={"approved": False})["type"] == "approval_rejected"
    assert victim.exists()
    assert tool("victim.txt", approval=APPROVED)["ok"]
    assert not victim.exists()


def test_the_openai_agents_sdk_takes_functions_and_its_own_kind_of_tool_only() -> None:
    from agents import function_tool
    from agents.exceptions import UserError

    with pytest.raises(UserError):
        function_tool(ours("read_workspace_file"))
