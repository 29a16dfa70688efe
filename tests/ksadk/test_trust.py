"""Trust: a project's directory with exactly these bytes, kept for the user alone."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from ksadk.errors import KsadkError
from ksadk.settings import Settings
from ksadk.tools import trust


def trusted_project(text: str = "workspace: src\n") -> Path:
    """The current directory, trusted with a configuration of that text."""
    Path("agentengine.yaml").write_text(text)
    Path("src").mkdir(exist_ok=True)
    trust.trust(".", "agentengine.yaml", hashlib.sha256(text.encode()).hexdigest())
    return Path.cwd()


def kept_file() -> Path:
    return Settings.from_env().state_dir() / "trust.json"


def test_trust_is_for_a_directory_under_any_name_and_for_one_digest(tmp_path: Path) -> None:
    trust.trust(".", "agentengine.yaml", "d1")
    (tmp_path / "link").symlink_to(Path.cwd())
    assert trust.is_trusted(str(tmp_path / "link"), "d1")
    assert not trust.is_trusted(".", "d2")
    assert not trust.is_trusted("..", "d1")


def test_trust_is_revoked_once() -> None:
    trust.trust(".", "agentengine.yaml", "d1")
    assert trust.revoke(".")
    assert not trust.is_trusted(".", "d1")
    assert not trust.revoke(".")


def test_what_is_trusted_is_readable_for_the_user_alone() -> None:
    trust.trust(".", "agentengine.yaml", "d1")
    assert stat.S_IMODE(kept_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(kept_file().parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"version": 1, "projects": [{"directory": "/"}]}', '{"version": 9}', "\xff"]
)
def test_a_damaged_file_trusts_nothing_and_says_so(text: str) -> None:
    trust.trust(".", "agentengine.yaml", "d1")
    kept_file().write_text(text, "latin-1")
    assert not trust.is_trusted(".", "d1")
    with pytest.raises(trust.TrustUnavailable, match=r"trust\.json"):
        trust.trusted()
    with pytest.raises(trust.TrustUnavailable):
        trust.trust(".", "agentengine.yaml", "d1")


@pytest.mark.parametrize(
    "change",
    [
        {"since": "q"},
        {"since": True},
        {"since": None},
        {"since": -1},
        {"since": 1e300},
        {"since": float("nan")},
        {"directory": ["/"]},
        {"directory": 1},
        {"file": 1},
        {"digest": {}},
    ],
)
def test_a_value_of_the_wrong_type_is_damage_too(change: dict[str, Any]) -> None:
    trust.trust(".", "agentengine.yaml", "d1")
    kept = json.loads(kept_file().read_text())
    kept["projects"].append({**kept["projects"][0], **change})
    kept_file().write_text(json.dumps(kept))
    assert not trust.is_trusted(".", "d1")
    with pytest.raises(trust.TrustUnavailable, match="damaged"):
        trust.trusted()


def test_a_state_directory_that_cannot_be_made_is_an_error_with_its_name() -> None:
    kept_file().parent.parent.mkdir(parents=True)
    kept_file().parent.write_text("a file\n")
    with pytest.raises(trust.TrustUnavailable, match=r"trust\.json"):
        trust.trust(".", "agentengine.yaml", "d1")


def test_the_workspace_of_a_trusted_project_is_its_directory() -> None:
    project = trusted_project()
    assert trust.trusted_workspace(project) == project.resolve() / "src"
    Path("agentengine.yaml").write_text("workspace: src \n")
    assert trust.trusted_workspace(project) is None, "one byte more is another file"


def test_without_trust_or_without_the_key_there_is_no_workspace() -> None:
    assert trust.trusted_workspace(Path.cwd()) is None
    Path("agentengine.yaml").write_text("workspace: src\n")
    assert trust.trusted_workspace(Path.cwd()) is None
    assert trust.trusted_workspace(trusted_project("name: x\n")) is None


@pytest.mark.parametrize(
    ("workspace", "code"),
    [
        ("..", "invalid_project_file"),
        ("/", "invalid_project_file"),
        ("out", "invalid_project_file"),
        ("absent", "workspace_root_missing"),
        ("agentengine.yaml", "workspace_root_missing"),
    ],
)
def test_a_workspace_outside_of_the_project_or_that_is_not_there_is_an_error(
    workspace: str, code: str, tmp_path: Path
) -> None:
    Path("out").symlink_to(tmp_path)
    project = trusted_project(f"workspace: {workspace}\n")
    with pytest.raises(KsadkError) as caught:
        trust.trusted_workspace(project)
    assert caught.value.code == code


def test_an_offer_is_of_the_bytes_that_its_digest_is_of() -> None:
    text = "workspace: src\napproval:\n  rules:\n    - allow: '*'\n    - deny: run_command\n"
    project = trusted_project(text)
    offered = trust.offer(project)
    assert offered.digest == hashlib.sha256(text.encode()).hexdigest()
    assert [entry.verdict for entry in offered.rules] == ["allow", "deny"]
    assert offered.workspace == project.resolve() / "src"


def test_a_directory_without_a_configuration_cannot_be_trusted() -> None:
    with pytest.raises(KsadkError) as caught:
        trust.offer(Path.cwd())
    assert caught.value.code == "project_not_found"
