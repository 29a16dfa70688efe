"""What every command and group is made of: shared options, and groups that are loaded when they are used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import typer
from typer import TyperException
from typer.core import TyperCommand, TyperGroup, TyperOption

from agentengine_cli import output

APPROVAL_MODE = "strict"
"""The mode of the command line, where no variable and no request names one."""

HELP_NAMES = {"help_option_names": ["--help", "-h"]}


class Command(TyperCommand):
    """A command with the shared `--json` and `-o`."""

    def __init__(self, *args: Any, params: list[Any] | None = None, **kwargs: Any) -> None:
        kwargs["context_settings"] = {**HELP_NAMES, **(kwargs.get("context_settings") or {})}
        super().__init__(*args, params=[*(params or []), *self.shared_options()], **kwargs)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            if getattr(error, "ctx", ctx) is None:  # so that the hint names this command's help
                error.ctx = ctx  # type: ignore[attr-defined]
            raise

    def shared_options(self) -> list[TyperOption]:
        """The options that the command has beside those of its function."""
        return [
            TyperOption(
                param_decls=["--json"],
                is_flag=True,
                expose_value=False,
                callback=_want_json,
                help="Print one JSON document (the same as -o json).",
            ),
            TyperOption(
                param_decls=["-o", "--output"],
                metavar="[text|json]",
                expose_value=False,
                callback=_want_format,
                help="How to print the result.",
            ),
        ]


class Group(TyperGroup):
    """A group that answers a bare call with its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            output.write(ctx.get_help() + "\n")
            raise typer.Exit(0)
        return super().parse_args(ctx, args)


class Entry(NamedTuple):
    """Where a command lives (`module`, whose `app` it is, or `module:name`), and its line in the help.

    Without a module it is the group's own.
    """

    module: str
    help: str


class LazyGroup(Group):
    """A group that imports a command's module when it is called, not to list it; `entries` says where."""

    entries: ClassVar[Mapping[str, Entry]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        if not entry.module:
            return self.commands[cmd_name]
        module, _, name = entry.module.partition(":")
        app: typer.Typer = getattr(importlib.import_module(module), name or "app")
        command = typer.main.get_command(app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.entries.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.entries and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.entries, n=1)
            more = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"There is no command {args[0]!r}.{more}")
        return super().resolve_command(ctx, args)


def new_group(help: str, cls: type[Group] = Group) -> typer.Typer:
    """A command group of this program."""
    return typer.Typer(
        help=help, cls=cls, rich_markup_mode=None, add_completion=False, context_settings=HELP_NAMES
    )


def _want_json(_ctx: Any, _param: Any, value: bool) -> None:
    if value:
        output.json_wanted.set(True)


def _want_format(ctx: Any, param: Any, value: str | None) -> None:
    if value is None:
        return
    if value not in ("text", "json"):
        raise typer.BadParameter(f"{value!r} is not text or json", ctx=ctx, param=param)
    output.json_wanted.set(value == "json")
