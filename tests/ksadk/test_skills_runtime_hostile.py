"""A script that works against its own run leaves a result, and nothing of itself."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from skill_dirs import loaded, write_skill

from ksadk.skills.runtime import transfer
from ksadk.skills.runtime.artifacts import MAX_DEPTH, Artifacts, collect
from ksadk.skills.runtime.base import SkillRuntimeResult
from ksadk.skills.runtime.run_directories import RunDirectory
from ksadk.skills.runtime.workflow import Workflow
from ksadk.skills.trees import remove
from ksadk.toolsets.skill_runtime import workflow_runtime

DIG = """python3 - "$1" <<'END'
import os, sys
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
open("bottom", "w").close()
END
"""


@pytest.fixture(params=["local_process", "bubblewrap"])
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs a script; afterwards nothing may be left of what has no artifact."""
    monkeypatch.setenv("KSADK_SKILL_WORKDIR", str(tmp_path / "runs"))
    backend = workflow_runtime(request.param)
    assert backend is not None

    def run(script: str) -> SkillRuntimeResult:
        skill = loaded(write_skill(tmp_path / "skills", "demo", script))
        return backend.run(Workflow("count this", [skill], "s", timeout=60))

    yield run
    remove(tmp_path / "runs")


def left(place: Path) -> list[str]:
    """What is in the directories of runs."""
    return sorted(entry.name for session in place.glob("*/*") for entry in session.iterdir())


HOSTILE = {
    "digs in its work": f"{DIG}",
    "digs in its output": f'cd "$KSADK_SKILL_OUTPUT_DIR"; {DIG}',
    "digs beside both": f'cd "$KSADK_SKILL_OUTPUT_DIR/.."; {DIG}',
    "puts a link in the place of its output": 'cd "$KSADK_SKILL_OUTPUT_DIR"; rmdir "$PWD"; ln -s /etc "$PWD"',
    "puts a FIFO in the place of its output": 'cd "$KSADK_SKILL_OUTPUT_DIR"; rmdir "$PWD"; mkfifo "$PWD"',
    "puts a link in the place of its work": 'cd "$KSADK_SKILL_OUTPUT_DIR/.."; rm -rf work; ln -s /etc work',
    "closes its own": 'mkdir a a/b; cd "$KSADK_SKILL_OUTPUT_DIR/.."; chmod 0 work/a/b work/a output .',
    "deletes all there is": 'cd "$KSADK_SKILL_OUTPUT_DIR/.." && rm -rf "$PWD" 2>/dev/null; true',
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_run_ends_and_is_gone_whatever_its_script_made(case: str, run: Any, tmp_path: Path) -> None:
    result = run(HOSTILE[case])
    assert (result.exit_code, result.error_type, list(result.output_files)) == (0, None, [])
    assert left(tmp_path / "runs") == []
    assert Path("/etc/passwd").exists()


def test_what_is_too_deep_is_told_and_hides_no_artifact(run: Any) -> None:
    result = run(f'cd "$KSADK_SKILL_OUTPUT_DIR"; echo kept > kept; {DIG}')
    assert [Path(file).name for file in result.output_files] == ["kept"]
    told = {"path": "/".join("d" * MAX_DEPTH), "reason": "holds directories that are more than 64 deep"}
    assert list(result.left_out) == [told]


def test_an_artifact_may_have_any_name(run: Any) -> None:
    result = run(
        'cd "$KSADK_SKILL_OUTPUT_DIR"; echo a > ..a; echo b > "$(printf \'\\033[2J\')"; echo artifact=..a'
    )
    assert [Path(file).name for file in result.output_files] == ["..a", "\x1b[2J"]
    assert result.left_out == ()


def test_as_many_announcements_as_a_script_can_print_cost_little_time(run: Any) -> None:
    began = time.monotonic()
    result = run(
        'cd "$KSADK_SKILL_OUTPUT_DIR"; for n in $(seq 1000); do : > $n; done; seq 100000 | sed s/^/artifact=/'
    )
    assert len(result.output_files) == 1000
    assert time.monotonic() - began < 15


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_what_was_closed_to_its_own_user_is_opened_again() -> None:
    place = Path(tempfile.mkdtemp())
    place.chmod(0o777)
    run = RunDirectory(place / "run")
    os.seteuid(65534)
    try:
        (run.output / "a/b").mkdir(parents=True)
        (run.output / "a/file").touch()
        (run.output / "kept").touch()
        for closed in ("output/a/b", "output/a", "output", "."):
            (run.path / closed).chmod(0)
        run.reopen()
        found = collect(run.output)
        assert (found.files, found.left_out) == (["kept"], [{"path": "a", "reason": "cannot be read"}])
        remove(run.path)
        assert list(place.iterdir()) == []
    finally:
        os.seteuid(0)
        remove(place)


def packed(name: str = "a", **fields: Any) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo(name)
        member.pax_headers = fields
        tar.addfile(member)
    return data.getvalue()


class Answers:
    """A sandbox in which a script has put its own programs in the place of others'."""

    sandbox_id = "s"

    def __init__(self, stdout: str, data: bytes) -> None:
        self.stdout, self.stderr, self.exit_code, self.timed_out = stdout, "", 0, False
        self.data = data

    def run_command(self, command: str, **how: Any) -> Answers:
        return self

    def read_file(self, path: str) -> bytes:
        return self.data

    def write_file(self, path: str, data: bytes | str) -> None:
        raise AssertionError

    def kill(self) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("stdout", "data"),
    [
        ("²", b""),
        ("9" * 5000, b""),
        ("10", b"no archive"),
        ("10", packed(**{"GNU.sparse.major": "x", "GNU.sparse.map": "x,y"})),
        ("10", packed(**{"GNU.sparse.map": "x,y", "GNU.sparse.size": "9" * 5000})),
        ("10", packed("a/" * 2000 + "f")),
    ],
    ids=["size", "huge size", "no archive", "sparse", "sparse size", "deep"],
)
def test_whatever_comes_back_from_a_sandbox_is_a_result(stdout: str, data: bytes, tmp_path: Path) -> None:
    found: Artifacts = transfer.fetch(Answers(stdout, data), "/workspace/output", tmp_path / "output")
    assert len(found.left_out) == 1
    assert not (tmp_path / "output").exists()
