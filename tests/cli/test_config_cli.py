"""`agentengine config show`: every setting, where it comes from, and nothing of a secret."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support import Run

from ksadk.masking import without_user_info
from ksadk.settings import UNREAD, Settings

VARIABLES = list(Settings.variables())


def shown(done: Any) -> dict[str, dict[str, Any]]:
    return {setting["name"]: setting for setting in done.json["settings"]}


def test_every_setting_is_there_in_its_order(command: Any) -> None:
    done = command("config", "show", "--json")
    assert [setting["names"] for setting in done.json["settings"]] == [list(v.names) for v in VARIABLES]
    assert {setting["origin"] for setting in done.json["settings"]} <= {"default", "environment"}
    unread = {v.field for v, s in zip(VARIABLES, done.json["settings"], strict=True) if not s["read"]}
    assert unread == UNREAD


def test_a_value_is_shown_under_the_variable_that_it_comes_from(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_NAME", "m1")
    monkeypatch.setenv("KSADK_SANDBOX_TIMEOUT", "7")
    found = shown(command("config", "show", "--json"))
    assert (found["MODEL_NAME"]["value"], found["MODEL_NAME"]["origin"]) == ("m1", "environment")
    assert found["KSADK_SANDBOX_TIMEOUT"]["value"] == 7
    text = command("config", "show").stdout
    assert "MODEL_NAME " in text
    assert "OPENAI_MODEL_NAME" not in text


def test_no_character_of_a_secret_is_shown(agentengine: Run) -> None:
    given = {name: "Zq" * 9 + name for variable in VARIABLES if variable.secret for name in variable.names}
    for form in ("json", "text"):
        done = agentengine("config", "show", "-o", form, **given)
        assert done.returncode == 0
        assert "Zq" not in done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["OPENAI_API_KEY", "environment", "set"] in lines
    without = [line.split() for line in agentengine("config", "show").stdout.splitlines()]
    assert ["OPENAI_API_KEY", "default", "not", "set"] in without


def test_a_password_in_a_url_is_not_shown(agentengine: Run) -> None:
    done = agentengine("config", "show", OPENAI_BASE_URL="https://me:hunter2@api.example.com/v1")
    assert "https://***@api.example.com/v1" in done.stdout
    assert "hunter2" not in done.stdout


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://h/v1?api_key=hunter2", "https://h/v1?api_key=***"),
        ("https://h/v1?a=hunter2&b=hunter2=hunter2", "https://h/v1?a=***&b=***"),
        ("https://h/v1?hunter2", "https://h/v1?***"),
        ("https://h/v1?a=&b=hunter2?c='hunter2'", "https://h/v1?a=&b=***"),
        ("https://h/v1#hunter2?a=hunter2", "https://h/v1#***"),
        ("https://me:hunter2@h?a=hunter2#a=hunter2", "https://***@h?a=***#***"),
        ("https://h/v1?", "https://h/v1?"),
    ],
)
@pytest.mark.parametrize("form", ["json", "text"])
def test_values_in_the_query_and_the_fragment_of_a_url_are_not_shown(
    agentengine: Run, address: str, shown: str, form: str
) -> None:
    done = agentengine("--debug", "config", "show", "-o", form, OPENAI_BASE_URL=address)
    assert shown in done.stdout
    assert "hunter2" not in done.stdout + done.stderr


def test_a_hostile_text_is_masked_in_linear_time() -> None:
    for text in ("?", "&", "=", "?=", "#", "?a=<secret>", "://", "://?="):
        begun = time.process_time()
        without_user_info("https://h" + text * 50_000)
        assert time.process_time() - begun < 2


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.field)
def test_a_value_that_cannot_be_used_is_shown_as_bad_with_its_reason(
    variable: Any, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable.names[0], "~nobody-of-this-name/\udcff")
    done = command("config", "show", "--json")
    assert done.status == 0
    setting = shown(done)[variable.names[0]]
    try:
        getattr(Settings.from_env(), variable.field)
    except ValueError:
        assert setting["value"] is None
        assert setting["error"].startswith(variable.names[0])
        assert "bad: " in command("config", "show").stdout
    else:
        assert setting["error"] is None


def test_the_approval_mode_is_the_one_that_the_command_line_uses(agentengine: Run, command: Any) -> None:
    assert shown(command("config", "show", "--json"))["KSADK_TOOL_APPROVAL_MODE"]["value"] == "strict"
    asked = agentengine("workspace", "write", "a", "--content", "x", "--root", ".")
    assert asked.returncode == 6


def test_hostile_text_in_a_value_does_not_reach_the_table(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_NAME", "m\x1b[2J\u202e\nOPENAI_API_KEY  default  set")
    lines = command("config", "show").stdout.splitlines()
    assert len([line for line in lines if line.startswith("OPENAI_API_KEY")]) == 1
    assert "\x1b" not in "".join(lines)
