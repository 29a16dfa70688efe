"""What other hosts make of a skill: they are really run, and told apart from ours."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from ksadk.skills import compat, compat_hosts
from ksadk.skills.compat import Compared, Verdict, compare, hosts
from ksadk.skills.errors import SkillError
from ksadk.skills.loader import LocalSkill

MODULES = {"skills-ref": "skills_ref", "google-adk": "google.adk", "deepagents": "deepagents"}


def installed(host: str) -> bool:
    try:
        return importlib.util.find_spec(MODULES[host]) is not None
    except ModuleNotFoundError:
        return False


def write(directory: Path, text: str) -> Path:
    directory.mkdir()
    (directory / "SKILL.md").write_bytes(text.encode())
    return directory


def of(skill: Path) -> Compared:
    (compared,) = compare(skill)
    return compared


def told(skill: Path) -> dict[str, tuple[bool, tuple[str, ...]]]:
    """By host that is installed: whether it loads the skill, and in what it differs."""
    return {found.host: (found.loads, found.differs) for found in of(skill).verdicts if found.version}


def expected(**hosts_: tuple[bool, tuple[str, ...]]) -> dict[str, tuple[bool, tuple[str, ...]]]:
    every = {"skills-ref": hosts_["ref"], "google-adk": hosts_["adk"], "deepagents": hosts_["deep"]}
    return {host: verdict for host, verdict in every.items() if installed(host)}


AGREED = (True, ())
NOT_TAKEN = (False, ())


def test_the_hosts_are_those_that_the_extra_and_the_frameworks_install() -> None:
    assert set(hosts()) == set(MODULES)
    assert any(map(installed, hosts()))


def test_a_plain_skill_is_taken_by_every_host(tmp_path: Path) -> None:
    text = "---\nname: demo\ndescription: Does it.\nallowed-tools: Read Bash(git:*)\n---\n\nDo it.\n"
    skill = write(tmp_path / "demo", text)
    assert of(skill).agreed
    assert told(skill) == expected(ref=AGREED, adk=AGREED, deep=AGREED)


HYPHENS = "---\nname: demo\ndescription: Turns a --- rule into more\n---\nDo it.\n"


def test_a_skill_that_two_hosts_cut_short_is_told(tmp_path: Path) -> None:
    cut = (True, ("description", "body"))
    assert told(write(tmp_path / "demo", HYPHENS)) == expected(ref=cut, adk=cut, deep=AGREED)


def test_a_skill_that_other_hosts_do_not_take_is_told_with_their_words(tmp_path: Path) -> None:
    skill = write(tmp_path / "demo", "\ufeff---\nname: demo\ndescription: Does it.\n---\nDo it.\n")
    compared = of(skill)
    assert isinstance(compared.ours, LocalSkill)
    verdicts = {found.host: (found.loads, found.differs) for found in compared.verdicts if found.version}
    assert verdicts == expected(ref=NOT_TAKEN, adk=NOT_TAKEN, deep=NOT_TAKEN)
    assert all(verdict.problems for verdict in compared.verdicts if verdict.version)


def test_a_skill_that_nobody_takes_is_told_too(tmp_path: Path) -> None:
    compared = of(write(tmp_path / "demo", "# Nothing\n"))
    assert isinstance(compared.ours, SkillError)
    assert not any(verdict.loads for verdict in compared.verdicts)


def test_no_host_is_sent_to_what_blocks_or_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "skills/fifo").mkdir(parents=True)
    os.mkfifo(tmp_path / "skills/fifo/SKILL.md")
    linked = write(tmp_path / "linked", "---\nname: linked\ndescription: Does it.\n---\n")
    (tmp_path / "skills/link").symlink_to(linked)
    compared = {found.directory.name: found for found in compare(tmp_path / "skills")}
    assert "no regular file" in str(compared["fifo"].ours)
    assert "it is a link" in str(compared["link"].ours)
    assert not any(found.verdicts or found.agreed for found in compared.values())


STRANGE = '''
import json, os, pathlib, sys, time
host, directory, result = sys.argv[1:]
if host == "broken":
    raise SystemExit("it cannot start")
if host == "slow":
    time.sleep(60)
problems = [repr(dict(os.environ))]
pathlib.Path(result).write_text(json.dumps({"version": "1", "loads": False, "problems": problems}))
'''  # fmt: skip


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A skill, and hosts of the test's own: real processes, as those of others are."""
    script = tmp_path / "hosts.py"
    script.write_text(STRANGE)
    monkeypatch.setattr(compat_hosts, "__file__", str(script))
    return write(tmp_path / "demo", "---\nname: demo\ndescription: Does it.\n---\n")


def only(host: str, skill: Path, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    monkeypatch.setattr(compat_hosts, "HOSTS", {host: None})
    (verdict,) = of(skill).verdicts
    return verdict


def test_a_host_that_breaks_or_never_ends_is_told(strange: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert only("broken", strange, monkeypatch).problems == ("it broke: it cannot start",)
    monkeypatch.setattr(compat, "SECONDS", 1)
    assert only("slow", strange, monkeypatch).problems == ("it did not answer within 1 s",)


def test_a_host_is_given_no_secret(strange: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    (problem,) = only("curious", strange, monkeypatch).problems
    assert "PATH" in problem
    assert "sk-secret" not in problem


def test_a_host_that_is_not_installed_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skill = write(tmp_path / "demo", "---\nname: demo\ndescription: Does it.\n---\n")
    monkeypatch.setattr(compat_hosts, "HOSTS", {"no-such-host-of-skills": None})
    assert of(skill).verdicts == (Verdict("no-such-host-of-skills"),)
