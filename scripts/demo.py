"""The main job, shown for real: an Agent Card, a risky call that is stopped, shown, approved and run, and an
agent that is served and called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pexpect
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict

AGENTENGINE = str(Path(sys.executable).parent / "agentengine")
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        state = {**os.environ, "XDG_STATE_HOME": str(work / "state"), "XDG_CONFIG_HOME": str(work / "config")}
        project = work / "project"
        project.mkdir()
        show_card(project, state)
        show_approval(project, state)
        show_nobody_there(project, state)
        show_serving(work, state)
    print("\nThat is the main job. README.md goes on from here.")


def show_card(project: Path, environ: dict[str, str]) -> None:
    title("1. An A2A 1.0 Agent Card, parsed by the official SDK")
    command = [
        "a2a", "card", ".", "--url", "https://agent.example.com", "--name", "research-agent",
        "--description", "Answers research questions.", "--skill", "research",
    ]  # fmt: skip
    printed = run(command, project, environ)
    card = ParseDict(json.loads(printed.stdout), AgentCard())
    print(f"\nThe SDK reads it: {card.name}, {len(card.supported_interfaces)} interfaces, no unknown field.")


def show_approval(project: Path, environ: dict[str, str]) -> None:
    title("2. A risky call: stopped, shown, approved at the prompt, and run")
    file = project / "f.txt"
    file.write_text("one\ntwo\nthree\n")
    run(["workspace", "read", "f.txt", "--root", "."], project, environ)
    command = ["workspace", "edit", "f.txt", "--old", "two", "--new", "2", "--root", "."]
    say(command)
    terminal = pexpect.spawn(
        AGENTENGINE,
        command,
        cwd=str(project),
        env=environ,
        encoding="utf-8",
        dimensions=(40, 100),
        timeout=30,
    )
    terminal.logfile_read = sys.stdout
    terminal.expect("approve\\? ")
    assert file.read_text() == "one\ntwo\nthree\n", "nothing is written before the answer"
    terminal.send("y")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0, terminal.exitstatus
    assert file.read_text() == "one\n2\nthree\n"
    print(f"\nf.txt is now {file.read_text()!r}.")


def show_nobody_there(project: Path, environ: dict[str, str]) -> None:
    title("3. The same without a terminal: nobody is there to ask, so nothing runs")
    command = ["workspace", "edit", "f.txt", "--old", "2", "--new", "two", "--root", "."]
    ended = run(command, project, environ, expect=6)
    request = json.loads(ended.stdout)["approval_request"]["id"]
    print(f"\nExit status {ended.returncode}. In a project of yours, {request} would now wait for")
    print("`agentengine approvals approve` in another terminal; this one goes with the demo's directory.")


def show_serving(work: Path, environ: dict[str, str]) -> None:
    title("4. An agent served over A2A, called over both bindings, streamed, and canceled")
    serve = ["a2a", "serve", str(EXAMPLES / "echo"), "--port", "0"]
    serve += ["--task-store-dsn", f"sqlite:///{work}/tasks.db"]
    say(serve)
    with (work / "serve.log").open("w") as log:
        server = subprocess.Popen(
            [AGENTENGINE, *serve, "-o", "json"], cwd=work, env=environ, stdout=subprocess.PIPE, stderr=log
        )
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        print(f"serving echo at {url}")
        for binding in ("JSONRPC", "HTTP+JSON"):
            run(["a2a", "call", url, f"hello over {binding}", "--transport", binding], work, environ)
        run(["a2a", "call", url, "think, then speak 你好 🚀", "--stream"], work, environ)
        started = run(
            ["a2a", "call", url, "slow words that nobody waits for", "--async", "-o", "json"], work, environ
        )
        task = json.loads(started.stdout)["task"]["id"]
        canceled = run(["a2a", "cancel", task, "-a", url, "-o", "json"], work, environ)
        assert json.loads(canceled.stdout)["status"]["state"] == "TASK_STATE_CANCELED"
    finally:
        server.terminate()
        server.wait(30)


def run(
    command: list[str], cwd: Path, environ: dict[str, str], expect: int = 0
) -> subprocess.CompletedProcess[str]:
    say(command)
    ended = subprocess.run(
        [AGENTENGINE, *command],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    print(ended.stdout, end="")
    assert ended.returncode == expect, ended.stderr
    return ended


def say(command: list[str]) -> None:
    print("\n$ agentengine " + " ".join(f'"{word}"' if " " in word else word for word in command), flush=True)


def title(text: str) -> None:
    print(f"\n== {text} ==")


if __name__ == "__main__":
    main()
