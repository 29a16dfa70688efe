"""Where a session keeps its files: by project, and by account when one is set."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksadk.runtime_context import PlatformInvocationContext, platform_invocation_scope, project_scope
from ksadk.sessions import make_session_dir, project_dir, resolve_local_session_dir
from ksadk.settings import Settings


def of_account(account: str, settings: Settings) -> Path:
    with platform_invocation_scope(PlatformInvocationContext(account_id=account)):
        return resolve_local_session_dir(settings)


def test_the_project_is_the_current_directory_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project_dir() == Path.cwd()
    monkeypatch.setenv("KSADK_PROJECT_DIR", str(tmp_path / "elsewhere"))
    assert project_dir() == tmp_path / "elsewhere"
    assert resolve_local_session_dir() == tmp_path / "elsewhere" / ".agentengine" / "ui"


def test_a_project_that_a_trusted_caller_works_for_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSADK_PROJECT_DIR", str(tmp_path / "elsewhere"))
    with project_scope(tmp_path / "chosen"):
        assert project_dir() == tmp_path / "chosen"
        assert resolve_local_session_dir() == tmp_path / "chosen" / ".agentengine" / "ui"
    assert project_dir() == tmp_path / "elsewhere"


def test_a_named_session_directory_wins_and_a_relative_one_is_made_absolute() -> None:
    assert resolve_local_session_dir(Settings(ui_dir=Path("ui"))) == Path.cwd() / "ui"


def test_nothing_is_created(tmp_path: Path) -> None:
    of_account("acme", Settings(ui_dir=tmp_path / "ui"))
    assert not (tmp_path / "ui").exists()


def test_each_account_has_a_directory_of_its_own(tmp_path: Path) -> None:
    settings = Settings(ui_dir=tmp_path)
    a, b = of_account("a", settings), of_account("b", settings)
    assert a != b
    assert a == of_account("a", settings)
    assert resolve_local_session_dir(settings) == tmp_path


@given(
    st.text(min_size=1) | st.sampled_from(["..", "/", "../..", "a/../../b", "C:\\x", ".", "\x00", "\ud800"])
)
def test_no_account_name_leads_out_of_the_session_directory(account: str) -> None:
    base = Path("/sessions")
    assert of_account(account, Settings(ui_dir=base)).parent == base / "accounts"
    assert of_account(account, Settings(ui_dir=base)).name.isalnum()


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_accounts_never_share_a_directory(one: str, other: str) -> None:
    settings = Settings(ui_dir=Path("/sessions"))
    assert (of_account(one, settings) == of_account(other, settings)) == (one == other)


def test_a_session_directory_is_made_and_git_is_told_to_leave_it_out(tmp_path: Path) -> None:
    directory = tmp_path / ".agentengine/ui/reads"
    make_session_dir(directory, 0o700)
    assert directory.stat().st_mode & 0o777 == 0o700
    ignore = tmp_path / ".agentengine/.gitignore"
    assert ignore.read_text() == "*\n"
    ignore.write_text("mine\n")
    make_session_dir(directory)
    assert ignore.read_text() == "mine\n"
    ignore.unlink()
    make_session_dir(tmp_path / ".agentengine/ui/workspace")
    assert not ignore.exists()


def test_a_session_directory_elsewhere_gets_no_file_of_git(tmp_path: Path) -> None:
    make_session_dir(tmp_path / "sessions/reads")
    assert list((tmp_path / "sessions").iterdir()) == [tmp_path / "sessions/reads"]
