"""`agentengine a2a serve` as people use it: real processes, ports, signals and restarts."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_process import EXAMPLES, Serving, serving
from support import Run

from agentengine_cli.serve_again import installed_from

AGENT = """
import asyncio
import sys
from ksadk.a2a.runners.asking import ask_async

async def leave():
    sys.exit("no such model")

async def root_agent(text: str):
    if text == "raise":
        raise RuntimeError("s3cret of the agent")
    if text == "ask":
        answer = await ask_async("which city?")
        yield f"It is {answer}"
        return
    if text == "exit":
        await asyncio.create_task(leave())
    if text.startswith("slow"):
        yield "begun"
        await asyncio.sleep(float(text.split()[1]))
    yield "version one"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "agent.py").write_text(AGENT)
    return directory


def rpc(it: Serving, method: str, params: Any, **headers: str) -> dict[str, Any]:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"A2A-Version": "1.0", **headers}
    body: dict[str, Any] = httpx.post(f"{it.url}/a2a/jsonrpc", json=call, headers=headers, timeout=20).json()
    return body


def send(it: Serving, text: str, *, wait: bool = True, **message: Any) -> dict[str, Any]:
    sent = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **message}
    body = rpc(it, "SendMessage", {"message": sent, "configuration": {"returnImmediately": not wait}})
    task: dict[str, Any] = body["result"]["task"]
    return task


def get(it: Serving, task_id: str) -> dict[str, Any]:
    task: dict[str, Any] = rpc(it, "GetTask", {"id": task_id})["result"]
    return task


def until_begun(it: Serving, task_id: str) -> None:
    deadline = time.monotonic() + 30
    while "artifacts" not in get(it, task_id):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_can_be_called_with_the_same_tool_on_any_locale(
    project: Path, agentengine: Run, tmp_path: Path
) -> None:
    with serving(
        str(EXAMPLES / "echo"), "--task-store-dsn", f"sqlite:///{tmp_path}/t.db", log=tmp_path / "log"
    ) as it:
        called = agentengine("a2a", "call", it.url, "你好 🚀", "-o", "json", LANG="C", LC_ALL="C")
        assert called.returncode == 0, called.stderr
        assert json.loads(called.stdout)["task"]["artifacts"][1]["parts"] == [{"text": "你好 🚀"}]
        assert "serving echo at" in it.said()


def test_tasks_are_kept_in_the_project_and_are_the_user_s_alone(project: Path, tmp_path: Path) -> None:
    with serving(str(project), log=tmp_path / "log") as it:
        send(it, "x")
        kept = project / ".agentengine" / "a2a_tasks.db"
        assert kept.stat().st_mode & 0o777 == 0o600


ADDRESSES = [
    (("--host", "0.0.0.0"), "http://127.0.0.1:{port}", True),
    (("--host", "::"), "http://[::1]:{port}", True),
    (("--host", "::1"), "http://[::1]:{port}", False),
    (("--host", "localhost"), "http://localhost:{port}", False),
    (("--url", "https://x.example/sub/"), "https://x.example/sub", False),
]


@pytest.mark.parametrize(("options", "expected", "warned"), ADDRESSES, ids=[str(row[0]) for row in ADDRESSES])
def test_the_card_names_an_address_that_can_be_called(
    project: Path, tmp_path: Path, options: tuple[str, ...], expected: str, warned: bool
) -> None:
    if "::" in options[1] and not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with serving(str(project), *options, log=tmp_path / "log") as it:
        port = httpx.URL(it.url).port
        card = httpx.get(f"{it.url}/.well-known/agent-card.json").json()
        urls = [entry["url"] for entry in card["supportedInterfaces"]]
        base = expected.format(port=port)
        assert urls == [f"{base}/a2a/jsonrpc", f"{base}/a2a/v1"]
        assert ("warning: " in it.said() and "firewall" in it.said()) is warned


def test_an_agent_needs_no_project(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def answer(text: str) -> str:\n    return text.upper()\n")
    with serving("--agent", "mine:answer", "--name", "upper", log=tmp_path / "log", cwd=tmp_path) as it:
        assert send(it, "abc")["artifacts"][0]["parts"] == [{"text": "ABC"}]
        assert httpx.get(f"{it.url}/.well-known/agent-card.json").json()["name"] == "upper"


def test_what_the_project_says_that_its_agent_takes_is_in_the_card_and_holds(
    project: Path, tmp_path: Path
) -> None:
    (project / "agent.py").write_text("def root_agent(call):\n    return [call.parts[0].media_type]\n")
    (project / "agentengine.yaml").write_text(
        "input_modes: [text/plain, image/*]\noutput_modes: [application/json]\n"
    )
    picture, page = ({"raw": "aGk=", "mediaType": mode} for mode in ("image/png", "text/html"))
    with serving(str(project), log=tmp_path / "log") as it:
        card = httpx.get(f"{it.url}/.well-known/agent-card.json").json()
        assert card["defaultInputModes"] == ["text/plain", "image/*"]
        assert card["defaultOutputModes"] == ["application/json"]
        assert send(it, "x", parts=[picture])["artifacts"][0]["parts"] == [{"data": ["image/png"]}]
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [page]}
        assert rpc(it, "SendMessage", {"message": message})["error"]["code"] == -32005


def test_a_project_does_not_say_that_its_agent_takes_what_it_does_not(
    project: Path, agentengine: Run
) -> None:
    (project / "agentengine.yaml").write_text("input_modes: [text/plain, image/png]\n")
    ended = agentengine("a2a", "serve", str(project), "--port", "0")
    assert ended.returncode == 1
    assert "input_modes has image/png, and the agent takes text/plain" in ended.stderr


def test_a_name_that_is_allowed_reaches_it_and_no_other(project: Path, tmp_path: Path) -> None:
    options = ("--allowed-host", "agents.example.com", "--allowed-host", "*.internal")
    with serving(str(project), *options, log=tmp_path / "log") as it:
        hosts = {"agents.example.com": 200, "a.internal:8081": 200, "127.0.0.1": 200, "evil.example": 403}
        for host, status in hosts.items():
            told = httpx.get(f"{it.url}/a2a/v1/tasks", headers={"A2A-Version": "1.0", "Host": host})
            assert told.status_code == status, host


def test_a_port_that_is_taken_is_an_error_in_words(project: Path, agentengine: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = agentengine("a2a", "serve", str(project), "--port", port)
    assert ended.returncode == 8
    assert f"127.0.0.1 port {port} cannot be listened on: Address already in use" in ended.stderr
    assert "--port 0" in ended.stderr and "Traceback" not in ended.stderr


MISUSES = [
    (("--durability", "most"), 2, "normal or full"),
    (("--log-format", "xml"), 2, "text or json"),
    (("--remote-approvals",), 2, "--bearer-file"),
    (("--bearer-file", "none"), 2, "cannot be read"),
    (("--url", "ftp://x"), 2, "https"),
    (("--url", "http://0.0.0.0:1"), 2, "to listen on, not to call"),
    (("--trusted-edge", "nobody"), 2, "an address or a network"),
    (("--allowed-host", "x.example:8081"), 2, "without scheme, port or path"),
    (("--allowed-host", "https://x.example"), 2, "without scheme, port or path"),
    (("--approve-here",), 6, "terminal"),
    (("--task-store-dsn", "sqlite:/x"), 2, ""),
    (("--agent", "agent"), 2, "'agent' is not MODULE:NAME"),
    (("--agent", "agent:"), 2, "'agent:' is not MODULE:NAME"),
]


@pytest.mark.parametrize(("options", "status", "words"), MISUSES, ids=[" ".join(row[0]) for row in MISUSES])
def test_what_cannot_be_served_is_said_at_once(
    project: Path, agentengine: Run, options: tuple[str, ...], status: int, words: str
) -> None:
    ended = agentengine("a2a", "serve", str(project), "--port", "0", *options)
    assert ended.returncode == status, ended.stderr
    assert words in ended.stderr and "Traceback" not in ended.stderr


def test_an_agent_s_exception_is_in_the_log_as_json_and_not_in_the_answer(
    project: Path, tmp_path: Path
) -> None:
    with serving(str(project), "--log-format", "json", log=tmp_path / "log") as it:
        assert "s3cret" not in str(send(it, "raise"))
        [line] = [json.loads(line) for line in it.said().splitlines() if "s3cret" in line]
        assert line["level"] == "error" and 'raise RuntimeError("s3cret' in line["traceback"]


def test_an_agent_that_exits_in_a_task_of_its_own_ends_its_task_and_not_the_server(
    project: Path, tmp_path: Path
) -> None:
    with serving(str(project), log=tmp_path / "log") as it:
        waits = send(it, "ask")
        assert send(it, "exit")["status"]["state"] == "TASK_STATE_FAILED"
        assert send(it, "hi")["status"]["state"] == "TASK_STATE_COMPLETED"
        assert send(it, "Oslo", taskId=waits["id"])["status"]["state"] == "TASK_STATE_COMPLETED"
        assert "SystemExit: no such model" in it.said()
        assert it.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_first_signal_lets_an_agent_finish(project: Path, tmp_path: Path, number: int) -> None:
    with serving(str(project), log=tmp_path / "log") as it:
        task = send(it, "slow 1", wait=False)
        until_begun(it, task["id"])
        assert it.end(number) == 0
    with serving(str(project), log=tmp_path / "log") as it:
        assert get(it, task["id"])["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_stream_ends_with_its_task_when_the_server_stops(project: Path, tmp_path: Path) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "slow 30"}]}
    with serving(str(project), "--grace", "0.2", log=tmp_path / "log") as it:
        url, headers = f"{it.url}/a2a/v1/message:stream", {"A2A-Version": "1.0"}
        with httpx.stream("POST", url, json={"message": message}, headers=headers, timeout=20) as response:
            lines = (line for line in response.iter_lines() if line.startswith("data:"))
            while "begun" not in next(lines):
                pass
            it.process.terminate()
            last = json.loads(list(lines)[-1].removeprefix("data:"))
        assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_FAILED"
        assert it.process.wait(20) == 0


def test_who_follows_a_task_that_asks_does_not_keep_the_server_from_stopping(
    project: Path, tmp_path: Path
) -> None:
    with serving(str(project), log=tmp_path / "log") as it:
        asked = send(it, "ask")
        url, headers = f"{it.url}/a2a/v1/tasks/{asked['id']}:subscribe", {"A2A-Version": "1.0"}
        with httpx.stream("GET", url, headers=headers, timeout=20) as response:
            lines = response.iter_lines()
            assert "INPUT_REQUIRED" in next(lines)
            begun = time.monotonic()
            it.process.terminate()
            assert not [line for line in lines if line.startswith("data:")]
        assert it.process.wait(20) == 0 and time.monotonic() - begun < 15


def test_a_second_signal_ends_at_once_and_no_task_works_for_ever(project: Path, tmp_path: Path) -> None:
    with serving(str(project), "--grace", "60", log=tmp_path / "log") as it:
        task = send(it, "slow 30", wait=False)
        until_begun(it, task["id"])
        it.process.terminate()
        time.sleep(0.3)
        assert it.process.poll() is None
        assert it.end(signal.SIGINT) == 130
    with serving(str(project), log=tmp_path / "log") as it:
        told = get(it, task["id"])["status"]
        assert told["state"] == "TASK_STATE_FAILED" and "stopped before" in str(told["message"])


def test_after_a_kill_nothing_that_was_told_is_lost_or_stuck(project: Path, tmp_path: Path) -> None:
    with serving(str(project), log=tmp_path / "log") as it:
        finished, asked = send(it, "x"), send(it, "ask")
        working = send(it, "slow 30", wait=False)
        assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        it.end(signal.SIGKILL)
    with serving(str(project), log=tmp_path / "log") as it:
        assert get(it, finished["id"]) == finished
        assert get(it, working["id"])["status"]["state"] == "TASK_STATE_FAILED"
        lost = get(it, asked["id"])["status"]  # a function that waits is gone with its process
        assert lost["state"] == "TASK_STATE_FAILED" and "cannot go on" in str(lost["message"])


def test_a_question_is_answered_with_the_task_only(project: Path, tmp_path: Path) -> None:
    with serving(str(project), log=tmp_path / "log") as it:
        asked = send(it, "ask")
        answered = send(it, "Paris", taskId=asked["id"])
        assert answered["contextId"] == asked["contextId"]
        assert answered["artifacts"][0]["parts"] == [{"text": "It is Paris"}]


def test_with_a_bearer_file_nobody_else_is_served(project: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("ann " + "a" * 32 + "\n")
    with serving(str(project), "--bearer-file", str(tokens), log=tmp_path / "log") as it:
        params = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}}
        refused = httpx.post(f"{it.url}/a2a/v1/message:send", json=params, headers={"A2A-Version": "1.0"})
        assert refused.status_code == 401
        assert "result" in rpc(it, "SendMessage", params, Authorization="Bearer " + "a" * 32)


def test_reload_serves_changed_source_at_the_same_address(project: Path, tmp_path: Path) -> None:
    with serving(str(project), "--reload", log=tmp_path / "log") as it:
        assert send(it, "x")["artifacts"][0]["parts"] == [{"text": "version one"}]
        (project / "agent.py").write_text(AGENT.replace("version one", "version two"))
        deadline = time.monotonic() + 60
        while True:
            assert time.monotonic() < deadline, it.said()
            try:
                if "version two" in str(send(it, "x")):
                    break
            except (httpx.TransportError, KeyError):  # the one is going, and the other coming
                pass
            time.sleep(0.1)
        assert it.end(signal.SIGTERM) == 0


def test_a_project_s_own_python_is_used_or_the_command_is_said(project: Path, tmp_path: Path) -> None:
    environment = project / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    with serving(str(project), log=tmp_path / "log") as it:
        said = it.said()
        assert f"{environment}/bin/python -m pip install {installed_from()}" in said
        assert f"{environment}/bin/python -m agentengine_cli a2a serve" in said
    places = [place for place in sys.path if place.endswith("site-packages")]
    [packages] = (environment / "lib").glob("python*/site-packages")
    source = Path(__file__).resolve().parents[2] / "src"
    (packages / "all.pth").write_text("\n".join([*places, str(source)]))
    (project / "agent.py").write_text(
        "import sys\n\ndef root_agent(text: str) -> str:\n    return sys.prefix\n"
    )
    with serving(str(project), log=tmp_path / "log2") as it:
        assert send(it, "x")["artifacts"][0]["parts"] == [{"text": str(environment)}]
