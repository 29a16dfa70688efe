"""What a terminal is shown: colour, width, and hostile characters."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from agentengine_cli import output

Run = Callable[..., subprocess.CompletedProcess[str]]
PROGRAM = [sys.executable, "-m", "agentengine_cli"]


def on_a_terminal(*arguments: str, columns: int = 80, **environ: str) -> str:
    """What a command writes to a terminal of that width (stdout and stderr)."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [*PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        env={**os.environ, **environ},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    process.wait(30)
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, False),
    ],
    ids=str,
)
def test_a_pipe_is_coloured_only_when_forced(
    agentengine: Run, environ: dict[str, str], coloured: bool
) -> None:
    done = agentengine("tools", "describe", "nothing", **environ)
    assert ("\033[" in done.stderr) is coloured
    assert "\033[" not in done.stdout


@pytest.mark.parametrize(
    ("environ", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)], ids=str
)
def test_a_terminal_is_coloured_unless_no_color_is_set(environ: dict[str, str], coloured: bool) -> None:
    shown = on_a_terminal("tools", "describe", "nothing", **environ)
    assert ("\033[31merror:" in shown) is coloured


def test_on_a_narrow_terminal_the_last_column_is_wrapped_under_its_own_start() -> None:
    lines = on_a_terminal("tools", "list", columns=100).splitlines()
    assert max(map(len, lines)) <= 100
    start = lines[0].index("WHAT IT DOES")
    continued = [line for line in lines if line.startswith(" " * start)]
    assert continued
    assert all(not line[start].isspace() for line in continued)


def test_a_very_narrow_terminal_loses_no_word() -> None:
    wide, narrow = on_a_terminal("tools", "list", columns=500), on_a_terminal("tools", "list", columns=30)
    values = wide.partition("\n")[2].split()
    assert set(values) <= set(narrow.split())
    assert len(narrow.split()) >= len(values)


HOSTILE = "a\033]0;title\a\u202eb\u200bc\x9bd\x7f\r"
ESCAPED = r"a\x1b]0;title\x07\u202eb\u200bc\x9bd\x7f\r"


def test_control_and_bidirectional_characters_are_shown_escaped_on_a_terminal() -> None:
    shown = on_a_terminal("tools", "describe", HOSTILE, NO_COLOR="1")
    assert ESCAPED in shown
    Path(".agentengine/ui/workspace").mkdir(parents=True)
    Path(".agentengine/ui/workspace/f").write_text("first\n" + HOSTILE + "end\n")
    shown = on_a_terminal("workspace", "read", "f")
    assert ESCAPED + "end" in shown


def test_json_on_a_terminal_is_the_same_document_and_hides_nothing_either() -> None:
    shown = on_a_terminal("tools", "describe", HOSTILE + "\U000e0041中", "--json", NO_COLOR="1")
    document = shown[: shown.index("error: ")]
    assert HOSTILE + "\U000e0041中" in json.loads(document)["error"]["message"]
    assert "中" in document
    assert not set(document) & set("\033\u202e\u200b\x9b\x7f\U000e0041")


def test_what_goes_into_a_pipe_is_as_it_is(agentengine: Run) -> None:
    Path(".agentengine/ui/workspace").mkdir(parents=True)
    Path(".agentengine/ui/workspace/f").write_bytes("\033[1mbold\u202e\n".encode())
    done = agentengine("workspace", "read", "f", "--no-numbers")
    assert done.stdout == "\033[1mbold\u202e\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"), ("中文 é 👍", "中文 é 👍"), ("\033[1m", r"\x1b[1m"), ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\u202e\u2066\u200f", r"\u202e\u2066\u200f"), ("\u2028", r"\u2028"), ("\udcff", r"\udcff"),
        ("\ue000", r"\ue000"), ("\U000e0041", r"\U000e0041"), ("\x85\xad", r"\x85\xad"),
        ("\ufeff", r"\ufeff"), ("a\u3164\u115f\u034f\ufe0fb", r"a\u3164\u115f\u034f\ufe0fb"),
    ],
    ids=ascii,
)  # fmt: skip
def test_text_is_made_visible(text: str, shown: str) -> None:
    assert output.visible(text) == shown


def test_what_is_kept_is_not_escaped() -> None:
    assert output.visible("a\nb\tc\r", keep="\n\t") == "a\nb\tc\\r"
