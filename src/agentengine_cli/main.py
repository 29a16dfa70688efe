"""The program: its groups, and the one place where errors become words and exit statuses."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from typer import TyperException

from agentengine_cli import output
from agentengine_cli.base import HELP_NAMES, Entry, LazyGroup
from ksadk.errors import KsadkError


class Program(LazyGroup):
    """Every top-level command, in the order of the help."""

    entries: ClassVar[Mapping[str, Entry]] = {
        "init": Entry("agentengine_cli.init", "Write a small agent to start from."),
        "a2a": Entry("agentengine_cli.a2a", "Serve agents over A2A 1.0, call them, make their cards."),
        "tools": Entry("agentengine_cli.tools", "List, describe, search and call tools."),
        "workspace": Entry("agentengine_cli.workspace", "Read, search and edit workspace files."),
        "sandbox": Entry("agentengine_cli.sandbox", "Run commands and code in a sandbox."),
        "skills": Entry("agentengine_cli.skills", "Find skills, load and run them, make packages of them."),
        "approvals": Entry("agentengine_cli.approvals", "Answer calls that wait for approval."),
        "trust": Entry("agentengine_cli.trust", "Let a project's own rules and skills count."),
        "config": Entry("agentengine_cli.config", "Show the settings and where each comes from."),
        "doctor": Entry("agentengine_cli.doctor", "Find out what is wrong with this installation."),
    }


_debug: ContextVar[bool] = ContextVar("debug", default=False)
app = typer.Typer(cls=Program, rich_markup_mode=None, add_completion=False, context_settings=HELP_NAMES)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        output.write(f"agentengine {version('agentengine-cli')}\n")
        raise typer.Exit(0)


@app.callback()
def program(
    context: typer.Context,
    env_file: Annotated[
        str,
        typer.Option(
            "--env-file", metavar="FILE", help="Read variables from KEY=VALUE lines; those set win."
        ),
    ] = "",
    debug: Annotated[
        bool, typer.Option("--debug", help="Print tracebacks and surroundings on stderr, without secrets.")
    ] = False,
    version: Annotated[  # noqa: ARG001  # its callback prints it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Tools for people who build agents.

    Exit status: 0 done, 1 failed, 2 usage, 3 unreachable, 4 authentication, 5 timeout or expired,
    6 approval needed and nobody to ask, 7 denied, 8 not configured, 130 interrupted.
    """
    if debug:
        from agentengine_cli import debug as printed

        _debug.set(True)
        printed.start()
    if env_file:
        from agentengine_cli.env_file import read_env_file
        from ksadk.settings import environment_below

        context.with_resource(environment_below(read_env_file(env_file), env_file))
    if debug:
        printed.tell_surroundings()


def run(arguments: list[str]) -> int:
    """Run one command line in a context of its own; returns the exit status."""
    return copy_context().run(_run, arguments)


def _run(arguments: list[str]) -> int:
    begun = time.monotonic()
    status = _status(arguments)
    if _debug.get():
        from agentengine_cli import debug

        debug.tell_end(status, time.monotonic() - begun)
    return status


def _status(arguments: list[str]) -> int:
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = typer.main.get_command(app).main(arguments, prog_name="agentengine", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except KsadkError as error:
        _trace(error)
        if error.code == "invalid_env_file":
            _notice_json(arguments)
        return output.report(error)
    except TyperException as error:
        _trace(error)
        return _misused(error, arguments)
    except typer.Abort:
        return 130
    except BrokenPipeError:
        output.close_stdout()
        return 0
    except OSError as error:  # a directory that went away, a disk that is full
        _trace(error)
        return _failed(error)
    except SystemExit as ended:
        # Typer ends with 1 when the reader of a help has gone away, which is no failure.
        return 0 if ended.code in (None, 1) else int(ended.code)
    except Exception as bug:
        if not _debug.get():
            raise
        _trace(bug)  # Python's own traceback would show secrets
        return 1


def _trace(error: Exception) -> None:
    if _debug.get():
        from agentengine_cli import debug

        debug.trace(error)


def _open_closed_streams() -> None:
    """Streams that were closed before the program began lead nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # until the end


def _failed(error: OSError) -> int:
    """What the system did not let be done; stdout itself may be what cannot be written."""
    message = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    try:
        sys.stdout.flush()
    except OSError:  # what is left in it would fail once more when the program ends
        output.close_stdout()
    return output.report_words("io_error", message, None)


_JSON = re.compile(r"\n(--json|(-o\n?|--output[\n=])json(?P<lines>l?))\n")


def _misused(error: TyperException, arguments: list[str]) -> int:
    """A command line that does not parse, reported before the command could say that it wanted JSON."""
    _notice_json(arguments)
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "agentengine"
    return output.report_words("usage", error.format_message(), f"{path} --help shows what it takes.")


def _notice_json(arguments: list[str]) -> None:
    wanted = _JSON.search("\n".join(["", *arguments, ""]))
    if wanted:
        output.json_wanted.set(True)
        output.json_lines.set(bool(wanted["lines"]))
