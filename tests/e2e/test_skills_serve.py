"""`agentengine skills serve` as people use it: real processes, tokens, ports and signals."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest
from a2a_process import serving
from support import Run, Spawn

from ksadk.settings import Settings
from ksadk.skills.models import ContentHash
from ksadk.skills.service_client import SkillServiceClient

TOKEN = "a-token-of-this-test"


@pytest.fixture
def skills() -> Path:
    """A directory with a skill, another space with one, and one that is none."""
    place = Path("team skills")
    for name in ("diagram", "other/notes"):
        (place / name).mkdir(parents=True)
        text = f"---\nname: {Path(name).name}\ndescription: Does it\n---\nDo it.\n"
        (place / name / "SKILL.md").write_text(text)
    (place / "broken").mkdir()
    (place / "broken/SKILL.md").write_text("nothing")
    return place


def exported(said: str) -> dict[str, str]:
    """The variables of a shell that has read the lines which are shown."""
    lines = re.findall(r"^  (export .*)$", said, re.MULTILINE)
    shell = "\n".join([*lines, "env -0"])
    printed = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True, env={}).stdout
    pairs = (line.partition("=") for line in printed.split("\0"))
    return {name: value for name, _, value in pairs if name.startswith("KSADK_")}


def test_another_terminal_has_the_skills_with_the_lines_that_are_shown(skills: Path, tmp_path: Path) -> None:
    with serving(str(skills), group="skills", log=tmp_path / "log") as it:
        settings = Settings.from_env(exported(it.said()))
        assert it.told == {
            "ok": True,
            "url": it.url,
            "space_ids": ["team skills", "other"],
            "skill_count": 2,
            "token": settings.skill_service_token,
        }
        with SkillServiceClient.from_env(settings) as client:
            found = [ref for space in settings.skill_space_ids for ref in client.list_skills(space).skills]
            assert [(ref.space_id, ref.name) for ref in found] == [
                ("team skills", "diagram"), ("other", "notes"),
            ]  # fmt: skip
            for ref in found:
                assert ref.content_hash == str(ContentHash.of(client.download(ref)))
        said = it.said()
        assert "team skills/broken is not served: " in said
        assert f"serving 2 skills of team skills at {it.url} (Ctrl-C ends)" in said


def test_each_start_makes_another_token(skills: Path, tmp_path: Path) -> None:
    tokens = set()
    for _ in range(2):
        with serving(str(skills), group="skills", log=tmp_path / "log") as it:
            tokens.add(it.told["token"])
    assert len(tokens) == 2
    assert min(map(len, tokens)) >= 43


def test_a_token_of_ones_own_is_shown_nowhere(skills: Path, tmp_path: Path) -> None:
    file = tmp_path / "the token"
    file.write_text(f"{TOKEN}\n")
    with serving(str(skills), "--token-file", str(file), group="skills", log=tmp_path / "log") as it:
        assert "token" not in it.told
        assert exported(it.said())["KSADK_SKILL_SERVICE_TOKEN"] == TOKEN
        assert TOKEN not in it.said()
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert httpx.get(f"{it.url}/ListSkillSpaces", headers=headers).status_code == 200
        assert httpx.get(f"{it.url}/ListSkillSpaces").status_code == 401
    environ = {"KSADK_SKILL_SERVICE_TOKEN": TOKEN}
    with serving(str(skills), group="skills", log=tmp_path / "log2", **environ) as it:
        assert httpx.get(f"{it.url}/ListSkillSpaces", headers=headers).status_code == 200
        assert TOKEN not in it.said()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once_though_callers_stay_connected(
    number: int, skills: Path, tmp_path: Path
) -> None:
    with serving(str(skills), group="skills", log=tmp_path / "log") as it, httpx.Client() as idle:
        idle.get(f"{it.url}/ListSkillSpaces")
        port = httpx.URL(it.url).port
        with socket.create_connection(("127.0.0.1", port)) as half:
            half.sendall(b"GET /ListSkill")
            assert it.end(number) == 0


def test_ctrl_c_at_a_terminal_ends_it(skills: Path, terminal: Spawn) -> None:
    child = terminal("skills", "serve", str(skills), "--port", "0")
    child.expect(r"export KSADK_SKILL_SPACE_IDS=")
    child.sendintr()
    child.expect("\\^C")
    child.wait()
    assert child.exitstatus == 0


def test_other_machines_need_a_token_of_your_own_and_are_warned_about(
    skills: Path, agentengine: Run, tmp_path: Path
) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.com"):
        refused = agentengine("skills", "serve", str(skills), "--host", host, "--port", "0")
        assert refused.returncode == 2
        assert "needs a token of your own" in refused.stderr
    options = ("--host", "0.0.0.0")
    environ = {"KSADK_SKILL_SERVICE_TOKEN": TOKEN}
    with serving(str(skills), *options, group="skills", log=tmp_path / "log", **environ) as it:
        assert "warning: tokens and skills go to and from 0.0.0.0 unencrypted" in it.said()
        assert it.url.startswith("http://127.0.0.1:")
    options += ("--url", "https://skills.example.com")
    with serving(str(skills), *options, group="skills", log=tmp_path / "log2", **environ) as it:
        assert "warning: tokens" not in it.said()
        assert it.url == "https://skills.example.com"


REFUSED = [
    (("none",), {}, 1, "none is no directory"),
    (("team skills/diagram",), {}, 2, "is a skill, not a directory of skills"),
    (("team skills", "--token-file", "none"), {}, 2, "none: the token cannot be read"),
    (("team skills", "--token-file", "short"), {}, 2, "short holds no token"),
    (("team skills",), {"KSADK_SKILL_SERVICE_TOKEN": "tiny"}, 2, "KSADK_SKILL_SERVICE_TOKEN holds no token"),
    (
        ("team skills", "--host", "999.1.1.1"),
        {"KSADK_SKILL_SERVICE_TOKEN": TOKEN},
        8,
        "cannot be listened on",
    ),
]


@pytest.mark.parametrize(("arguments", "environ", "status", "said"), REFUSED, ids=[row[3] for row in REFUSED])
def test_what_cannot_be_served_is_said(
    arguments: tuple[str, ...],
    environ: dict[str, str],
    status: int,
    said: str,
    skills: Path,
    agentengine: Run,
) -> None:
    Path("short").write_text("short")
    refused = agentengine("skills", "serve", *arguments, "--port", "0", **environ)
    assert (refused.returncode, said in refused.stderr) == (status, True), refused.stderr
    assert "tiny" not in refused.stderr


def test_a_port_that_is_taken_is_said(skills: Path, agentengine: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = agentengine("skills", "serve", str(skills), "--port", str(taken.getsockname()[1]))
    assert refused.returncode == 8
    assert "cannot be listened on" in refused.stderr
    assert shlex.split(refused.stderr.splitlines()[-1])[0] == "hint:"
