"""Where a workspace path leads, and which places are closed."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ksadk.workspace import writing
from ksadk.workspace.files import current_state
from ksadk.workspace.paths import WorkspaceError, clean, locate
from ksadk.workspace.protected import check_writable_place, is_protected
from ksadk.workspace.read_state import ReadStates
from ksadk.workspace.tree import Walk


@pytest.mark.parametrize(
    ("given_path", "shown"),
    [
        ("a.txt", "a.txt"),
        ("/a.txt", "a.txt"),
        ("///a//b/", "a/b"),
        ("a\\b.txt", "a/b.txt"),
        ("./a/./b", "a/b"),
        ("a/../b", "b"),
        ("", "."),
        ("/", "."),
        ("C:\\x.py", "C:/x.py"),
        ("-dash", "-dash"),
    ],
)
def test_a_path_is_read_relative_to_the_root(given_path: str, shown: str) -> None:
    assert clean(given_path) == shown


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("..", "path_outside_workspace"),
        ("../x", "path_outside_workspace"),
        ("a/../../x", "path_outside_workspace"),
        ("..\\x", "path_outside_workspace"),
        ("/../etc/passwd", "path_outside_workspace"),
        ("a\0b", "invalid_path"),
        ("a\ud800", "invalid_path"),
        ("x" * 256, "path_too_long"),
        ("中" * 86, "path_too_long"),
        ("a/" * 2100, "path_too_long"),
    ],
)
def test_a_path_that_cannot_be_used_is_refused_with_its_code(path: str, code: str) -> None:
    with pytest.raises(WorkspaceError) as caught:
        clean(path)
    assert caught.value.code == code
    assert isinstance(caught.value, ValueError)


@given(st.text(alphabet=st.sampled_from("ab./\\ ~\0é"), max_size=20))
def test_no_path_leads_out_of_the_root(path: str) -> None:
    try:
        shown = clean(path)
    except WorkspaceError:
        return
    assert not shown.startswith("/")
    assert ".." not in shown.split("/")


NAMES = st.sampled_from(["a", "b", "c", "missing"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
TARGETS = st.sampled_from([".", "..", "../..", "../../outside", "/", "a", "a/b", "../b", "c", "loop"])


@settings(max_examples=200)
@example(links={"a/a": "a/b"}, files=set(), path="a/a/a")  # in a loop
@given(links=st.dictionaries(PATHS, TARGETS, max_size=4), files=st.sets(PATHS, max_size=3), path=PATHS)
def test_a_path_leads_where_the_system_says_whatever_links_are_on_the_way(
    links: dict[str, str], files: set[str], path: str
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve() / "base/root"
        (root / "a/b").mkdir(parents=True)
        for name in [*links, *files]:
            with suppress(OSError):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).symlink_to(links[name]) if name in links else (root / name).touch()
        parent, real = (Path(os.path.realpath(end)) for end in ((root / path).parent, root / path))
        if real.is_relative_to(root) and parent.is_relative_to(root):
            place = locate(root, path)
            assert (place.real, place.entry) == (real, parent / Path(path).name)
        else:
            with pytest.raises(WorkspaceError) as caught:
                locate(root, path)
            assert caught.value.code == "path_outside_workspace"


def test_a_link_is_followed_inside_and_refused_when_it_leads_out(tmp_path: Path) -> None:
    root = (tmp_path / "root").resolve()
    (root / "real").mkdir(parents=True)
    (root / "inner").symlink_to("real")
    (root / "outer").symlink_to(tmp_path)
    (root / "real/deep").symlink_to("../outer")
    place = locate(root, "inner/f.txt")
    assert (place.shown, place.relative) == ("inner/f.txt", "real/f.txt")
    for path, link in {"outer": "outer", "outer/x": "outer", "inner/deep/x": "inner/deep"}.items():
        with pytest.raises(WorkspaceError) as caught:
            locate(root, path)
        assert caught.value.code == "path_outside_workspace"
        assert caught.value.message.endswith(f"root: {path}: {link} is a link that leads outside")
        assert ".." not in (caught.value.hint or "")


def test_only_a_path_with_dots_is_told_about_them() -> None:
    with pytest.raises(WorkspaceError) as caught:
        clean("../x")
    assert "../x: its '..' leads out" in caught.value.message
    assert "without leading '..'" in (caught.value.hint or "")


def test_an_absolute_path_in_the_root_means_that_file(tmp_path: Path) -> None:
    root = (tmp_path / "root").resolve()
    (root / "sub").mkdir(parents=True)
    (tmp_path / "name").symlink_to(root)
    (tmp_path / "part").symlink_to(root / "sub")
    for path, shown in {
        f"{root}/sub/x.txt": "sub/x.txt",
        f"/{root}//sub/./x.txt": "sub/x.txt",
        f"{root}/sub/../x.txt": "x.txt",
        f"{root}": ".",
        str(tmp_path / "name/sub/x.txt"): "sub/x.txt",
        str(tmp_path / "name"): ".",
        str(tmp_path / "part/x.txt"): "sub/x.txt",
        str(root).replace("/", "\\") + "\\x.txt": "x.txt",
        "/sub/x.txt": "sub/x.txt",
        "/new/x.txt": "new/x.txt",
        f"{root}er/x.txt": f"{root}er/x.txt"[1:],
    }.items():
        assert locate(root, path).shown == shown
    with pytest.raises(WorkspaceError) as caught:
        current_state(locate(root, f"{root}/agentengine.yaml"))
    assert caught.value.code == "protected_path"


def test_an_absolute_path_to_something_outside_is_refused_unless_the_root_has_that_path(
    tmp_path: Path,
) -> None:
    root = (tmp_path / "root").resolve()
    root.mkdir()
    outside = tmp_path.resolve() / "other.txt"
    outside.write_text("x")
    for path in (str(outside), f"{root}/../other.txt", "/etc"):
        with pytest.raises(WorkspaceError) as caught:
            locate(root, path)
        assert caught.value.code == "path_outside_workspace"
        assert path in caught.value.message
    nested = root / str(outside)[1:]
    nested.parent.mkdir(parents=True)
    nested.write_text("mine")
    assert locate(root, str(outside)).real == nested


@pytest.mark.parametrize(
    ("path", "protected"),
    [
        (".agentengine/x", True),
        (".AgentEngine", True),
        ("agentengine.yaml", True),
        ("AGENTENGINE.YAML", True),
        ("ksadk.yaml", True),
        (".git/hooks/pre-commit", True),
        (".git/hooks", True),
        (".GIT/Config", True),
        (".git", True),
        (".git/HEAD", True),
        (".git/commondir", True),
        (".git/config.worktree", True),
        (".git/info/attributes", True),
        (".git/modules/sub/hooks/post-checkout", True),
        (".git/worktrees/x/gitdir", True),
        ("sub/agentengine.yaml", False),
        ("sub/KSADK.yaml", False),
        ("sub/.AgentEngine/x", True),
        ("a/b/.agentengine", True),
        ("a/b.agentengine/x", False),
        ("src/.git/config", True),
        ("a/b/.Git/Hooks/post-merge", True),
        ("vendor/.git", True),
        ("vendor/.git/HEAD", True),
        ("vendor/.git/refs/config", True),
        (".gitignore", False),
        ("sub/.gitmodules", False),
        (".github/config", False),
    ],
)
def test_protected_places_are_told_by_their_path_from_the_root(path: str, protected: bool) -> None:
    assert is_protected(path) is protected


def test_a_link_does_not_open_a_protected_place(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".agentengine").mkdir()
    (root / "agentengine.yaml").write_text("name: x\n")
    (root / "hooks").symlink_to(".git/hooks")
    (root / "inner").symlink_to(".agentengine")
    (root / "plain.txt").symlink_to("agentengine.yaml")
    for path in ("hooks/pre-commit", "plain.txt"):
        with pytest.raises(WorkspaceError) as caught:
            current_state(locate(root, path))
        assert caught.value.code == "protected_path"
    with pytest.raises(WorkspaceError) as caught:
        locate(root, "inner/state")
    assert caught.value.code == "protected_path"


def refused(root: Path, path: str, *, follow: bool = True) -> bool:
    """Whether a tool may not change a place (with `follow` off, not delete it)."""
    try:
        check_writable_place(locate(root, path, follow=follow))
    except WorkspaceError as error:
        assert error.code == "protected_path"
        return True
    return False


def test_a_protected_place_that_is_a_link_is_closed_under_its_real_name_too(tmp_path: Path) -> None:
    root = (tmp_path / "root").resolve()
    for name in ("rg/hooks", "state/ui", "conf"):
        (root / name).mkdir(parents=True)
    (root / "conf/real.yaml").write_text("name: x\n")
    (root / ".git").symlink_to("rg")
    (root / "agentengine.yaml").symlink_to("middle.yaml")
    (root / "middle.yaml").symlink_to("conf/real.yaml")
    for path in ("rg/hooks/pre-commit", "rg/new", "rg", "conf/real.yaml", "middle.yaml", ".git", ".git/HEAD"):
        assert refused(root, path), path
        assert refused(root, path, follow=False), path
    for path in ("conf/other.yaml", "rg2/hooks/pre-commit", "state/ui/x"):
        assert not refused(root, path), path
    (root / ".agentengine").symlink_to("state")
    assert refused(root, "state/ui/x")
    assert {entry.path for entry in Walk(root).entries(root, recursive=False)} >= {"conf", "rg"}
    assert "state" not in {entry.path for entry in Walk(root).entries(root, recursive=False)}
    (root / "agentengine.yaml").unlink()
    (root / "agentengine.yaml").symlink_to("agentengine.yaml")
    assert not refused(root, "conf/real.yaml")


def test_a_bare_repository_is_one_of_gits_directories_under_any_name(tmp_path: Path) -> None:
    root = (tmp_path / "root").resolve()
    subprocess.run(["git", "init", "-q", "--bare", str(root / "a/mirror")], check=True)
    (root / "linked").mkdir()
    (root / "linked/HEAD").write_text("ref: refs/heads/main\n")
    (root / "linked/commondir").write_text("../a/mirror\n")
    for path in (
        "a/mirror/config", "a/mirror/hooks/post-receive", "a/mirror/HEAD", "a/mirror/info/attributes",
        "linked/HEAD", "linked/config.worktree",
    ):  # fmt: skip
        assert refused(root, path), path
    assert not refused(root, "a/config")
    assert refused(root / "a/mirror", "config")
    assert refused(root / "a/mirror/hooks", "pre-receive")


@pytest.mark.parametrize(
    ("there", "path"),
    [
        (("objects/", "refs/"), "evil/HEAD"),
        (("objects/", "refs/"), "evil/head"),
        (("HEAD", "refs/"), "evil/objects/info/x"),
        (("HEAD", "objects/"), "evil/refs/x"),
        (("HEAD",), "evil/commondir"),
        (("commondir",), "evil/HEAD"),
    ],
)
def test_no_write_completes_a_directory_that_git_takes_for_its_own(
    tmp_path: Path, there: tuple[str, ...], path: str
) -> None:
    root = tmp_path.resolve()
    for name in there[1:]:
        _make(root / "evil", name)
    (root / "evil").mkdir(exist_ok=True)
    assert not refused(root, path)
    _make(root / "evil", there[0])
    assert refused(root, path)


def _make(directory: Path, name: str) -> None:
    if name.endswith("/"):
        (directory / name).mkdir(parents=True)
    else:
        directory.mkdir(exist_ok=True)
        (directory / name).write_text("x")


def test_what_is_written_beside_git_never_runs(tmp_path: Path) -> None:
    root = (tmp_path / "root").resolve()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    states = ReadStates.of_session(tmp_path / "reads", "", "default")
    config = f"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch {tmp_path}/ran\n"
    writing.write_file(root, states, "evil/config", config)
    for path in ("evil/objects/x", "evil/refs/x"):
        writing.write_file(root, states, path, "")
    for path, content in {
        ".git/commondir": "../evil\n", ".git/config.worktree": config, ".git/config.lock": config,
        ".git/HEAD": "ref: refs/heads/evil\n", ".git/info/attributes": "* filter=x\n",
    }.items():  # fmt: skip
        with pytest.raises(WorkspaceError) as caught:
            writing.write_file(root, states, path, content)
        assert caught.value.code == "protected_path"
    subprocess.run(["git", "status"], cwd=root, check=True, capture_output=True)
    assert not (tmp_path / "ran").exists()


def test_the_state_of_a_nested_project_is_neither_read_nor_shown(tmp_path: Path) -> None:
    root = (tmp_path / "root").resolve()
    (root / "sub/.agentengine").mkdir(parents=True)
    (root / "sub/.agentengine/state").write_text("x")
    (root / "link").symlink_to("sub/.agentengine")
    for path in ("sub/.agentengine/state", "SUB/.AgentEngine", "link/state"):
        with pytest.raises(WorkspaceError) as caught:
            locate(root, path)
        assert caught.value.code == "protected_path"
    assert {entry.path for entry in Walk(root).entries(root, recursive=True)} == {"link", "sub"}


def test_the_programs_own_state_is_closed_also_inside_the_workspace() -> None:
    """A workspace may be the whole home directory, and approvals and rules are kept in there."""
    home = Path.home().resolve()
    for variable, name in (("XDG_STATE_HOME", "approvals.sqlite3"), ("XDG_CONFIG_HOME", "rules.yaml")):
        kept = Path(os.environ[variable]) / "agentengine" / name
        kept.parent.mkdir(parents=True)
        kept.write_text("mine")
        (home / f"link-to-{name}").symlink_to(kept)
        for path in (str(kept.relative_to(home)), f"link-to-{name}"):
            with pytest.raises(WorkspaceError) as refused:
                locate(home, path)
            assert refused.value.code == "protected_path"
    (home / "other.txt").write_text("theirs")
    seen = {entry.path for entry in Walk(home).entries(home, recursive=True)}
    assert "other.txt" in seen
    assert not any("agentengine" in path for path in seen)


def test_a_session_directory_inside_the_workspace_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path.resolve()
    monkeypatch.setenv("AGENTENGINE_UI_DIR", str(root / "ui"))
    for name in ("ui/reads/x.json", "ui/tool-results/t.txt", "ui/accounts/a/reads/y.json", "ui/workspace/f"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("mine")
    for path in ("ui/reads/x.json", "ui", "ui/workspace/f"):
        with pytest.raises(WorkspaceError) as caught:
            locate(root, path)
        assert caught.value.code == "protected_path"
    assert not [e.path for e in Walk(root).entries(root, recursive=True) if e.path.startswith("ui")]
    sessions = root / "ui"
    assert [entry.path for entry in Walk(sessions).entries(sessions, recursive=True)] == [
        "workspace", "workspace/f",
    ]  # fmt: skip
    assert locate(sessions / "workspace", "f").relative == "f"
    assert locate(sessions / "accounts/a/workspace", "f").relative == "f"


@pytest.mark.parametrize("variable", ["XDG_STATE_HOME", "XDG_CONFIG_HOME"])
def test_a_file_of_the_programs_that_is_kept_elsewhere_is_closed_there_too(
    variable: str, tmp_path: Path
) -> None:
    """Rules may be a link into a collection, and the collection may be a workspace."""
    root = (tmp_path / "dotfiles").resolve()
    root.mkdir()
    (root / "rules.yaml").write_text("rules: []\n")
    own = Path(os.environ[variable]) / "agentengine"
    own.mkdir(parents=True)
    (own / "rules.yaml").symlink_to(root / "rules.yaml")
    with pytest.raises(WorkspaceError) as refused:
        locate(root, "rules.yaml")
    assert refused.value.code == "protected_path"
    assert locate(root, "other.yaml").shown == "other.yaml"
    assert "rules.yaml" not in {entry.path for entry in Walk(root).entries(root, recursive=True)}
