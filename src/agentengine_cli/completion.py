"""The names that a shell asks for when TAB is pressed: `agentengine --complete KIND [WORD]...`.

Commands and options are in the shells' scripts (completions/). What is answered here comes from the installed
program and the user's own state alone: no process is started, no connection opened, no project's file read,
and nothing is made or waited for. Typer is not imported, since this runs at each TAB.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator

from ksadk.errors import KsadkError

Names = Iterator[tuple[str, str]]
"""Names, each with a few words about it."""

_PLAIN = re.compile(r"[\w.:@/+-]+=?", re.ASCII)
"""What a shell takes as it is: no name with another character is offered."""


def main(words: list[str]) -> int:
    """Print the names of a kind, one a line, with a tab before the words about it. Errors print nothing."""
    answer = LIVE.get(words[0]) if words else None
    if answer is None:
        return 1
    try:
        lines = [f"{name}\t{_line(about)}\n" for name, about in answer(words[1:]) if _PLAIN.fullmatch(name)]
        sys.stdout.write("".join(lines))
        sys.stdout.flush()
    except (KsadkError, OSError, ValueError):
        return 1
    return 0


def _line(text: str) -> str:
    first = text.strip().partition("\n")[0]
    return "".join(character if character.isprintable() else " " for character in first)


def tools(_words: list[str]) -> Names:
    """Every built-in tool."""
    from ksadk.tools.registry import builtin_tools
    from ksadk.toolsets.selection import load_builtin_tools

    load_builtin_tools()
    for tool in builtin_tools():
        yield tool.name, tool.description


def groups(_words: list[str]) -> Names:
    """The groups of tools."""
    from ksadk.toolsets.selection import FURTHER_GROUPS, GROUPS

    for group in (*GROUPS, *FURTHER_GROUPS):
        yield group, f"every tool of the group {group}"


def profiles(_words: list[str]) -> Names:
    """The profiles of tools."""
    from ksadk.toolsets.selection import PROFILES

    for profile in PROFILES:
        yield profile, f"the tools of the profile {profile}"


def toolsets(words: list[str]) -> Names:
    """What `tools list` takes: groups, profiles and tools."""
    for kind in (groups, profiles, tools):
        yield from kind(words)


def arguments(words: list[str]) -> Names:
    """The arguments of the tool that is named, each with the = that follows it."""
    from ksadk.tools.registry import find
    from ksadk.toolsets.selection import argument_names, load_builtin_tools

    load_builtin_tools()
    for name in argument_names(find(words[0] if words else "")):
        yield f"{name}=", ""


def requests(_words: list[str]) -> Names:
    """The approval requests of any project that wait, or are approved and not used."""
    return _requests(None)


def approved(_words: list[str]) -> Names:
    """What `--approval` takes: the requests of this project."""
    from ksadk.sessions import project_dir

    return _requests(str(project_dir()))


def _requests(project: str | None) -> Names:
    from ksadk.tools.gateway import ToolGateway

    for request_id, tool_name, state in ToolGateway().store.glance(project):
        yield request_id, f"{tool_name}, {state}"


def sandboxes(_words: list[str]) -> Names:
    """The sandboxes that can be ended."""
    from ksadk.sandbox.records import recorded

    for facts, _ in recorded():
        yield facts.sandbox_id, facts.workspace


def skills(_words: list[str]) -> Names:
    """The skills of this machine, as the last listing found them."""
    from ksadk.settings import Settings
    from ksadk.skills.local import remembered_skills

    for skill in remembered_skills(Settings.from_env()):
        yield skill.name, skill.description


def spaces(_words: list[str]) -> Names:
    """The A2A Spaces that are configured."""
    from ksadk.settings import Settings

    for space_id in Settings.from_env().a2a_space_ids:
        yield space_id, ""


LIVE: dict[str, Callable[[list[str]], Names]] = {
    "tools": tools,
    "groups": groups,
    "profiles": profiles,
    "toolsets": toolsets,
    "arguments": arguments,
    "requests": requests,
    "approved": approved,
    "sandboxes": sandboxes,
    "skills": skills,
    "spaces": spaces,
}
"""The kinds of names that are asked for."""
