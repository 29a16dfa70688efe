"""Settings: read when used, named when wrong, secret when marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ksadk.errors import SettingsError
from ksadk.settings import Settings


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("KSADK_TOOL_APPROVAL_MODE", "off", "tool_approval_mode", "off"),
        ("KSADK_TOOL_APPROVAL_MODE", "full", "tool_approval_mode", "off"),
        ("KSADK_TOOL_APPROVAL_MODE", "permissive", "tool_approval_mode", "off"),
        ("KSADK_TOOL_APPROVAL_MODE", " Strict ", "tool_approval_mode", "strict"),
        ("KSADK_TOOL_APPROVAL_MODE", "risk", "tool_approval_mode", "strict"),
        ("KSADK_TOOL_APPROVAL_MODE", "ASK", "tool_approval_mode", "ask"),
        ("KSADK_TOOL_APPROVAL_TTL_SECONDS", "60", "tool_approval_ttl_seconds", 60),
        ("FORCE_COLOR", "0", "force_color", False),
        ("KSADK_BUILTIN_TOOLS_PROFILE", "core", "builtin_tools_profile", "focused"),
        ("KSADK_BUILTIN_TOOLS_MODE", "none", "builtin_tools_mode", "off"),
        ("KSADK_BUILTIN_TOOLS_MODE", "search", "builtin_tools_mode", "deferred"),
        ("KSADK_TOOL_RESULT_MAX_CHARS", "-1", "tool_result_max_chars", 0),
        ("KSADK_SANDBOX_TYPE", "thread", "sandbox_type", "aio"),
        ("KSADK_SANDBOX_BACKEND", "bwrap", "sandbox_backend", "bubblewrap"),
        ("KSADK_SANDBOX_BACKEND", "disabled", "sandbox_backend", "none"),
        ("KSADK_SANDBOX_BACKEND", "docker", "sandbox_backend", "docker"),
        ("KSADK_SANDBOX_STARTUP_RETRY_DELAY", "0.5", "sandbox_startup_retry_delay", 0.5),
        ("KSADK_ALLOW_POD_PROCESS_TOOLS", "Yes", "allow_pod_process_tools", True),
        ("KSADK_ENABLE_MCP_TOOLS", "off", "enable_mcp_tools", False),
        ("KSADK_SKILL_SPACE_IDS", "a, b,,c", "skill_space_ids", ("a", "b", "c")),
        ("KSADK_PROJECT_DIR", "~/p", "project_dir", Path("~/p").expanduser),
        ("NO_COLOR", "1", "no_color", True),
    ],
)
def test_a_variable_is_read_as_its_type(name: str, text: str, field: str, value: Any) -> None:
    wanted = value() if callable(value) else value
    assert getattr(Settings.from_env({name: text}), field) == wanted


@pytest.mark.parametrize(
    ("name", "text", "field"),
    [
        ("KSADK_TOOL_APPROVAL_MODE", "of", "tool_approval_mode"),
        ("KSADK_TOOL_APPROVAL_TTL_SECONDS", "99999999999", "tool_approval_ttl_seconds"),
        ("KSADK_TOOL_APPROVAL_BINDING", "yes", "tool_approval_binding"),
        ("KSADK_BUILTIN_TOOLS_MODE", "everything", "builtin_tools_mode"),
        ("KSADK_SANDBOX_TYPE", "fiber", "sandbox_type"),
        ("KSADK_TOOL_RESULT_MAX_CHARS", "many", "tool_result_max_chars"),
        ("KSADK_SANDBOX_TIMEOUT", "1.5", "sandbox_timeout"),
        ("KSADK_SKILL_MANIFEST_TIMEOUT", "nan", "skill_manifest_timeout"),
        ("KSADK_SKILL_MANIFEST_TIMEOUT", "inf", "skill_manifest_timeout"),
        ("KSADK_SKILL_MANIFEST_TIMEOUT", "-1", "skill_manifest_timeout"),
        ("KSADK_ALLOW_POD_PROCESS_TOOLS", "maybe", "allow_pod_process_tools"),
    ],
)
def test_a_bad_value_names_its_variable_and_what_is_expected(name: str, text: str, field: str) -> None:
    with pytest.raises(SettingsError) as caught:
        getattr(Settings.from_env({name: text}), field)
    assert name in caught.value.message
    assert text in caught.value.message
    assert "expected" in caught.value.message
    assert caught.value.code == "invalid_setting"


def test_a_bad_value_fails_only_the_field_that_reads_it() -> None:
    settings = Settings.from_env({"KSADK_SANDBOX_TIMEOUT": "soon"})
    assert settings.tool_approval_mode == "off"
    with pytest.raises(SettingsError):
        _ = settings.sandbox_timeout


def test_the_first_name_that_is_set_wins_and_blank_is_not_set() -> None:
    assert Settings.from_env({"MODEL_NAME": "old"}).model_name == "old"
    assert Settings.from_env({"MODEL_NAME": "old", "OPENAI_MODEL_NAME": "new"}).model_name == "new"
    assert Settings.from_env({"MODEL_NAME": "old", "OPENAI_MODEL_NAME": "  "}).model_name == "old"


def test_a_variable_set_after_import_counts_at_the_next_read(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.from_env()
    assert settings.sandbox_ttl_seconds == 600
    monkeypatch.setenv("KSADK_SANDBOX_TTL_SECONDS", "7")
    assert settings.sandbox_ttl_seconds == 7


def test_given_values_override_the_environment() -> None:
    settings = Settings.from_env({"KSADK_TOOL_APPROVAL_MODE": "ask"}, tool_approval_mode="strict")
    assert settings.tool_approval_mode == "strict"
    assert settings.is_set("tool_approval_mode")


def test_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="tool_aproval_mode"):
        Settings(tool_aproval_mode="strict")


def test_is_set_tells_the_default_from_the_same_value_given() -> None:
    assert not Settings.from_env({}).is_set("builtin_tools_mode")
    assert Settings.from_env({"KSADK_BUILTIN_TOOLS_MODE": "direct"}).is_set("builtin_tools_mode")


@pytest.mark.parametrize("name", ["KEY", "TOKEN", "SECRET", "PASSWORD", "DSN"])
def test_variables_that_hold_secrets_are_marked(name: str) -> None:
    unmarked = [
        variable.names
        for variable in Settings.variables()
        if any(name in each.split("_") for each in variable.names) and not variable.secret
    ]
    not_secret_themselves = [("KSADK_A2A_TOKEN_DIR",)]
    assert [names for names in unmarked if names not in not_secret_themselves] == []


def test_an_error_never_shows_a_secret() -> None:
    def read(_: str) -> str:
        raise ValueError("no")

    variable = Settings.openai_api_key
    secret = type(variable)(
        *variable.names, read=read, default="", help=variable.help, secret=variable.secret
    )
    with pytest.raises(SettingsError) as caught:
        secret.parse("OPENAI_API_KEY", "sk-hush")
    assert "sk-hush" not in str(caught.value)


def test_every_variable_has_words_and_no_name_is_declared_twice() -> None:
    names = [name for variable in Settings.variables() for name in variable.names]
    assert len(names) == len(set(names))
    assert [variable.names for variable in Settings.variables() if not variable.help.strip()] == []


def test_state_and_configuration_follow_xdg(tmp_path: Path) -> None:
    chosen = Settings.from_env(
        {"XDG_STATE_HOME": str(tmp_path / "s"), "XDG_CONFIG_HOME": str(tmp_path / "c")}
    )
    assert chosen.state_dir() == tmp_path / "s" / "agentengine"
    assert chosen.config_dir() == tmp_path / "c" / "agentengine"
    assert Settings.from_env({}).state_dir() == Path.home() / ".local" / "state" / "agentengine"
    assert Settings.from_env({}).config_dir() == Path.home() / ".config" / "agentengine"


@pytest.mark.parametrize("environ", [{"XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "cfg"}, {"HOME": "home"}])
def test_the_users_own_files_are_never_looked_for_in_the_current_directory(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    settings = Settings.from_env()
    for find in (settings.state_dir, settings.config_dir, settings.config_dir_text):
        with pytest.raises(SettingsError, match="absolute"):
            find()
