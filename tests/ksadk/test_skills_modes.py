"""Whether skills run in a sandbox, are read, or are not offered: the first of the settings that says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ksadk.errors import SettingsError
from ksadk.settings import Settings
from ksadk.skills.runtime.modes import skills_mode

RUNTIME, SANDBOX = "KSADK_SKILL_RUNTIME_BACKEND", "KSADK_SANDBOX_BACKEND"

CASES: dict[str, tuple[dict[str, str], tuple[str, ...], str]] = {
    "nothing": ({}, (), "off"),
    "said": ({"KSADK_SKILLS_MODE": "local", RUNTIME: "e2b"}, (), "local"),
    "said off": ({"KSADK_SKILLS_MODE": "none", RUNTIME: "e2b"}, ("skills",), "off"),
    "said sandbox": ({"KSADK_SKILLS_MODE": "sandbox"}, (), "sandbox"),
    "auto is the default": ({"KSADK_SKILLS_MODE": "auto", RUNTIME: "e2b"}, (), "sandbox"),
    "the runtime": ({RUNTIME: "bubblewrap", SANDBOX: "none"}, (), "sandbox"),
    "the runtime is off": ({RUNTIME: "off", SANDBOX: "e2b"}, ("skills",), "off"),
    "the sandbox": ({SANDBOX: "e2b"}, (), "sandbox"),
    "the sandbox is off": ({SANDBOX: "disabled", "KSADK_SANDBOX_TEMPLATE_ID": "t"}, (), "off"),
    "a template": ({"KSADK_SANDBOX_TEMPLATE_ID": "t"}, (), "sandbox"),
    "a template of its own": ({"KSADK_SKILL_RUNTIME_TEMPLATE_ID": "t"}, (), "sandbox"),
    "local skills": ({"KSADK_LOCAL_SKILLS_DIR": "mine"}, ("mine",), "local"),
    "an empty directory": ({"KSADK_LOCAL_SKILLS_DIR": "empty"}, (), "off"),
    "the cache": ({"KSADK_SKILL_CACHE_DIR": "cache"}, ("cache",), "local"),
    "the project's": ({}, ("skills",), "local"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_mode_is_what_the_first_setting_says(case: str, tmp_path: Path) -> None:
    environ, places, mode = CASES[case]
    (tmp_path / "empty").mkdir()
    for place in places:
        (tmp_path / place / "demo").mkdir(parents=True)
        (tmp_path / place / "demo" / "SKILL.md").write_text("---\nname: demo\n---\n")
    given: dict[str, Any] = {
        name: str(tmp_path / value) if name.endswith("_DIR") else value for name, value in environ.items()
    }
    assert skills_mode(Settings(given), tmp_path) == mode


def test_a_word_that_is_no_mode_is_an_error_that_names_the_variable() -> None:
    with pytest.raises(SettingsError, match="KSADK_SKILLS_MODE"):
        skills_mode(Settings({"KSADK_SKILLS_MODE": "always"}), Path())
