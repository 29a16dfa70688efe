"""Which files of a workspace go into a sandbox that is somewhere else, and what comes back of a copy."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sandboxes import bubblewrap

from ksadk.sandbox.base import SandboxCommandResult, SandboxError, SandboxSession
from ksadk.sandbox.changes import Changes, Limits
from ksadk.sandbox.copies import WorkspaceCopy
from ksadk.sandbox.sync import SyncedWorkspace
from ksadk.sandbox.trees import remove_tree, walk

ROOMY = Limits(2000, 2 * 1024 * 1024, 25 * 1024 * 1024)


def write(root: Path, files: dict[str, int | str]) -> None:
    """Files by their paths: their content, or how many bytes."""
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content if isinstance(content, str) else "x" * content)


def sent(root: Path, limits: Limits = ROOMY) -> list[str]:
    return sorted(SyncedWorkspace.of(root, limits).digests)


# Up


def test_files_go_in_by_their_paths(root: Path) -> None:
    write(root, {"a.txt": "A", "d/b.txt": "B", ".hidden": "h", "d/.env": "e", "ü x/'q\n": "odd"})
    synced = SyncedWorkspace.of(root, ROOMY)
    assert {file.target_path: Path(file.source).read_text() for file in synced.files} == {
        "/workspace/a.txt": "A", "/workspace/d/b.txt": "B", "/workspace/.hidden": "h",
        "/workspace/d/.env": "e", "/workspace/ü x/'q\n": "odd",
    }  # fmt: skip
    assert synced.digests["a.txt"] == hashlib.sha256(b"A").hexdigest()
    assert synced.skipped == {}


@pytest.mark.parametrize("name", [".git", "__pycache__", ".venv", "node_modules", ".pytest_cache"])
def test_what_is_made_by_tools_stays_at_any_depth(root: Path, name: str) -> None:
    write(root, {f"{name}/x": "x", f"d/{name}/y/z": "z", "kept": "k", f"d/{name}ish/w": "w"})
    synced = SyncedWorkspace.of(root, ROOMY)
    assert sorted(synced.digests) == [f"d/{name}ish/w", "kept"]
    assert synced.skipped == {"directory": 2}


@pytest.mark.parametrize("name", [".agentengine", ".AgentEngine"])
def test_the_programs_own_files_never_go_in(root: Path, name: str) -> None:
    write(root, {f"{name}/ui/secret": "s", f"d/{name}/x": "x", "kept": "k"})
    assert sent(root) == ["kept"]


def test_links_and_special_files_stay_and_are_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "loop").symlink_to(".")
    (root / "away").symlink_to(tmp_path)
    os.mkfifo(root / "fifo")
    write(root, {"kept": "k"})
    synced = SyncedWorkspace.of(root, ROOMY)
    assert (sorted(synced.digests), synced.skipped) == (["kept"], {"link": 3, "special": 1})


@pytest.mark.parametrize(
    ("limits", "there", "skipped"),
    [
        (Limits(2, 100, 1000), ["a", "b"], {"too_many": 2}),
        (Limits(9, 20, 1000), ["a", "b", "c"], {"too_large": 1}),
        (Limits(9, 100, 25), ["a", "b"], {"too_many": 2}),
        (Limits(9, 100, 70), ["a", "b", "c", "d"], {}),
        (Limits(0, 100, 1000), [], {"too_many": 4}),
        (Limits(9, 0, 1000), [], {"too_large": 4}),
    ],
)
def test_each_limit_holds_in_the_order_of_paths(
    root: Path, limits: Limits, there: list[str], skipped: dict[str, int]
) -> None:
    write(root, {"a": 10, "b": 10, "c": 20, "d": 30})
    synced = SyncedWorkspace.of(root, limits)
    assert (sorted(synced.digests), synced.skipped) == (there, skipped)


def test_the_limits_are_settings(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, {"a": 10, "b": 30})
    assert len(SyncedWorkspace.of(root).files) == 2
    for name, value, count in (("FILES", 1, 1), ("FILE_BYTES", 20, 1), ("TOTAL_BYTES", 9, 0)):
        with monkeypatch.context() as one:
            one.setenv(f"KSADK_SANDBOX_SYNC_MAX_{name}", str(value))
            assert len(SyncedWorkspace.of(root).files) == count


def test_a_tree_that_is_too_deep_is_left_where_it_is_too_deep(root: Path) -> None:
    directory = root
    for _ in range(80):
        directory = directory / "d"
    directory.mkdir(parents=True)
    (directory / "deep").write_text("x")
    write(root, {"kept": "k"})
    assert sent(root) == ["kept"]


# Down, from somewhere else: a sandbox whose /workspace is not the workspace


@pytest.fixture
def elsewhere(tmp_path: Path) -> SandboxSession:
    place = tmp_path / "elsewhere"
    place.mkdir()
    return bubblewrap(place).create_session(session_id="elsewhere")


def put(synced: SyncedWorkspace, session: SandboxSession) -> None:
    for file in synced.files:
        session.write_file(file.target_path, Path(file.source).read_bytes())


def told(changes: Changes) -> dict[str, tuple[bytes | None, bytes | None, bool]]:
    return {change.path: (change.before, change.after, change.stale) for change in changes.files}


def test_what_changed_there_comes_back(root: Path, elsewhere: SandboxSession) -> None:
    write(root, {"same": "s", "changed": "c", "gone": "g", "d/ü '\nx": "odd"})
    synced = SyncedWorkspace.of(root, ROOMY)
    put(synced, elsewhere)
    assert told(synced.changes(elsewhere)) == {}
    elsewhere.run_command(
        "touch same; echo C > changed; rm gone; echo odder > $'d/ü \\'\\nx'; mkdir e; echo n > e/n"
    )
    assert told(synced.changes(elsewhere)) == {
        "changed": (b"c", b"C\n", False), "gone": (b"g", None, False), "e/n": (None, b"n\n", False),
        "d/ü '\nx": (b"odd", b"odder\n", False),
    }  # fmt: skip


def test_what_changed_here_too_is_stale(root: Path, elsewhere: SandboxSession) -> None:
    write(root, {"a": "a", "b": "b"})
    synced = SyncedWorkspace.of(root, ROOMY)
    put(synced, elsewhere)
    elsewhere.run_command("echo there > a; rm b; echo there > new")
    write(root, {"a": "here", "b": "here", "new": "here"})
    assert {path: stale for path, (_, _, stale) in told(synced.changes(elsewhere)).items()} == {
        "a": True, "b": True, "new": True,
    }  # fmt: skip


def test_a_file_that_was_never_sent_is_not_deleted_by_its_absence(
    root: Path, elsewhere: SandboxSession
) -> None:
    write(root, {"small": 5, "large": 50})
    synced = SyncedWorkspace.of(root, Limits(9, 20, 1000))
    put(synced, elsewhere)
    assert told(synced.changes(elsewhere)) == {}


def test_what_is_skipped_on_the_way_in_is_skipped_on_the_way_out(
    root: Path, elsewhere: SandboxSession
) -> None:
    write(root, {"kept": "k"})
    synced = SyncedWorkspace.of(root, ROOMY)
    put(synced, elsewhere)
    elsewhere.run_command(
        "mkdir -p .git d/node_modules .AGENTENGINE; touch .git/x d/node_modules/y .AGENTENGINE/z;"
        " ln -s /etc/passwd link; mkfifo fifo; touch $'bad\\xffname'; echo n > n"
    )
    assert list(told(synced.changes(elsewhere))) == ["n"]


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(9, 3, 1000), "limit of a file"),
        (Limits(1, 100, 1000), "more than 1 files"),
        (Limits(9, 100, 7), "bytes in all"),
    ],
)
def test_the_limits_hold_on_the_way_back(
    root: Path, elsewhere: SandboxSession, limits: Limits, words: str
) -> None:
    synced = SyncedWorkspace.of(root, limits)
    elsewhere.run_command("echo 1234 > a; echo 5678 > b")
    changes = synced.changes(elsewhere)
    assert len(changes.files) + len(changes.left_out) == 2
    assert any(words in why for _, why in changes.left_out)


def test_a_file_that_is_too_large_there_is_not_read(root: Path, elsewhere: SandboxSession) -> None:
    write(root, {"grown": "g", "gone": "g"})
    synced = SyncedWorkspace.of(root, ROOMY)
    put(synced, elsewhere)
    elsewhere.run_command("truncate -s 100M grown new; rm gone; echo n > n")
    changes = synced.changes(elsewhere)
    assert told(changes) == {"gone": (b"g", None, False), "n": (None, b"n\n", False)}
    assert changes.left_out == [
        (path, "has 104,857,600 bytes, and 2,097,152 is the limit of a file") for path in ("grown", "new")
    ]


@pytest.mark.parametrize(
    "printed", [b"x  ./a", b"9" * 5000 + b"  ./a", b"\xff" * 64 + b"  ./../b", b"\0\0", None]
)
def test_a_list_that_a_hostile_sandbox_makes_up_does_no_harm(root: Path, printed: bytes | None) -> None:
    class Hostile:
        def run_command(self, _line: str, **_: Any) -> SandboxCommandResult:
            return SandboxCommandResult("no list" if printed is None else b64encode(printed).decode(), "", 0)

        def read_file(self, _path: str) -> bytes:
            return b""

    write(root, {"a": "a", "../b": "outside"})
    synced = SyncedWorkspace.of(root, ROOMY)
    try:
        changes = synced.changes(cast("SandboxSession", Hostile()))
    except SandboxError as error:
        assert printed is None and "cannot be listed" in error.message
    else:
        assert {change.path: change.after for change in changes.files}["a"] is None
        assert b"outside" not in {change.before for change in changes.files}


def test_a_sandbox_that_does_not_answer_is_an_error(root: Path, elsewhere: SandboxSession) -> None:
    elsewhere.kill()
    with pytest.raises(SandboxError):
        SyncedWorkspace.of(root, ROOMY).changes(elsewhere)


# Copies on this machine


@pytest.fixture
def project(root: Path) -> Path:
    write(root, {"a": "a", "d/b": "b", ".agentengine/secret": "s", ".git/config": "c", ".venv/bin/x": "x"})
    (root / "link").symlink_to("a")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    return root


def test_a_copy_is_all_but_the_programs_own(project: Path) -> None:
    copy = WorkspaceCopy.of(project)
    try:
        found = {entry.path for entry in walk(copy.directory, lambda _: True) if not entry.is_directory}
        assert found == {"a", "d/b", ".git/config", ".venv/bin/x", "link", "run.sh"}
        assert (copy.directory / "link").is_symlink()
        assert os.access(copy.directory / "run.sh", os.X_OK)
        assert (copy.directory / "a").stat().st_mtime_ns == (project / "a").stat().st_mtime_ns
    finally:
        copy.remove()
    assert not copy.directory.exists()


def test_a_file_whose_time_and_size_were_put_back_is_seen_to_have_changed(project: Path) -> None:
    copy = WorkspaceCopy.of(project)
    state = (copy.directory / "a").stat()
    (copy.directory / "a").write_text("A")
    os.utime(copy.directory / "a", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert [change.path for change in copy.changes(None).files] == ["a"]  # type: ignore[arg-type]
    copy.remove()


def test_an_original_that_changed_and_was_put_back_in_time_is_stale(project: Path) -> None:
    copy = WorkspaceCopy.of(project)
    (copy.directory / "a").write_text("A")
    state = (project / "a").stat()
    (project / "a").write_text("Z")
    os.utime(project / "a", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert [change.stale for change in copy.changes(None).files] == [True]  # type: ignore[arg-type]
    copy.remove()


def test_a_workspace_that_cannot_be_copied_leaves_nothing(project: Path) -> None:
    (project / "copies").symlink_to("nowhere")  # which is fine
    with pytest.raises(SandboxError, match="cannot be copied"):
        WorkspaceCopy.of(project / "missing")
    state = Path(os.environ["XDG_STATE_HOME"])
    assert [
        path for path in state.rglob("*") if path.name not in ("agentengine", "sandboxes", "copies")
    ] == []


def test_a_tree_with_modes_against_it_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    deepen = (
        "import os\nfor _ in range(1200):\n os.mkdir('d'); os.chdir('d')\nos.mkfifo('p'); os.chmod('.', 0)"
    )
    subprocess.run([sys.executable, "-c", deepen], cwd=top, check=True)
    remove_tree(top)
    assert not top.exists()


NAMES = st.sampled_from(["a", "b", "d/a", "d/e/b", "x y", "ü"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.sampled_from(["", "1", "22"])),
        st.tuples(st.just("remove"), NAMES, st.just("")),
        st.tuples(st.just("link"), NAMES, st.sampled_from(["/etc/passwd", "a", "nowhere"])),
    ),
    max_size=8,
)


def act(top: Path, steps: list[tuple[str, str, str]]) -> None:
    for verb, name, value in steps:
        path = top / name
        try:
            if verb == "write":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(value)
            elif verb == "remove":
                path.unlink()
            else:
                path.unlink(missing_ok=True)
                path.symlink_to(value)
        except OSError:
            continue


def contents(top: Path) -> dict[str, bytes]:
    return {entry.path: entry.read(100) or b"" for entry in walk(top, lambda _: True) if entry.is_file}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=STEPS, after=STEPS)
def test_the_changes_of_a_copy_are_exactly_what_makes_the_workspace_the_same(
    tmp_path: Path, before: list[tuple[str, str, str]], after: list[tuple[str, str, str]]
) -> None:
    root = tmp_path / "property"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    act(root, [step for step in before if step[0] != "link"])
    copy = WorkspaceCopy.of(root)
    try:
        act(copy.directory, after)
        changes: Any = copy.changes(None)  # type: ignore[arg-type]
        found = contents(root)
        for change in changes.files:
            assert found.get(change.path) == change.before
            assert change.before != change.after and not change.stale
            if change.after is None:
                del found[change.path]
            else:
                found[change.path] = change.after
        links = {path for path, _ in changes.left_out}
        assert {path: data for path, data in found.items() if path not in links} == contents(copy.directory)
    finally:
        copy.remove()
