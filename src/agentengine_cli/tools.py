"""`agentengine tools`: list, describe, search and call tools."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from agentengine_cli import output
from agentengine_cli.base import APPROVAL_MODE, Command, new_group
from agentengine_cli.calls import CallCommand, builtin_tool, options, read_text, run_tool, typed_value
from ksadk import toolsets
from ksadk.tools.gateway import ToolGateway, gateway_scope
from ksadk.tools.registry import Tool

app = new_group("List, describe, search and call tools.")


@app.command("list", cls=Command)
def list_tools(
    include: Annotated[
        list[str] | None,
        typer.Argument(metavar="[GROUP|PROFILE|TOOL]...", help="Which: workspace, focused, web_fetch, ..."),
    ] = None,
    group: Annotated[list[str] | None, typer.Option("--group", help="Only this group (repeatable).")] = None,
    profile: Annotated[str, typer.Option("--profile", help="default, coding or focused.")] = "default",
    enabled: Annotated[bool, typer.Option("--enabled", help="Only tools that can be called now.")] = False,
) -> None:
    """List tools: name, group, risk, whether a call is asked about, and what it does.

    \b
    Example:
      agentengine tools list --profile coding --enabled
    """
    with gateway_scope(ToolGateway(approval_mode=APPROVAL_MODE)):
        found = toolsets.describe_agentengine_tools(
            [*(include or []), *(group or [])] or None, profile=profile
        )
    shown = [tool for tool in found if tool["enabled"] or not enabled]
    output.show({"ok": True, "tools": shown, "tool_count": len(shown)}, lambda value: _table(value["tools"]))


@app.command("describe", cls=Command)
def describe(
    name: Annotated[str, typer.Argument(help="The tool's name.")],
    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="json-schema, openai, anthropic or mcp.")
    ] = "",
) -> None:
    """Describe one tool: what it does, its risk, and its parameters; or print its schema for a model API.

    \b
    Examples:
      agentengine tools describe read_workspace_file
      agentengine tools describe read_workspace_file --format openai
    """
    tool = builtin_tool(name)
    if format:
        output.write_json(_format(tool, format))
        return
    with gateway_scope(ToolGateway(approval_mode=APPROVAL_MODE)):
        [spec] = toolsets.describe_agentengine_tools([name])
    output.show(
        {"ok": True, "tool": spec | {"parameters": tool.parameters.json_schema}}, lambda _: _page(tool, spec)
    )


@app.command("call", cls=CallCommand)
def call(
    name: Annotated[
        str | None, typer.Argument(help="The tool's name; not needed with --approval ID.")
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Arguments; text as it is, else JSON."),
    ] = None,
    args: Annotated[str, typer.Option("--args", metavar="JSON|@FILE|-", help="All arguments as JSON.")] = "",
) -> None:
    """Call a tool through the gateway. A risky call is shown and asked about first.

    Without a terminal nobody can be asked: the call then prints its approval request and ends with 6.

    \b
    Examples:
      agentengine tools call workspace_status
      agentengine tools call read_workspace_file path=README.md --root .
      agentengine tools call edit_workspace_file --root . path=a.txt old_text=a new_text=b
    """
    if name is None:
        if not options().approval:
            raise typer.BadParameter("which tool? Give its name, or --approval ID.", param_hint="NAME")
        name = ToolGateway().store.get(options().approval).tool_name
    tool = builtin_tool(name)
    arguments = _arguments(tool, values or [], args)
    output.show_result(run_tool(name, arguments), _as_json)


@app.command("search", cls=Command)
def search(
    query: Annotated[str, typer.Argument(help="What you want to do.")],
    profile: Annotated[str, typer.Option("--profile", help="default, coding or focused.")] = "default",
    limit: Annotated[int, typer.Option("--limit", help="How many results, 50 at most.")] = 8,
    every: Annotated[bool, typer.Option("--all", help="Also tools that cannot be called now.")] = False,
) -> None:
    """Find tools by what they do.

    \b
    Example:
      agentengine tools search "read file"
    """
    result = run_tool(
        "tool_search", {"query": query, "profile": profile, "max_results": limit, "include_disabled": every}
    )
    output.show_result(result, lambda value: _found(value["results"]))


def _arguments(tool: Tool, values: list[str], args: str) -> dict[str, Any]:
    """The arguments of a call: `--args`, then KEY=VALUE on top."""
    import json

    given: dict[str, Any] = {}
    if args:
        try:
            given = json.loads(read_text(args))
        except (ValueError, RecursionError) as error:
            raise typer.BadParameter(f"not JSON: {error}", param_hint="--args") from error
        if not isinstance(given, dict):
            raise typer.BadParameter("a JSON object is expected", param_hint="--args")
    properties = tool.parameters.json_schema["properties"]
    for item in values:
        key, equals, value = item.partition("=")
        if not equals:
            raise typer.BadParameter(f"{item!r} is not KEY=VALUE", param_hint="KEY=VALUE")
        given[key] = typed_value(value, properties.get(key, {}))
    return given


def _format(tool: Tool, format: str) -> dict[str, Any]:
    schema = tool.parameters.json_schema
    if format == "json-schema":
        return schema
    if format == "openai":
        function = {"name": tool.name, "description": tool.description, "parameters": schema}
        return {"type": "function", "function": function}
    if format == "anthropic":
        return {"name": tool.name, "description": tool.description, "input_schema": schema}
    if format == "mcp":
        low = tool.policy.risk_level == "low"
        annotations = {"readOnlyHint": low and not tool.policy.side_effects}
        return {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": schema,
            "annotations": annotations,
        }
    raise typer.BadParameter(
        f"{format!r} is not json-schema, openai, anthropic or mcp", param_hint="--format"
    )


def _table(tools: list[dict[str, Any]]) -> str:
    rows = [("NAME", "GROUP", "RISK", "ASKS", "ENABLED", "WHAT IT DOES")]
    rows += [
        (
            tool["name"],
            tool["group"],
            tool["risk_level"],
            "yes" if tool["requires_approval"] else "no",
            "yes" if tool["enabled"] else "no",
            output.visible(tool["description"].partition("\n")[0]),
        )
        for tool in tools
    ]
    return output.columns(rows, width=output.terminal_width())


def _found(results: list[dict[str, Any]]) -> str:
    if not results:
        return "No tool matches.\n"
    rows = [
        (
            item["name"],
            item["group"],
            item["risk_level"],
            output.visible(item["description"].partition("\n")[0]),
        )
        for item in results
    ]
    return output.columns(rows, width=output.terminal_width())


def _page(tool: Tool, spec: dict[str, Any]) -> str:
    import json

    schema = tool.parameters.json_schema
    facts = [
        ("name", tool.name),
        ("group", tool.group),
        ("risk", tool.policy.risk_level),
        ("effects", ", ".join(tool.policy.side_effects) or "none"),
        ("boundary", tool.boundary),
        ("enabled", "yes" if spec["enabled"] else "no"),
    ]
    rows = []
    for name, shape in schema["properties"].items():
        kind = "|".join(
            str(option.get("type", option.get("enum", "object"))) for option in shape.get("anyOf", [shape])
        )
        default = (
            "required"
            if name in schema.get("required", ())
            else f"default {json.dumps(shape.get('default'))}"
        )
        rows.append((f"  {name}", kind, default))
    text = output.columns(facts) + "\n" + tool.description + "\n"
    return text + ("\nParameters:\n" + output.columns(rows) if rows else "")


def _as_json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
