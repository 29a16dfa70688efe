"""The places that decide what other programs run are after a run as they were before it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import unprivileged

from ksadk.project_files import PROTECTED_PATHS
from ksadk.sandbox.base import SandboxError
from ksadk.sandbox.guarding import guarded
from ksadk.sandbox.protected import ProtectedPlaces

HOOK = "#!/bin/sh\nexit 0\n"
CONFIG = "[core]\n\tbare = false\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with a repository and a configuration."""
    root = tmp_path / "project"
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".git/config").write_text(CONFIG)
    (root / ".git/hooks/pre-commit").write_text(HOOK)
    (root / ".git/hooks/pre-commit").chmod(0o755)
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (root / "agentengine.yaml").write_text("name: x\n")
    (root / "app.py").write_text("print(1)\n")
    return root


def shell(line: str) -> Callable[[Path], None]:
    def run(root: Path) -> None:
        subprocess.run(["bash", "-ec", line], cwd=root, check=True)

    return run


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a directory: mode, and bytes or the link's target."""
    found: dict[str, tuple[int, bytes]] = {}
    for top, directories, files in os.walk(root):
        for name in [*directories, *files]:
            path = Path(top, name)
            mode = path.lstat().st_mode
            content = b""
            if path.is_symlink():
                content = os.fsencode(path.readlink())
            elif path.is_file():
                content = path.read_bytes()
            found[str(path.relative_to(root))] = (mode, content)
    return found


CHANGES: list[tuple[str, list[tuple[str, str]]]] = [
    ("echo evil >> .git/config", [(".git/config", "changed")]),
    ("rm .git/config", [(".git/config", "deleted")]),
    ("chmod 600 .git/config", [(".git/config", "changed")]),
    ("rm .git/config; ln -s /etc/passwd .git/config", [(".git/config", "changed")]),
    ("rm .git/config; mkdir .git/config; touch .git/config/x", [(".git/config", "changed")]),
    ("rm .git/config; mkfifo .git/config", [(".git/config", "changed")]),
    ("echo x > .git/hooks/post-checkout", [(".git/hooks", "changed")]),
    ("chmod -x .git/hooks/pre-commit", [(".git/hooks", "changed")]),
    ("echo x > .git/hooks/pre-commit", [(".git/hooks", "changed")]),
    ("rm -r .git/hooks", [(".git/hooks", "deleted")]),
    ("mv .git/hooks h; mkdir .git/hooks; rm -r h", [(".git/hooks", "changed")]),
    ("rm -r .git/hooks; ln -s ../evil .git/hooks", [(".git/hooks", "changed")]),
    ("chmod 000 .git/hooks", [(".git/hooks", "changed")]),
    ("echo ../evil > .git/commondir", [(".git/commondir", "new")]),
    ("rm agentengine.yaml", [("agentengine.yaml", "deleted")]),
    ("echo tools: > ksadk.yaml", [("ksadk.yaml", "new")]),
    ("ln -s /dev/null ksadk.yaml", [("ksadk.yaml", "new")]),
    ("mkdir -p .agentengine/rules; echo allow > .agentengine/rules/x", [(".agentengine", "new")]),
    ("touch .agentengine", [(".agentengine", "new")]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "found"), CHANGES, ids=[line for line, _ in CHANGES])
def test_what_changed_is_moved_out_and_what_was_there_comes_back(
    root: Path, tmp_path: Path, line: str, found: list[tuple[str, str]]
) -> None:
    before = tree(root)
    places = ProtectedPlaces.look(root, tmp_path / "aside")
    shell(line)(root)
    assert tree(root) != before
    removed = places.check()
    assert [(item.path, item.change) for item in removed] == found
    assert tree(root) == before
    for item in removed:
        assert bool(item.moved_to) == (item.change != "deleted")
        assert not item.moved_to or os.path.lexists(item.moved_to)
    assert places.check() == []


@pytest.mark.parametrize(
    "line",
    [
        "mv .git .g; mkdir .git; echo evil > .git/config",
        "mv .git .g; ln -s .g .git",
        "mv .git .g; echo 'gitdir: .g' > .git",
        "mv .git .g; mkfifo .git",
        "rm -r .git",
        "rm -r .git; mkdir -p x/hooks; echo evil > x/config; ln -s x .git",
    ],
)
def test_a_repository_that_was_put_somewhere_else_gets_its_hooks_and_configuration_back(
    root: Path, tmp_path: Path, line: str
) -> None:
    places = ProtectedPlaces.look(root, tmp_path / "aside")
    shell(line)(root)
    assert places.check() != []
    assert not (root / ".git").is_symlink()
    assert (root / ".git/config").read_text() == CONFIG
    assert (root / ".git/hooks/pre-commit").read_text() == HOOK
    assert os.access(root / ".git/hooks/pre-commit", os.X_OK)
    assert places.check() == []


@pytest.mark.parametrize(
    "line",
    [
        "true",
        "echo 1 >> app.py; mkdir d; touch d/f",
        "echo x > .git/HEAD; mkdir -p .git/refs/heads",
        "touch .git/config agentengine.yaml",
        "mkdir -p sub/.agentengine; touch sub/agentengine.yaml",
    ],
)
def test_everything_else_may_change(root: Path, tmp_path: Path, line: str) -> None:
    places = ProtectedPlaces.look(root, tmp_path / "aside")
    shell(line)(root)
    after = tree(root)
    assert places.check() == []
    assert tree(root) == after
    assert not (tmp_path / "aside").exists()


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("git init -q .", {".git/hooks", ".git/config"}),
        ("mkdir .git; echo x > .git/config", {".git/config"}),
        ("echo 'gitdir: x' > .git", {".git"}),
        ("ln -s x .git", {".git"}),
    ],
)
def test_a_repository_that_a_command_makes_has_neither_hooks_nor_configuration(
    tmp_path: Path, line: str, paths: set[str]
) -> None:
    root = tmp_path / "plain"
    root.mkdir()
    places = ProtectedPlaces.look(root, tmp_path / "aside")
    shell(line)(root)
    assert {item.path for item in places.check()} == paths
    assert not any(os.path.lexists(root / path) for path in paths)


def test_what_a_protected_link_leads_to_is_protected_too(root: Path, tmp_path: Path) -> None:
    (root / "agentengine.yaml").rename(root / "real.yaml")
    (root / "agentengine.yaml").symlink_to("real.yaml")
    before = tree(root)
    places = ProtectedPlaces.look(root, tmp_path / "aside")
    (root / "real.yaml").write_text("allow: everything\n")
    assert [item.path for item in places.check()] == ["real.yaml"]
    assert tree(root) == before


def test_a_worktree_whose_git_is_a_file_gets_it_back(tmp_path: Path) -> None:
    root = tmp_path / "worktree"
    root.mkdir()
    (root / ".git").write_text("gitdir: /elsewhere/.git/worktrees/x\n")
    before = tree(root)
    places = ProtectedPlaces.look(root, tmp_path / "aside")
    shell("rm .git; mkdir -p .git/hooks; echo evil > .git/config; echo x > .git/hooks/post-checkout")(root)
    assert places.check() != []
    assert tree(root) == before


def test_the_programs_own_directory_stays_and_another_in_its_place_goes(root: Path, tmp_path: Path) -> None:
    (root / ".agentengine").mkdir()
    places = ProtectedPlaces.look(root, tmp_path / "aside")
    (root / ".agentengine/session").write_text("ours, and written while a command ran")
    assert places.check() == []
    shell("mv .agentengine x; mkdir .agentengine; touch .agentengine/rules")(root)
    assert [(item.path, item.change) for item in places.check()] == [(".agentengine", "changed")]
    assert not (root / ".agentengine/rules").exists()


AS_NOBODY_SPECIAL = """
import subprocess, sys
from pathlib import Path
from ksadk.sandbox.protected import ProtectedPlaces
root, aside, line = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
places = ProtectedPlaces.look(root, aside)
subprocess.run(["bash", "-ec", line], cwd=root, check=True)
print([item.path for item in places.check()])
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("echo evil > .git/config; chmod 000 .git/config .git", [".git/config"]),
        ("mkdir .git/hooks/d; chmod 000 .git/hooks/d .git/hooks", [".git/hooks"]),
        ("mv .git x; mkdir .git; cp -r x/config .git; chmod 500 .git", [".git/hooks"]),
        ("chmod 000 agentengine.yaml", ["agentengine.yaml"]),
    ],
)
def test_modes_that_keep_the_user_out_do_not_keep_it_from_being_put_back(
    root: Path, tmp_path: Path, line: str, found: list[str]
) -> None:
    done = subprocess.run(
        [*unprivileged(), sys.executable, "-c", AS_NOBODY_SPECIAL, str(root), str(tmp_path / "aside"), line],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(found)
    assert (root / ".git/config").read_text() == CONFIG
    assert (root / ".git/hooks/pre-commit").read_text() == HOOK
    assert (root / "agentengine.yaml").read_text() == "name: x\n"


def naive(root: Path, state: Path) -> contextlib.AbstractContextManager[ProtectedPlaces]:
    """Each command by itself."""
    return contextlib.nullcontext(ProtectedPlaces.look(root, state / "moved-out"))


@pytest.mark.parametrize(("variant", "config"), [(guarded, CONFIG), (naive, "evil")])
def test_what_one_command_changed_is_not_what_another_finds(
    root: Path, tmp_path: Path, variant: Any, config: str
) -> None:
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        one = first.enter_context(variant(root, tmp_path / "state"))
        (root / ".git/config").write_text("evil")
        other = second.enter_context(variant(root, tmp_path / "state"))
        one.check()
        first.close()
        other.check()
    assert (root / ".git/config").read_text() == config


HELD = """
import sys
from pathlib import Path
from ksadk.sandbox.guarding import guarded
with guarded(Path(sys.argv[1]), Path(sys.argv[2])) as guard:
    Path(sys.argv[1], ".git/config").write_text("evil")
    print("changed", flush=True)
    sys.stdin.read()
    print([item.path for item in guard.check()])
"""


@pytest.mark.parametrize("killed", [False, True])
def test_that_holds_for_commands_of_other_programs_too(root: Path, tmp_path: Path, killed: bool) -> None:
    state = tmp_path / "state"
    program = subprocess.Popen(
        [sys.executable, "-c", HELD, str(root), str(state)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout is not None and program.stdout.readline() == "changed\n"
    with guarded(root, state) as guard:
        if killed:
            program.kill()
        program.communicate("", timeout=30)
        assert [item.path for item in guard.check()] == ([".git/config"] if killed else [])
    assert (root / ".git/config").read_text() == CONFIG


def test_one_command_after_another_finds_what_the_user_changed_in_between(root: Path, tmp_path: Path) -> None:
    for content in ("mine", "mine again"):
        (root / ".git/config").write_text(content)
        with guarded(root, tmp_path / "state") as guard:
            (root / ".git/config").write_text("evil")
            assert len(guard.check()) == 1
        assert (root / ".git/config").read_text() == content


def test_what_a_killed_program_half_wrote_is_written_again(root: Path, tmp_path: Path) -> None:
    with guarded(root, tmp_path / "state"):
        pass
    [file] = (tmp_path / "state/protected").glob("*.json")
    file.write_bytes(file.read_bytes()[:-10])
    with guarded(root, tmp_path / "state") as one, guarded(root, tmp_path / "state") as other:
        (root / ".git/config").write_text("evil")
        assert [len(guard.check()) for guard in (other, one)] == [1, 0]
    assert (root / ".git/config").read_text() == CONFIG


def test_without_a_place_to_write_no_command_runs(root: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with (
        pytest.raises(SandboxError, match="no command runs where it is not checked"),
        guarded(root, tmp_path / "state"),
    ):
        raise AssertionError("it was let through")


def test_more_than_could_be_put_back_is_refused_before_the_run(root: Path, tmp_path: Path) -> None:
    for number in range(3):
        (root / f".git/hooks/{number}").write_bytes(bytes(6 * 1024 * 1024))
    with pytest.raises(SandboxError, match="more than can be put back"):
        ProtectedPlaces.look(root, tmp_path / "aside")


def test_a_tree_deeper_than_recursion_goes_to_another_file_system_too(root: Path) -> None:
    aside = Path("/dev/shm") / f"aside-{os.getpid()}"
    if not Path("/dev/shm").is_dir() or Path("/dev/shm").stat().st_dev == root.stat().st_dev:
        pytest.skip("there is no second file system")
    places = ProtectedPlaces.look(root, aside)
    shell("cd .git/hooks; for i in $(seq 1500); do mkdir d && cd d; done; mkfifo p; ln -s / l")(root)
    try:
        [item] = places.check()
        assert item.path == ".git/hooks"
        assert sorted(path.name for path in (root / ".git/hooks").iterdir()) == ["pre-commit"]
        assert Path(item.moved_to, "d/d/d").is_dir()
    finally:
        subprocess.run(["rm", "-rf", str(aside)], check=True)


STEPS = st.lists(
    st.sampled_from(
        [
            f"{verb} {path}"
            for path in [*PROTECTED_PATHS, ".git", ".git/hooks/pre-commit", "x"]
            for verb in ("rm -rf", "touch", "mkdir -p", "mkfifo", "echo evil >", "chmod 000", "chmod 700")
        ]
        + [
            f"{verb} {one} {other}"
            for verb in ("mv -T", "ln -sT", "cp -rT")
            for one in (".git", ".git/hooks", ".git/config", "agentengine.yaml", "x", ".agentengine")
            for other in (
                ".git",
                ".git/hooks",
                ".git/config",
                ".git/commondir",
                "ksadk.yaml",
                "x",
                ".agentengine",
            )
        ]
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_a_command_does_protected_places_are_as_they_were(
    root: Path, tmp_path: Path, steps: list[str]
) -> None:
    work, aside = tmp_path / "work", tmp_path / "aside"
    subprocess.run(["rm", "-rf", str(work), str(aside)], check=True)
    shutil.copytree(root, work, symlinks=True)
    places = ProtectedPlaces.look(work, aside)
    script = "\n".join(f"timeout 5 bash -c {step!r} 2>/dev/null" for step in steps)
    subprocess.run(["bash", "-c", script], cwd=work, check=False, stdin=subprocess.DEVNULL)
    places.check()
    for path in (".git/config", ".git/hooks", ".git/hooks/pre-commit", "agentengine.yaml"):
        assert not (work / path).is_symlink()
    assert (work / ".git/config").read_text() == CONFIG
    assert (work / "agentengine.yaml").read_text() == "name: x\n"
    assert [path.name for path in (work / ".git/hooks").iterdir()] == ["pre-commit"]
    assert (work / ".git/hooks/pre-commit").read_text() == HOOK
    assert not any(os.path.lexists(work / path) for path in ("ksadk.yaml", ".agentengine", ".git/commondir"))
    assert places.check() == []
