"""The man pages: one for each command, in the macros of man(7)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from program import Command, commands

from agentengine_cli.output import EXIT_STATUS

GENERATED = '.\\" Written by `make docs`; do not edit.\n'


def man_pages() -> dict[str, str]:
    """Every page by its path, such as man/agentengine-tools-call.1."""
    every = list(commands())
    return {f"man/{_page_name(command)}.1": _page(command, every) for command in every}


def _page_name(command: Command) -> str:
    return command.name.replace(" ", "-")


def _page(command: Command, every: list[Command]) -> str:
    parts = [
        GENERATED,
        f'.TH "{_page_name(command).upper()}" "1" "" "agentengine" "agentengine manual"\n',
        _section("NAME", f"{_escaped(_page_name(command))} \\- {_escaped(_lower_first(command.summary))}\n"),
        _section("SYNOPSIS", f"{_bold(command.name)} {_usage(command)}\n"),
        _section("DESCRIPTION", "".join(_paragraphs(command.text))),
    ]
    if command.arguments:
        rows = "".join(_entry(_italic(a.name), a.help or "Required.") for a in command.arguments)
        parts.append(_section("ARGUMENTS", rows))
    shown = [option for option in command.options if not option.hidden]
    rows = "".join(_entry(_option_tag(option.names, option.metavar), option.help) for option in shown)
    parts.append(_section("OPTIONS", rows))
    if command.commands:
        rows = "".join(_entry(_bold(name), f"{about}.") for name, about in command.commands)
        parts.append(_section("COMMANDS", rows))
    if not command.path:
        parts.append(_section("EXIT STATUS", "".join(_exit_statuses())))
        parts.append(_section("ENVIRONMENT", _ENVIRONMENT))
        parts.append(_section("FILES", _FILES))
    parts += [_section(heading, text) for heading, text in _examples(command.text)]
    parts.append(_section("SEE ALSO", _see_also(command, every)))
    return "".join(parts)


_ENVIRONMENT = (
    "Settings are environment variables.\n"
    "\\fBagentengine config show\\fR lists all of them, with the value of each and where it comes from.\n"
)
_FILES = (
    ".TP\n\\fI~/.local/state/agentengine/approvals.sqlite3\\fR\n"
    "Approval requests, readable by the user only; \\fBXDG_STATE_HOME\\fR moves it and what is beside it.\n"
    ".TP\n\\fI~/.local/state/agentengine/log/decisions.jsonl\\fR\n"
    "The decision log; older files of it are beside it.\n"
    ".TP\n\\fI~/.local/state/agentengine/trust.json\\fR\n"
    "Which projects are trusted.\n"
    ".TP\n\\fI~/.config/agentengine/rules.yaml\\fR\n"
    "Your rules; \\fBXDG_CONFIG_HOME\\fR moves it.\n"
)


def _section(heading: str, text: str) -> str:
    return f".SH {heading}\n{text}"


def _usage(command: Command) -> str:
    return " ".join(_italic(re.sub(r"[{}]", "", word)) for word in command.usage.split())


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a docstring that are not its examples."""
    for number, paragraph in enumerate(_prose(text)):
        yield (".PP\n" if number else "") + _filled(paragraph)


def _prose(text: str) -> list[str]:
    return [part for part in text.split("\n\n") if not part.startswith("\b")]


def _examples(text: str) -> Iterator[tuple[str, str]]:
    """The paragraphs that keep their lines: examples, each under its first line."""
    for part in text.split("\n\n"):
        if part.startswith("\b"):
            heading, _, lines = part.lstrip("\b\n").partition("\n")
            body = "\n".join(_escaped(line.strip()) for line in lines.splitlines())
            yield _escaped(heading.rstrip(":").upper()), f".EX\n{body}\n.EE\n"


def _exit_statuses() -> Iterator[str]:
    meanings = {0: "done", **{status: kind for kind, status in EXIT_STATUS.items()}, 130: "interrupted"}
    for status, meaning in meanings.items():
        yield _entry(_bold(str(status)), f"{meaning}".capitalize() + ".")


def _see_also(command: Command, every: list[Command]) -> str:
    above = command.path.rpartition(" ")[0]
    related = [
        other
        for other in every
        if other is not command
        and (not other.path or other.path == above or other.path.rpartition(" ")[0] in (command.path, above))
    ]
    return ",\n".join(f"\\fB{_escaped(_page_name(other))}\\fR(1)" for other in related) + "\n"


def _option_tag(names: tuple[str, ...], metavar: str) -> str:
    tag = ", ".join(_bold(name) for name in names)
    return f"{tag} {_italic(metavar.strip('<>'))}" if metavar else tag


def _entry(tag: str, text: str) -> str:
    return f".TP\n{tag}\n{_filled(text)}"


def _filled(text: str) -> str:
    """Text that is filled, a sentence a line as man pages are written."""
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(text.split()))
    return "".join(f"{_escaped(sentence)}\n" for sentence in sentences)


def _bold(text: str) -> str:
    return f"\\fB{_escaped(text)}\\fR"


def _italic(text: str) -> str:
    return f"\\fI{_escaped(text)}\\fR"


def _escaped(text: str) -> str:
    """Text in which nothing is a command of roff, and a hyphen is one that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    return re.sub(r"^(?=[.'])", r"\\&", text)


def _lower_first(text: str) -> str:
    return text if text[:2].isupper() else text[:1].lower() + text[1:]
