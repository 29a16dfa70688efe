"""A team's skills: served in one terminal; found, read and run, once somebody says yes, from another."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from a2a_process import serving
from skill_dirs import write_skill
from support import QUESTION, Run, Spawn, ended

from ksadk.sandbox.probe import probe

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "skills"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = probe()
    if verdict.diagnosis is not None:
        pytest.skip(verdict.diagnosis.message)
    monkeypatch.setenv("KSADK_SKILL_RUNTIME_BACKEND", "bubblewrap")
    monkeypatch.setenv("KSADK_SKILL_WORKDIR", str(tmp_path / "runs"))
    monkeypatch.setenv("KSADK_SKILL_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The examples' service, and the variables of who uses it."""
    with serving(str(EXAMPLES), group="skills", log=tmp_path / "log") as it:
        yield {
            "KSADK_SKILL_SERVICE_URL": it.url,
            "KSADK_SKILL_SERVICE_TOKEN": it.told["token"],
            "KSADK_SKILL_SPACE_IDS": ",".join(it.told["space_ids"]),
        }


def test_skills_of_a_service_are_listed_found_and_read(served: dict[str, str], agentengine: Run) -> None:
    listed = json.loads(agentengine("skills", "list", "--json", **served).stdout)
    assert {skill["name"] for skill in listed["skills"]} == {"word-count", "release-notes", "meeting-minutes"}
    found = json.loads(agentengine("skills", "search", "会议纪要", "--json", **served).stdout)
    assert found["results"][0]["name"] == "meeting-minutes"
    loaded = agentengine("skills", "load", "word-count", **served)
    assert loaded.stdout.lstrip().startswith("# Word count")


def test_a_skill_of_a_service_runs_once_a_person_says_yes_and_its_artifact_comes_back(
    served: dict[str, str], terminal: Spawn
) -> None:
    Path("essay.txt").write_text("one two three two\n")
    child = terminal(
        "skills",
        "execute",
        "word-count",
        "--prompt",
        "count",
        "--input",
        "essay.txt",
        "--out",
        "counts",
        **served,
    )
    child.expect(QUESTION)
    shown = child.before or ""
    assert "skill-runtime/bubblewrap" in shown
    assert "digest: sha256:" in shown
    assert "scripts/count.py, scripts/run-workflow.sh" in shown
    assert "workflow_prompt = count" in shown
    child.send("y")
    status, printed = ended(child)
    assert status == 0, printed
    assert "essay.txt: 4 words" in printed
    assert "artifact: " in printed.splitlines()[-1]
    assert "two (2)" in Path("counts/report.md").read_text()
    assert json.loads(Path("counts/counts.json").read_text())["essay.txt"]["words"] == 4


def test_the_examples_state_what_a_public_skill_states_and_those_with_a_script_run(agentengine: Run) -> None:
    for example in sorted(EXAMPLES.iterdir()):
        linted = agentengine("skills", "lint", "--publish", str(example))
        assert linted.returncode == 0, linted.stdout + linted.stderr
    notes = "出席：小王\n决定：下周发布\n待办：写文档\n讨论了价格\n"
    done = agentengine(
        "skills", "execute", "meeting-minutes", "--prompt", notes, "--yes", "--out", ".",
        KSADK_LOCAL_SKILLS_DIR=str(EXAMPLES),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "## 决定\n\n- 下周发布\n" in Path("minutes.md").read_text("utf-8")


def test_a_no_runs_nothing(served: dict[str, str], terminal: Spawn, tmp_path: Path) -> None:
    child = terminal("skills", "execute", "word-count", "--prompt", "count", **served)
    child.expect(QUESTION)
    child.send("n")
    status, _ = ended(child)
    assert status == 7
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_skill_with_the_program(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = f"5{time.monotonic_ns() % 10**6}"
    write_skill(tmp_path / "skills", "slow", f"echo begun; sleep {seconds}")
    monkeypatch.setenv("KSADK_LOCAL_SKILLS_DIR", str(tmp_path / "skills"))
    line = [sys.executable, "-m", "agentengine_cli", "skills", "execute", "slow", "--prompt", "x", "--yes"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"begun\n"  # while it runs
        program.send_signal(number)
        assert program.wait(20) == 128 + number
    until = time.monotonic() + 10
    while running(seconds) and time.monotonic() < until:
        time.sleep(0.05)
    assert not running(seconds)
    assert not [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]


def running(seconds: str) -> bool:
    """Whether a `sleep` of so many seconds runs."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes() == f"sleep\0{seconds}\0".encode():
                return True
        except OSError:
            continue
    return False
