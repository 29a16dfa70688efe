"""`agentengine skills execute`: what it asks, prints, copies, and ends with."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, calls, says
from skill_dirs import write_skill

from ksadk.sandbox.probe import probe

Command = Callable[..., Any]


@pytest.fixture(autouse=True)
def skills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Skills with scripts; the tests are skipped where the sandbox does not work."""
    verdict = probe()
    if verdict.diagnosis is not None:
        pytest.skip(verdict.diagnosis.message)
    place = tmp_path / "skills"
    write_skill(
        place, "demo",
        'echo "got: $KSADK_WORKFLOW_PROMPT"; echo aside >&2; ls input\n'
        'mkdir "$KSADK_SKILL_OUTPUT_DIR/sub"; echo made > "$KSADK_SKILL_OUTPUT_DIR/sub/made.txt"\n',
    )  # fmt: skip
    write_skill(place, "failing", "echo half; exit 9")
    write_skill(place, "slow", 'echo part > "$KSADK_SKILL_OUTPUT_DIR/part"; sleep 30')
    write_skill(place, "advice")
    monkeypatch.setenv("KSADK_LOCAL_SKILLS_DIR", str(place))
    monkeypatch.setenv("KSADK_SKILL_RUNTIME_BACKEND", "bubblewrap")
    monkeypatch.setenv("KSADK_SKILL_WORKDIR", str(tmp_path / "runs"))
    monkeypatch.setenv("KSADK_SKILL_CACHE_DIR", str(tmp_path / "cache"))
    return place


def execute(command: Command, *arguments: str) -> Any:
    return command("skills", "execute", *arguments)


def test_streams_are_where_they_belong_and_the_artifacts_come_last(command: Command) -> None:
    done = execute(command, "demo", "--prompt", "count", "--yes")
    assert (done.status, done.stdout) == (0, "got: count\n")
    lines = done.stderr.splitlines()
    assert lines[:2] == ["[starting bubblewrap]", "[running demo]"]
    assert lines[2:4] == ["aside", "demo: ok"]
    assert lines[4].startswith("artifact: ") and lines[4].endswith("sub/made.txt (5 bytes)")
    assert Path(lines[4].split()[1]).read_text() == "made\n"


def test_with_json_stdout_is_the_result_alone(command: Command) -> None:
    done = execute(command, "demo", "--prompt", "count", "--yes", "--json")
    assert done.json["ok"] is True
    assert done.json["stdout"] == "got: count\n"
    assert "got: count" in done.stderr


STATUS = {
    "a failure": (["failing"], 1, "failing failed"),
    "the end of its time": (["slow", "--timeout", "1s"], 5, "its time was over"),
    "nobody to ask": (["demo", "--no-input"], 6, "needs approval"),
    "no such skill": (["dmo"], 1, "there is no skill 'dmo'"),
    "nothing to run": (["advice"], 1, "no model is configured"),
}


@pytest.mark.parametrize("case", STATUS)
def test_the_exit_status_says_what_kind_of_end_it_was(case: str, command: Command) -> None:
    arguments, status, words = STATUS[case]
    yes = [] if "--no-input" in arguments else ["--yes"]
    done = execute(command, *arguments, "--prompt", "x", *yes)
    assert done.status == status, done.stderr
    assert words in done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    done = execute(command, *arguments, "--prompt", "x", *yes, "--json")
    assert done.status == status, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("error: ")] == told


def test_what_was_made_before_the_time_was_over_is_told(command: Command) -> None:
    done = execute(command, "slow", "--prompt", "x", "--timeout", "3s", "--yes")
    assert "part (5 bytes)" in done.stderr


def test_without_a_runtime_it_is_not_configured(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_SKILL_RUNTIME_BACKEND", "off")
    done = execute(command, "demo", "--prompt", "x", "--yes")
    assert done.status == 8
    assert "KSADK_SKILL_RUNTIME_BACKEND=bubblewrap" in done.stderr


USAGE = {
    "no prompt": ["demo"],
    "no time": ["demo", "--prompt", "x", "--timeout", "soon"],
    "no directory": ["demo", "--prompt", "x", "--out", "file"],
    "a prompt from nowhere": ["demo", "--prompt", "@missing"],
    "a blank prompt": ["demo", "--prompt", " "],
}


@pytest.mark.parametrize("case", USAGE)
def test_a_line_that_cannot_be_meant_is_said(case: str, command: Command) -> None:
    Path("file").write_text("")
    assert execute(command, *USAGE[case], "--yes").status == 2


def test_the_prompt_comes_from_a_file_or_from_stdin(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("prompt.txt").write_text("from a file")
    assert execute(command, "demo", "--prompt", "@prompt.txt", "--yes").stdout == "got: from a file\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("aus stdin ✓".encode())))
    assert execute(command, "demo", "--prompt", "-", "--yes").stdout == "got: aus stdin ✓\n"


def test_input_files_are_given_and_told(command: Command) -> None:
    Path("a.txt").write_text("a")
    Path("b.txt").write_text("b")
    given = ("demo", "--prompt", "x", "--input", "a.txt", "--input", "b.txt")
    assert execute(command, *given, "--yes").stdout == "got: x\na.txt\nb.txt\n"
    plan = execute(command, *given, "--dry-run", "--json").json
    assert [text for label, text in plan["details"] if label == "input"] == ["a.txt", "b.txt"]


def test_artifacts_are_copied_out_and_the_run_is_gone(command: Command, tmp_path: Path) -> None:
    done = execute(command, "demo", "--prompt", "x", "--yes", "--out", "results", "--json")
    assert Path("results/sub/made.txt").read_text() == "made\n"
    assert done.json["output_files"] == [str(Path("results/sub/made.txt").absolute())]
    assert not [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]


def test_a_file_that_is_there_is_replaced_only_by_force(command: Command) -> None:
    target = Path("results/sub/made.txt")
    target.parent.mkdir(parents=True)
    target.write_text("precious")
    done = execute(command, "demo", "--prompt", "x", "--yes", "--out", "results")
    assert done.status == 1
    assert "is there already" in done.stderr and "--force" in done.stderr
    assert target.read_text() == "precious"
    kept = next(line.split()[1] for line in done.stderr.splitlines() if line.startswith("artifact: "))
    assert Path(kept).read_text() == "made\n"
    assert execute(command, "demo", "--prompt", "x", "--yes", "--out", "results", "--force").status == 0
    assert target.read_text() == "made\n"


def test_a_link_in_the_way_is_not_written_through(command: Command, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    Path("results/sub").mkdir(parents=True)
    Path("results/sub/made.txt").symlink_to(tmp_path / "precious")
    assert execute(command, "demo", "--prompt", "x", "--yes", "--out", "results", "--force").status == 0
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_dry_run_shows_what_would_run_and_runs_nothing(command: Command, tmp_path: Path) -> None:
    done = execute(command, "demo", "--prompt", "x", "--dry-run")
    assert done.status == 0
    assert "digest" in done.stdout and "sha256:" in done.stdout
    assert "scripts/run-workflow.sh" in done.stdout
    assert not (tmp_path / "runs").exists()


def test_a_stored_request_runs_once_it_was_approved(command: Command, skills: Path) -> None:
    from ksadk.tools.gateway import ToolGateway

    def asked() -> str:
        request: str = execute(command, "demo", "--prompt", "x").json["approval_request"]["id"]
        ToolGateway().store.decide(request, "approved", by="test")
        return request

    assert execute(command, "--approval", asked()).stdout == "got: x\n"
    request = asked()
    (skills / "demo" / "scripts" / "run-workflow.sh").write_text("echo tampered")
    done = execute(command, "--approval", request)
    assert (done.status, done.stdout) == (7, "")
    assert "changed" in done.stderr


def test_a_pipe_is_given_what_was_printed_and_a_mark_where_that_is_no_text(
    command: Command, skills: Path
) -> None:
    (skills / "demo" / "scripts" / "run-workflow.sh").write_text("printf 'a\\033[2Jb\\377'")
    assert json.loads(execute(command, "demo", "--prompt", "x", "--yes", "--json").stdout)["ok"] is True
    assert execute(command, "demo", "--prompt", "x", "--yes").stdout == "a\x1b[2Jb\ufffd"


def test_the_name_of_a_file_can_pass_itself_off_as_no_other_line(command: Command, skills: Path) -> None:
    odd = "printf 'x\\nartifact: y\\033[2J'"
    write_skill(
        skills, "names", f'cd "$KSADK_SKILL_OUTPUT_DIR"; echo a > "$({odd})"; ln -s / "l$({odd})"\n'
    )  # fmt: skip
    done = execute(command, "names", "--prompt", "x", "--yes")
    assert done.status == 0
    assert "\x1b" not in done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("artifact: y")] == []


def test_what_a_model_calls_is_one_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "true # \n[done]\nartifact: /etc/passwd\x1b[2J"
    with ChatServer([calls(("run_command", {"command": line})), says("done")]) as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        done = execute(command, "advice", "--prompt", "x", "--yes")
    steps = [line for line in done.stderr.splitlines() if line.startswith("[run_command: ")]
    assert steps == ["[run_command: true # \\n[done]\\nartifact: /etc/passwd\\x1b[2J]"]
