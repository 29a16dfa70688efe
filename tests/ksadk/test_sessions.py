"""Where a session keeps its files: by project, and by account when one is set."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksadk.errors import KsadkError
from ksadk.runtime_context import PlatformInvocationContext, platform_invocation_scope, project_scope
from ksadk.sessions import check_session_dir, make_session_dir, project_dir, resolve_local_session_dir
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


LINKS = [".agentengine", ".agentengine/ui", ".agentengine/ui/workspace", ".agentengine/ui/reads"]


@pytest.mark.parametrize("link", LINKS)
def test_a_link_in_the_project_puts_no_session_elsewhere(tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    path = Path.cwd() / link
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(outside)
    directory = Path.cwd() / (link if link.count("/") == 2 else ".agentengine/ui/tool-results")
    for act in (check_session_dir, make_session_dir):
        with pytest.raises(KsadkError) as caught:
            act(directory)
        assert caught.value.code == "workspace_outside_project"
        assert str(outside) in caught.value.message
    assert list(outside.iterdir()) == []


def test_a_link_to_another_place_in_the_project_is_followed() -> None:
    Path("kept").mkdir()
    Path(".agentengine").symlink_to("kept")
    make_session_dir(Path.cwd() / ".agentengine/ui/reads")
    assert Path("kept/ui/reads").is_dir()


def test_a_session_directory_that_the_user_named_may_be_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "ui").symlink_to(tmp_path / "real")
    monkeypatch.setenv("AGENTENGINE_UI_DIR", str(tmp_path / "ui"))
    make_session_dir(tmp_path / "ui/reads")
    assert (tmp_path / "real/reads").is_dir()
    (tmp_path / "real/workspace").symlink_to("/etc")
    with pytest.raises(KsadkError) as caught:
        make_session_dir(tmp_path / "ui/workspace")
    assert caught.value.code == "workspace_outside_project"
    check_session_dir(tmp_path / "real/workspace")


def test_a_project_may_be_reached_by_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").symlink_to(Path.cwd())
    monkeypatch.setenv("KSADK_PROJECT_DIR", str(tmp_path / "project"))
    make_session_dir(tmp_path / "project/.agentengine/ui/reads")
    assert Path(".agentengine/ui/reads").is_dir()
