"""--env-file puts a file's variables under the environment, and --debug shows no secret of either."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Run

from agentengine_cli.env_file import MAX_BYTES, read_env_file
from ksadk.errors import KsadkError
from ksadk.masking import MASK, masker
from ksadk.settings import Settings, environment_below


def settings_of(done: Any) -> dict[str, dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return {setting["name"]: setting for setting in json.loads(done.stdout)["settings"]}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("# only a comment\n\n", {}),
        ("A=1", {"A": "1"}),
        ("A=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
        ("\ufeffA=1\n", {"A": "1"}),
        ("export A=1\n", {"A": "1"}),
        ("A=\nB=''\n", {"A": "", "B": ""}),
        ("A=1 # why\n", {"A": "1"}),
        ("A='# not a comment'\n", {"A": "# not a comment"}),
        ('A="two\\nlines"\n', {"A": "two\nlines"}),
        ("A='two\nlines'\nB=3\n", {"A": "two\nlines", "B": "3"}),
        ("A=$HOME/${B}\n", {"A": "$HOME/${B}"}),
        ("A=x=y\n", {"A": "x=y"}),
        ("A=1\nA=2\n", {"A": "2"}),
        ("A=密钥\n", {"A": "密钥"}),
    ],
)
def test_a_file_is_read_as_shells_quote(text: str, values: dict[str, str]) -> None:
    Path("vars").write_bytes(text.encode())
    assert read_env_file("vars") == values


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"A=1\n\n\nhunter2 is not a line\n", "vars:4: "),
        (b"A=1\nhunter2\n", "vars:2: "),
        (b"A='hunter2\nB=1\n", "vars:1: "),
        (b"A=1\n1B=hunter2\n", "vars:2: "),
        (b"A-B=hunter2\n", "vars:1: "),
        (b"A=1\nB=hunter2\0\n", "vars:2: "),
        (b"A=1\nB=\xffhunter2\n", "vars:2: "),
        (b"x" * (MAX_BYTES + 1), "vars: "),
    ],
)
def test_what_is_no_such_file_is_named_by_line_and_not_shown(data: bytes, place: str) -> None:
    Path("vars").write_bytes(data)
    with pytest.raises(KsadkError) as raised:
        read_env_file("vars")
    assert raised.value.code == "invalid_env_file"
    assert raised.value.message.startswith(place)
    assert "hunter2" not in raised.value.message


@given(st.binary(max_size=200))
def test_any_bytes_are_variables_or_a_known_error(data: bytes) -> None:
    Path("vars").write_bytes(data)
    try:
        values = read_env_file("vars")
    except KsadkError as error:
        assert error.code == "invalid_env_file"
    else:
        with environment_below(values, "vars"):
            pass


def test_a_file_that_is_not_there_ends_with_2_in_words_and_in_json(agentengine: Run) -> None:
    done = agentengine("--env-file", "nowhere", "tools", "list", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "invalid_env_file"
    assert done.stderr.startswith("error: nowhere: it cannot be read: No such file")


def test_a_value_that_the_locale_cannot_write_is_named_by_line(agentengine: Run) -> None:
    Path("vars").write_text("A=1\nB=密\n", "utf-8")
    done = agentengine(
        "--env-file", "vars", "tools", "list", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: vars:2: ")


def test_a_file_is_never_read_without_being_named(agentengine: Run) -> None:
    Path(".env").write_text("KSADK_TOOL_APPROVAL_MODE=off\n")
    mode = settings_of(agentengine("config", "show", "--json"))["KSADK_TOOL_APPROVAL_MODE"]
    assert (mode["value"], mode["origin"]) == ("strict", "default")


def test_a_named_file_holds_where_the_process_says_nothing(agentengine: Run) -> None:
    Path("vars").write_text(
        "KSADK_TOOL_APPROVAL_MODE=ask\nKSADK_SANDBOX_TIMEOUT=5\nKSADK_SANDBOX_TYPE=code\nOPENAI_MODEL_NAME=a\n"
    )
    done = agentengine(
        "--env-file", "vars", "config", "show", "--json",
        KSADK_SANDBOX_TIMEOUT="7", KSADK_SANDBOX_TYPE="", MODEL_NAME="b",
    )  # fmt: skip
    shown = settings_of(done)
    found = {name: (item["value"], item["origin"], item["file"]) for name, item in shown.items()}
    assert found["KSADK_TOOL_APPROVAL_MODE"] == ("ask", "env-file", "vars")
    assert found["KSADK_SANDBOX_TIMEOUT"] == (7, "environment", None)
    assert found["KSADK_SANDBOX_TYPE"] == ("aio", "default", None)  # blank in the process, and that wins
    assert found["MODEL_NAME"] == ("b", "environment", None)  # another name of the same setting


def test_the_environment_is_as_before_when_the_command_has_ended(command: Any) -> None:
    Path("vars").write_text("KSADK_SANDBOX_TIMEOUT=5\nSOMETHING_ELSE=1\n")
    before = dict(os.environ)
    assert command("--env-file", "vars", "tools", "describe", "no_such_tool").status == 2
    assert dict(os.environ) == before


def test_a_bad_value_of_a_file_fails_the_calls_that_use_it(agentengine: Run) -> None:
    Path("vars").write_text("KSADK_TOOL_APPROVAL_MODE=never\n")
    done = agentengine("--env-file", "vars", "workspace", "status")
    assert done.returncode == 2
    assert "KSADK_TOOL_APPROVAL_MODE" in done.stderr


# --debug

SECRETS = {
    "OPENAI_API_KEY": "sk-hunter2-openai",
    "KSADK_MCP_SERVERS": '[{"name": "s1", "url": "https://mcp.example.com", "api_key": "hunter2-mcp"}]',
    "KSADK_A2A_TASK_STORE_DSN": "postgresql://me:hunter2%2Fdsn@db.example.com/tasks",
    "AWS_SECRET_ACCESS_KEY": "hunter2-aws",
    "KSADK_SKILL_SERVICE_TOKEN": "line1-hunter2\nline2-hunter2",
}


@pytest.mark.parametrize("from_file", [False, True])
def test_debug_tells_causes_and_surroundings_without_a_secret(agentengine: Run, from_file: bool) -> None:
    address = "https://me:hunter2@api.example.com/v1?key=hunter2&hunter2#hunter2"
    given = {**SECRETS, "OPENAI_BASE_URL": address, "MODEL_NAME": "m1"}
    first = ["--debug"]
    if from_file:
        Path("vars").write_text("".join(f"{name}={json.dumps(text)}\n" for name, text in given.items()))
        first += ["--env-file", "vars"]
    done = agentengine(
        *first, "workspace", "read", "nowhere.txt", "--root", ".", **({} if from_file else given)
    )
    assert done.returncode == 1
    assert "hunter2" not in done.stderr + done.stdout
    assert "debug: MODEL_NAME is 'm1'" in done.stderr
    assert "debug: OPENAI_API_KEY is set (" in done.stderr
    assert "debug: Traceback (most recent call last):" in done.stderr
    assert "FileNotFoundError" in done.stderr or "workspace" in done.stderr
    assert "debug: exit status 1 after " in done.stderr


def test_without_debug_nothing_of_it_is_printed(agentengine: Run) -> None:
    done = agentengine("workspace", "read", "nowhere.txt", "--root", ".")
    assert "Traceback" not in done.stderr
    assert "debug:" not in done.stderr


def test_debug_shows_a_bug_without_the_secret_in_its_message(
    agentengine: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("broken").mkdir()
    Path("broken/sitecustomize.py").write_text(
        "import agentengine_cli.config as config\n"
        "def broken(*_):\n    raise RuntimeError('sent sk-hunter2 and ' + repr('a\\nhunter2'))\n"
        "config.setting = broken\n"
    )
    done = agentengine(
        "--debug", "config", "show",
        PYTHONPATH=os.pathsep.join(["broken", *filter(None, sys.path)]),
        OPENAI_API_KEY="sk-hunter2", E2B_API_KEY="a\nhunter2",
    )  # fmt: skip
    assert done.returncode == 1
    assert f"RuntimeError: sent {MASK} and '{MASK}'" in done.stderr
    assert "hunter2" not in done.stderr


def test_data_stays_alone_on_stdout_under_debug(agentengine: Run) -> None:
    done = agentengine("--debug", "tools", "list", "--json")
    assert json.loads(done.stdout)["ok"] is True


@given(st.text(min_size=1).filter(str.strip), st.text(), st.text())
def test_a_secret_is_replaced_wherever_it_stands(secret: str, before: str, after: str) -> None:
    environ = {"OPENAI_API_KEY": secret}
    for written in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]):
        shown = masker(environ)(f"{before}{written}{after}")
        assert len(secret) < 3 or secret not in shown.replace(MASK, "\0")


def test_a_setting_that_is_no_secret_is_not_replaced() -> None:
    names = {name for variable in Settings.variables() if not variable.secret for name in variable.names}
    assert masker(dict.fromkeys(names, "word"))("the word") == "the word"
