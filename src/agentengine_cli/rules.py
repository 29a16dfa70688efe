"""`agentengine approvals rules`: what is decided before anyone is asked."""

from __future__ import annotations

import difflib
import fnmatch
import json
import os
import shlex
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentengine_cli import output
from agentengine_cli.base import APPROVAL_MODE, Command, new_group
from agentengine_cli.calls import builtin_tool, typed_value, workspace_scope
from agentengine_cli.terminal import need_a_person
from ksadk.errors import KsadkError
from ksadk.tools import rule_files
from ksadk.tools.gateway import ToolGateway
from ksadk.tools.registry import Target, Tool, builtin_tools, registered
from ksadk.toolsets.selection import load_builtin_tools

if TYPE_CHECKING:
    from ksadk.tools.rule_reader import Entry
    from ksadk.tools.rules import Call, Rule

app = new_group("Rules that decide calls before anyone is asked.")


@app.command("list", cls=Command)
def list_rules() -> None:
    """List the rules of yours and of this project, with the file and line of each and what became of it.

    \b
    Example:
      agentengine approvals rules list
    """
    rules, broken = every_rule()
    output.show(
        {"ok": not broken, "rules": rules, "broken_files": broken}, lambda value: _table(value["rules"])
    )
    if not output.json_wanted.get():
        for problem in broken:
            output.say(f"broken: {problem}")
    if broken:
        raise typer.Exit(output.exit_status("invalid_rules"))


@app.command("add", cls=Command)
def add(
    verdict: Annotated[str, typer.Argument(metavar="VERDICT", help="deny, ask or allow.")],
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="A tool's name, or a pattern with * and ?.")],
    where: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=CONDITION]...", help="What an argument must be; {regex: ...} and such."),
    ] = None,
    argv: Annotated[
        str, typer.Option("--argv", metavar="WORDS", help="What a shell command begins with: 'git log'.")
    ] = "",
    exact: Annotated[bool, typer.Option("--exact", help="With --argv: these words and no others.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Words for whoever is refused.")] = "",
    expires: Annotated[
        str, typer.Option("--expires", metavar="DATE", help="A date, or an RFC 3339 time.")
    ] = "",
    project: Annotated[
        str, typer.Option("--project", metavar="DIR", help="Only for calls made in this project.")
    ] = "",
    match: Annotated[
        list[str] | None, typer.Option("--match", metavar="CALL", help="A call that it must match.")
    ] = None,
    not_match: Annotated[
        list[str] | None, typer.Option("--not-match", metavar="CALL", help="A call that it must not match.")
    ] = None,
) -> None:
    """Save a rule of yours. One that allows is saved at a terminal only.

    \b
    Examples:
      agentengine approvals rules add deny run_command --reason "no shell here"
      agentengine approvals rules add allow run_command --argv 'git log'
      agentengine approvals rules add allow edit_workspace_file 'path=docs/**' \\
        --match 'edit_workspace_file path=docs/a.md' --not-match 'edit_workspace_file path=setup.py'
    """
    from ksadk.tools.rule_edits import add_rule
    from ksadk.tools.rules import VERDICTS

    if verdict not in VERDICTS:
        raise typer.BadParameter(f"{verdict!r} is not deny, ask or allow", param_hint="VERDICT")
    if verdict == "allow":
        need_a_person("saving a rule that allows")
    written: dict[str, Any] = {verdict: tool}
    if argv or exact:
        written["argv"] = {"equals": _words(argv)} if exact else _words(argv)
    if where:
        written["where"] = dict(map(_condition, where))
        _check_arguments(tool, written["where"])
    options = {
        "reason": reason, "expires": expires, "project": _directory(project),
        "match": match, "not_match": not_match,
    }  # fmt: skip
    entry, new = add_rule(written | {key: value for key, value in options.items() if value})
    rules, _ = every_rule()
    shown = next(rule for rule in rules if (rule["file"], rule["line"]) == (entry.file, entry.line))
    said = "saved" if new else "was there already:"
    output.show({"ok": True, "saved": new, "rule": shown}, lambda _: f"{said} {_place(shown)}\n")
    if shown["why"] and not output.json_wanted.get():
        output.say(f"warning: {shown['why']}")


@app.command("test", cls=Command)
def test(
    call: Annotated[str, typer.Argument(metavar="CALL", help="TOOL KEY=VALUE ..., quoted as in a shell.")],
    root: Annotated[str, typer.Option("--root", metavar="DIR", help="The workspace of the call.")] = "",
) -> None:
    """Say what would be decided about a call, by which rule. Nothing is called; arguments may be left out.

    \b
    Example:
      agentengine approvals rules test 'edit_workspace_file path=docs/a.md'
    """
    from ksadk.tools.rule_self_tests import read_call

    try:
        name, texts = read_call(call)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="CALL") from error
    tool = builtin_tool(name)
    with workspace_scope(root):
        document = _decided(tool, _call(tool, texts))
    output.show(document, _as_text)


@app.command("remove", cls=Command)
def remove(
    which: Annotated[str, typer.Argument(metavar="INDEX|FILE:LINE", help="As the list shows it.")],
) -> None:
    """Remove a rule of yours. One that denies or asks is removed at a terminal only.

    \b
    Example:
      agentengine approvals rules remove 2
    """
    from ksadk.tools.rule_edits import remove_rule

    entries, broken = _entries()
    rules = _documents(entries)
    found = next((rule for rule in rules if which in (str(rule["index"]), _place(rule))), None)
    if broken and (found is None or found["source"] == "project"):  # it may be in the file that is broken
        raise KsadkError(broken[0], code="invalid_rules", hint="Mend the file first.")
    if found is None:
        raise KsadkError(
            f"there is no rule {which}",
            code="unknown_rule",
            hint="agentengine approvals rules list shows them.",
        )
    if found["source"] == "project":
        raise KsadkError(
            f"{_place(found)} belongs to the project",
            code="unknown_rule",
            hint="Change the file in an editor.",
        )
    if found["verdict"] != "allow":
        need_a_person("removing a rule that denies or asks")
    remove_rule(entries[found["index"] - 1][0])
    output.show({"ok": True, "removed": found}, lambda _: f"removed {_place(found)}\n")


def every_rule() -> tuple[list[dict[str, Any]], list[str]]:
    """Every rule as `--json` prints it, and what is wrong with files that cannot be read at all."""
    entries, broken = _entries()
    return _documents(entries), broken


def _entries() -> tuple[list[tuple[Entry, bool]], list[str]]:
    """Every rule, the user's first, and whether it counts where it allows; and as above."""
    from ksadk.tools.rule_reader import InvalidRules

    load_builtin_tools()  # so that a slip in an argument's name is seen
    entries: list[tuple[Entry, bool]] = []
    broken = []
    for file, trusted in rule_files.rule_files():
        if isinstance(file, InvalidRules):
            broken.append(file.message)
        else:
            entries += [(entry, trusted) for entry in file.entries]
    return entries, broken


def _documents(entries: list[tuple[Entry, bool]]) -> list[dict[str, Any]]:
    return [document(entry, index, trusted=trusted) for index, (entry, trusted) in enumerate(entries, 1)]


def document(entry: Entry, index: int, *, trusted: bool) -> dict[str, Any]:
    """A rule as `--json` prints it."""
    state = entry.state(time.time(), trusted=trusted)
    why = {"bad": entry.problem, "ignored": "the project is not trusted with it"}.get(state, _slip(entry))
    return {
        "index": index,
        "verdict": entry.verdict or "",
        "tool": entry.tool,
        "argv": entry.argv if isinstance(entry.argv, dict) else {"begins": entry.argv} if entry.argv else {},
        "where": dict(entry.where),
        "reason": entry.reason,
        "expires": entry.expires,
        "project": entry.project,
        "source": entry.source,
        "file": entry.file,
        "line": entry.line,
        "state": state,
        "why": why,
    }


def _slip(entry: Entry) -> str:
    """What is odd about a rule that can be read: a tool that is none, or an argument that its tool does not
    have."""
    tool = registered(entry.tool)
    if tool is None:
        return (
            _slip_of_several(entry) if "*" in entry.tool or "?" in entry.tool else _no_such_tool(entry.tool)
        )
    unknown = sorted(entry.where.keys() - _known_arguments(tool))
    if not unknown:
        return ""
    outcome = "never holds" if entry.verdict == "allow" else "holds for every call of it"
    return f"{entry.tool} has no argument {unknown[0]}, so this {outcome}"


def _slip_of_several(entry: Entry) -> str:
    """The same of a rule about several tools: an argument that none of the built-in ones has."""
    about = [tool for tool in builtin_tools() if fnmatch.fnmatchcase(tool.name, entry.tool)]
    unknown = sorted(entry.where.keys() - set().union(*map(_known_arguments, about)))
    if not about or not unknown:
        return ""
    return f"no built-in tool {entry.tool} has an argument {unknown[0]}, so this never holds for one"


def _check_arguments(name: str, where: Mapping[str, Any]) -> None:
    """Refuse a condition on an argument that a built-in tool does not have: it would hold always or never."""
    load_builtin_tools()
    tool = registered(name)
    known = sorted(_known_arguments(tool)) if tool else []
    unknown = sorted(where.keys() - known)
    if tool and unknown:
        near = difflib.get_close_matches(unknown[0][:64], known, 1)
        advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(known) or 'none'}"
        raise typer.BadParameter(
            f"{name} has no argument {unknown[0][:80]!r}; {advice}", param_hint="KEY=CONDITION"
        )


def _known_arguments(tool: Tool) -> set[str]:
    return {*tool.parameters.names, *(tool.target_names if tool.targets else ())}


def _no_such_tool(name: str) -> str:
    near = difflib.get_close_matches(name[:64], [tool.name for tool in builtin_tools()], 1)
    advice = f"did you mean {near[0]}?" if near else "it holds for an external tool of that name alone"
    return f"no built-in tool has this name; {advice}"


def _decided(tool: Tool, call: Call) -> dict[str, Any]:
    """What would be decided about a call, and what would happen in the mode that holds now."""
    from ksadk.tools.rules import decide_call

    gateway = ToolGateway(approval_mode=APPROVAL_MODE)
    mode = gateway.approval_mode()
    rule = decide_call(rule_files.standing_rules(), call)
    verdict = rule.verdict if rule else "none"
    if verdict == "deny":
        outcome = "refused"
    elif mode == "off" or verdict == "allow":
        outcome = "runs"
    else:
        outcome = "asks" if verdict == "ask" or gateway.requires_approval(tool) else "runs"
    return {
        "ok": True,
        "tool": tool.name,
        "decision": verdict,
        "file": rule.file if rule else "",
        "line": rule.line if rule else 0,
        "reason": rule.reason if rule else "",
        "text": _written(rule) if rule else "",
        "mode": mode,
        "outcome": outcome,
    }


def _as_text(value: Mapping[str, Any]) -> str:
    rows = [
        ("call", value["tool"]),
        ("decision", "no rule is about it" if value["decision"] == "none" else value["decision"]),
    ]
    if value["file"]:
        rows.append(("rule", output.visible(_place(value))))
    if value["reason"]:
        rows.append(("reason", output.visible(value["reason"])))
    rows.append((f"in mode {value['mode']}", value["outcome"]))
    text = "".join(f"    {output.visible(line)}\n" for line in value["text"].splitlines())
    return output.columns(rows) + text


def _written(rule: Rule) -> str:
    """A rule as YAML; of one that is bad, what could be read of it. Empty where it is gone meanwhile."""
    from ksadk.tools.rule_edits import rule_text

    entry = next((entry for entry, _ in _entries()[0] if entry.rule == rule), None)
    if entry is None or entry.verdict is None:
        return ""
    more = {key: getattr(entry, key) for key in ("argv", "where", "reason", "expires", "project")}
    return rule_text({entry.verdict: entry.tool} | {key: value for key, value in more.items() if value})


def _call(tool: Tool, texts: Mapping[str, str]) -> Call:
    """A call of a tool; what was left out is its default, or null where it has none."""
    from ksadk.tools.rules import Call

    properties = tool.parameters.json_schema["properties"]
    unknown = sorted(texts.keys() - properties.keys())
    if unknown:
        raise typer.BadParameter(f"{tool.name} has no argument {unknown[0]!r}", param_hint="CALL")
    given = {name: typed_value(text, properties[name]) for name, text in texts.items()}
    known = {name: shape["default"] for name, shape in properties.items() if "default" in shape} | given

    def targets(_: Mapping[str, Any]) -> Mapping[str, Target]:
        try:
            return tool.targets(known) if tool.targets else {}
        except KeyError:  # what it acts on was left out
            return {}

    return Call(tool.name, dict.fromkeys(properties) | known, targets, rule_files.project_text())


def _condition(item: str) -> tuple[str, Any]:
    """The condition of KEY=CONDITION: YAML where it begins with {, else JSON where it is, else text."""
    key, equals, value = item.partition("=")
    if not equals or not key:
        raise typer.BadParameter(f"{item!r} is not KEY=CONDITION", param_hint="KEY=CONDITION")
    if value.startswith("{"):
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            return key, YAML(typ="safe", pure=True).load(value)
        except YAMLError as error:
            raise typer.BadParameter(f"{value!r} is not YAML", param_hint="KEY=CONDITION") from error
    return key, value if key in ("path", "url") else typed_value(value, {})


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}", param_hint="--argv") from error


def _directory(text: str) -> str:
    if text and not os.path.isdir(os.path.expanduser(text)):  # noqa: PTH111, PTH112
        raise typer.BadParameter(f"{text} is not a directory", param_hint="--project")
    return os.path.realpath(os.path.expanduser(text)) if text else ""  # noqa: PTH111


def _place(rule: Mapping[str, Any]) -> str:
    return f"{rule['file']}:{rule['line']}"


def _table(rules: list[dict[str, Any]]) -> str:
    if not rules:
        return "No rules; every call is judged by its risk.\n"
    rows = [("N", "VERDICT", "TOOL", "WHERE", "STATE", "FILE:LINE", "REASON")]
    rows += [
        (
            str(rule["index"]),
            rule["verdict"] or "?",
            output.visible(rule["tool"]) or "?",
            output.visible(_conditions(rule)) or "-",
            f"{rule['state']}: {output.visible(rule['why'])}" if rule["why"] else rule["state"],
            output.visible(_place(rule)),
            output.visible(rule["reason"]),
        )
        for rule in rules
    ]
    return output.columns(rows, width=output.terminal_width())


def _conditions(rule: Mapping[str, Any]) -> str:
    parts = [f"argv {kind} {json.dumps(words, ensure_ascii=False)}" for kind, words in rule["argv"].items()]
    parts += [
        f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in rule["where"].items()
    ]
    parts += [f"{key} {rule[key]}" for key in ("project", "expires") if rule[key]]
    return ", ".join(parts)
