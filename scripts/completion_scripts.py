"""The completion scripts of bash, zsh and fish: a table of the program in each shell's own words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from program import Command, Option, commands

from ksadk.config_file import FRAMEWORKS
from ksadk.tools.call_log import OUTCOMES
from ksadk.tools.rules import VERDICTS

SHELLS = Path(__file__).parent / "shells"

KINDS = {
    # Options by their name, or by that of their value
    "--approval": "approved",
    "--args": "text",
    "--check": "file",
    "--code": "file",
    "--content": "text",
    "--edits": "text",
    "--format": "words:json-schema,openai,anthropic,mcp",
    "--framework": "words:" + ",".join(FRAMEWORKS),
    "--group": "groups",
    "--language": "words:python,json",
    "--new": "text",
    "--old": "text",
    "--outcome": "words:" + ",".join(OUTCOMES),
    "--profile": "profiles",
    "--sort": "words:name,mtime,size",
    "--tool": "tools",
    # Arguments by the name that the help gives them, or that with the command
    "DIR": "directory",
    "FILE": "file",
    "GROUP|PROFILE|TOOL": "toolsets",
    "KEY=CONDITION": "arguments",
    "KEY=VALUE": "arguments",
    "PATH": "workspace",
    "SANDBOX_ID": "sandboxes",
    "SPACE": "spaces",
    "TOOL": "tools",
    "VERDICT": "words:" + ",".join(VERDICTS),
    "a2a card PATH": "directory",
    "a2a center DEMO": "words:demo",
    "approvals approve ID": "requests",
    "approvals deny ID": "requests",
    "approvals show ID": "requests",
    "sandbox run --language": "words:python,javascript,bash",
    "skills execute NAME": "skills",
    "skills load NAME": "skills",
    "skills lock NAME": "skills",
    "tools call NAME": "tools",
    "tools describe NAME": "tools",
}
"""What is offered as a value: `file`, `directory`, `text` (@FILE), `workspace` (a file below --root),
`words:...`, or a kind that `agentengine --complete` answers."""
FIXED = re.compile(r"\[?([a-z]+(?:\|[a-z]+)+)\]?")
"""What a help shows as a value that is one of a few words."""


def scripts() -> dict[str, str]:
    """Every script by its path."""
    return {
        "completions/agentengine.bash": _filled("bash", _bash),
        "completions/ksadk.bash": KSADK_BASH,
        "completions/_agentengine": _filled("zsh", _zsh),
        "completions/agentengine.fish": _filled("fish", _fish),
        "completions/ksadk.fish": KSADK_FISH,
    }


KSADK_BASH = """\
# bash completion of ksadk, the other name of agentengine. Written by `make docs`; do not edit.
for _agentengine_script in "${BASH_SOURCE[0]%/*}"/agentengine{,.bash}; do
    # shellcheck source=/dev/null
    [[ -r $_agentengine_script ]] && . "$_agentengine_script" && break
done
unset _agentengine_script
"""
KSADK_FISH = """\
# fish completion of ksadk, the other name of agentengine. Written by `make docs`; do not edit.
for script in (status dirname)/agentengine.fish
    source $script
end
"""


def kind_of(command: Command, name: str, value: str = "") -> str:
    """What is offered for an option or argument of a command; `none` where the value is free.

    value: an option's name for its value, which says less than the option's own and is no argument's.
    """
    known = KINDS.get(f"{command.path} {name}") or KINDS.get(name) or KINDS.get(value)
    if not known and (fixed := FIXED.fullmatch(value or name)):
        return "words:" + fixed[1].replace("|", ",")
    return known or "none"


def shown(options: tuple[Option, ...]) -> Iterator[Option]:
    return (option for option in options if not option.hidden)


def values(command: Command) -> Iterator[str]:
    """`--name=kind` for each name of an option that takes a value."""
    for option in command.options:
        if option.metavar:
            yield from (
                f"{name}={kind_of(command, option.names[0], option.metavar)}" for name in option.names
            )


def arguments(command: Command) -> Iterator[str]:
    """The kind of each argument; of one that repeats, with three dots."""
    for argument in command.arguments:
        yield kind_of(command, argument.name) + ("..." if argument.repeats else "")


def _filled(shell: str, row: Callable[[Command], str]) -> str:
    text = (SHELLS / f"{shell}.in").read_text("utf-8")
    return text.replace("# TABLE\n", "".join(row(command) for command in commands()))


def _bash(command: Command) -> str:
    parts = {
        "commands": [name for name, _ in command.commands],
        "options": [name for option in shown(command.options) for name in option.names],
        "values": values(command),
        "arguments": arguments(command),
    }
    lines = [
        f"        {name}={_quoted(text)}\n" for name, words in parts.items() if (text := " ".join(words))
    ]
    return f"    {_quoted(command.path)})\n{''.join(lines)}        ;;\n"


def _zsh(command: Command) -> str:
    flags = [f"{name}:{option.help}" for option in shown(command.options) for name in option.names]
    parts = {
        "below": [f"{name}:{about}" for name, about in command.commands],
        "flags": flags,
        "values": list(values(command)),
        "arguments": list(arguments(command)),
    }
    lines = []
    for name, items in parts.items():
        if items:
            rows = "".join(f"            {_quoted(item)}\n" for item in items)
            lines.append(f"        {name}=(\n{rows}        )\n")
    return f"    {_quoted(command.path)})\n{''.join(lines)}        ;;\n"


def _fish(command: Command) -> str:
    rows = [("command", name, about) for name, about in command.commands]
    rows += [("option", name, option.help) for option in shown(command.options) for name in option.names]
    rows += [("value", value) for value in values(command)]
    rows += [("argument", argument) for argument in arguments(command)]
    lines = "".join("            printf '%s\\n' " + _fish_quoted("\t".join(row)) + "\n" for row in rows)
    return f"        case {_fish_quoted(command.path)}\n{lines}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
