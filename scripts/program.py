"""The program as data: its commands with their options and arguments, read from the Typer app."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer

from agentengine_cli.main import app

PROGRAM = "agentengine"


@dataclass(frozen=True)
class Option:
    """An option; `metavar` is empty where it takes no value."""

    names: tuple[str, ...]
    metavar: str
    help: str
    hidden: bool


@dataclass(frozen=True)
class Argument:
    """A positional argument, under the name that the help gives it."""

    name: str
    help: str
    required: bool
    repeats: bool


@dataclass(frozen=True)
class Command:
    """One command; `path` is empty for the program itself, and "tools call" for instance below it."""

    path: str
    usage: str
    text: str
    """The docstring's paragraphs, as written."""
    summary: str
    options: tuple[Option, ...] = ()
    arguments: tuple[Argument, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
    """The commands below, with the summary of each."""

    @property
    def name(self) -> str:
        return f"{PROGRAM} {self.path}".rstrip()


def raw_commands() -> Iterator[tuple[str, Any, Any]]:
    """Every command's path, with Typer's objects for it and its context, in the order of the help."""
    yield from _below(typer.main.get_command(app), "", None)


def _below(command: Any, path: str, parent: Any) -> Iterator[tuple[str, Any, Any]]:
    context = command.context_class(command, info_name=path.rpartition(" ")[2] or PROGRAM, parent=parent)
    yield path, command, context
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if not below.hidden:
                yield from _below(below, f"{path} {name}".strip(), context)


def commands() -> Iterator[Command]:
    """Every command, in the order of the help."""
    for path, command, context in raw_commands():
        params = command.get_params(context)
        yield Command(
            path=path,
            usage=" ".join(command.collect_usage_pieces(context)),
            text=command.help or "",
            summary=first_sentence(command.help or ""),
            options=tuple(_option(p, context) for p in params if p.param_type_name == "option"),
            arguments=tuple(_argument(p, context) for p in params if p.param_type_name == "argument"),
            commands=tuple(_children(command, context)),
        )


def _children(command: Any, context: Any) -> Iterator[tuple[str, str]]:
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if not below.hidden:
                yield name, first_sentence(below.help or "")


def first_sentence(text: str) -> str:
    """The first sentence of a help, on one line."""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.:;])\s", paragraph)[0].rstrip(".:;")


def _option(param: Any, context: Any) -> Option:
    takes_value = not (param.is_flag or param.count)
    return Option(
        names=(*sorted(param.opts, key=lambda name: not name.startswith("--")), *param.secondary_opts),
        metavar=param.make_metavar(context) if takes_value else "",
        help=_words(param.help or ""),
        hidden=param.hidden,
    )


def _argument(param: Any, context: Any) -> Argument:
    shown = param.make_metavar(context)
    return Argument(
        name=re.sub(r"[\[\]{}.]", "", shown).upper(),
        help=_words(getattr(param, "help", "") or ""),
        required=param.required,
        repeats=param.nargs == -1,
    )


def _words(text: str) -> str:
    return " ".join(text.split())
