"""`agentengine doctor` says what is wrong, with its fix, and ends with 1 when something is."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from space_wire import put_tokens
from support import Run, fill, small_disk, unprivileged

from ksadk.settings import Settings

SRC = Path(__file__).resolve().parents[2] / "src"
STATE = "home/state/agentengine"


def checks(done: subprocess.CompletedProcess[str]) -> dict[str, list[dict[str, Any]]]:
    """The findings of `doctor --json` by their name."""
    document = json.loads(done.stdout)
    faults = [check for check in document["checks"] if check["state"] == "fault"]
    assert document["ok"] is not bool(faults)
    assert done.returncode == (1 if faults else 0), done.stderr
    found: dict[str, list[dict[str, Any]]] = {}
    for check in document["checks"]:
        found.setdefault(check["name"], []).append(check)
    return found


def test_a_sound_installation_has_no_fault(agentengine: Run) -> None:
    done = agentengine("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    found = checks(agentengine("doctor", "--json"))
    assert found["Python"][0]["found"].endswith(sys.executable)
    assert found["ksadk"][0] == {
        "name": "ksadk", "state": "ok", "found": f"this program's own, {SRC / 'ksadk'}", "fix": "",
    }  # fmt: skip
    assert found["approval mode"][0]["found"] == "strict, from the default here"
    assert found["rules"][0]["found"] == "there are none"
    assert found["terminal"][0]["state"] == "note"


def test_nothing_is_made_by_looking(agentengine: Run, tmp_path: Path) -> None:
    agentengine("doctor")
    assert list((tmp_path / "home").iterdir()) == []
    assert list(Path.cwd().iterdir()) == []


def test_every_fault_and_every_note_about_a_program_has_its_fix(agentengine: Run, tmp_path: Path) -> None:
    (tmp_path / STATE).mkdir(parents=True)
    (tmp_path / STATE / "approvals.sqlite3").write_bytes(b"no database at all, and long enough to be seen")
    found = checks(agentengine("doctor", "--json", KSADK_SANDBOX_TIMEOUT="x", PATH="/nowhere"))
    faults = [check for named in found.values() for check in named if check["state"] == "fault"]
    assert len(faults) >= 3
    assert [check for check in faults if not check["fix"]] == []
    assert found["ripgrep"][0]["fix"] == "Install ripgrep."


def test_a_bad_value_is_a_fault_that_names_its_variable(agentengine: Run) -> None:
    [fault] = checks(agentengine("doctor", "--json", KSADK_TOOL_APPROVAL_MODE="never"))["settings"]
    assert fault["state"] == "fault"
    assert "KSADK_TOOL_APPROVAL_MODE is 'never'" in fault["found"]


@pytest.mark.parametrize(
    ("environ", "file", "wanted"),
    [
        ({"KSADK_TOOL_APPROVAL_MODE": "ask"}, "", "ask, from KSADK_TOOL_APPROVAL_MODE in the environment"),
        ({}, "KSADK_TOOL_APPROVAL_MODE=risk\n", "strict, from KSADK_TOOL_APPROVAL_MODE in vars"),
        ({}, "KSADK_TOOL_APPROVAL_MODE=off\n",
         "off, from KSADK_TOOL_APPROVAL_MODE in vars: nobody is asked about any call"),
    ],
)  # fmt: skip
def test_the_approval_mode_is_told_with_its_origin(
    environ: dict[str, str], file: str, wanted: str, agentengine: Run
) -> None:
    Path("vars").write_text(file)
    [found] = checks(agentengine("--env-file", "vars", "doctor", "--json", **environ))["approval mode"]
    assert found["found"] == wanted
    assert found["state"] == ("note" if wanted.startswith("off") else "ok")


def test_services_are_told_by_variable_and_never_by_value(agentengine: Run) -> None:
    given = {
        name: f"hunter2-{number}"
        for number, variable in enumerate(Settings.variables())
        for name in variable.names[-1:]
        if variable.field.startswith(
            ("openai", "e2b", "a2a_service", "skill_service", "web_search_api", "mcp")
        )
    }
    done = agentengine("doctor", "--json", **given)
    assert "OPENAI_API_KEY" in done.stdout
    found = checks(done)
    services = [
        found[name][0]["found"] for name in ("model", "sandbox", "skills", "MCP", "A2A Spaces", "web search")
    ]
    assert "hunter2" not in str(services)


def test_skills_are_told_without_keeping_anything_or_asking_a_service(
    agentengine: Run, tmp_path: Path
) -> None:
    for name, more in (("good", "description: D.\n"), ("bad", "")):
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(f"---\nname: {name}\n{more}---\n")
    Path("skills.lock").write_text('{"version": 1, "skills": {}}')
    found = checks(
        agentengine(
            "doctor", "--json", KSADK_LOCAL_SKILLS_DIR=str(tmp_path / "skills"), KSADK_SKILL_SPACE_IDS="s",
            KSADK_SKILL_SERVICE_URL="http://127.0.0.1:9",
        )
    )  # fmt: skip
    refused, counted = found["local skills"]
    assert (refused["state"], str(tmp_path / "skills" / "bad") in refused["found"]) == ("note", True)
    assert counted["found"] == "1 can be loaded, 1 cannot"
    assert found["skill lock"][0]["found"] == "skills.lock has 0; no other skill is loaded"
    assert found["Skill Service"][0]["found"] == "127.0.0.1:9, direct, not asked"
    assert list((tmp_path / "home").iterdir()) == []
    [fault] = checks(agentengine("doctor", "--json", KSADK_SKILL_SPACE_IDS="s"))["local skills"][1:]
    assert (fault["state"], "KSADK_SKILL_SERVICE_ACCESS_KEY" in fault["found"]) == ("fault", True)


def test_a_rule_file_is_told_by_file_and_line(agentengine: Run, tmp_path: Path) -> None:
    rules = tmp_path / "home/config/agentengine/rules.yaml"
    rules.parent.mkdir(parents=True)
    rules.write_text("rules:\n- deny: run_command\n- allow: [\n")
    [broken] = checks(agentengine("doctor", "--json"))["rules"]
    assert broken["state"] == "fault"
    assert broken["found"].startswith(f"{rules}:")
    rules.write_text(
        "rules:\n- deny: run_command\n- allow: read_workspace_file\n  where: {path: {regex: '('}}\n"
    )
    [bad, held] = checks(agentengine("doctor", "--json"))["rules"]
    assert (bad["state"], held["state"]) == ("fault", "ok")
    assert bad["found"].startswith(f"{rules}:3: ")
    assert held["found"] == f"1 hold, from {rules}"


def test_what_an_untrusted_project_would_allow_is_noted(agentengine: Run) -> None:
    Path("agentengine.yaml").write_text("name: x\napproval:\n  rules:\n  - allow: '*'\n")
    [note] = checks(agentengine("doctor", "--json"))["rules"]
    assert (note["state"], "agentengine trust" in note["fix"]) == ("note", True)


@pytest.mark.parametrize("place", ["approvals.sqlite3", "."])
def test_a_store_that_others_may_use_is_a_fault(place: str, agentengine: Run, tmp_path: Path) -> None:
    agentengine("workspace", "write", "a", "--content", "x", "--root", ".")
    path = tmp_path / STATE / place
    assert [check["state"] for check in checks(agentengine("doctor", "--json"))["store"]] == ["ok"]
    path.chmod(path.stat().st_mode | 0o044)
    [fault, _] = checks(agentengine("doctor", "--json"))["store"]
    assert fault["state"] == "fault"
    subprocess.run(["sh", "-c", fault["fix"]], check=True)
    assert [check["state"] for check in checks(agentengine("doctor", "--json"))["store"]] == ["ok"]


def spoilt_log(state: Path, how: str) -> None:
    """A decision log, of one call, that the next cannot use."""
    log = state / "log/decisions.jsonl"
    if how == "no line fits":
        database = sqlite3.connect(state / "approvals.sqlite3")
        database.execute("DROP TABLE log_head")
        database.close()
        return
    log.unlink()
    if how == "a directory":
        log.mkdir()
    elif how == "a link":
        log.symlink_to("/dev/full")
    elif how == "a FIFO":
        os.mkfifo(log)
    else:
        log.parent.rmdir()
        log.parent.write_text("")


@pytest.mark.parametrize("how", ["a directory", "a link", "a FIFO", "a file above", "no line fits"])
def test_a_decision_log_that_cannot_be_used_is_a_fault(how: str, agentengine: Run, tmp_path: Path) -> None:
    write = ("workspace", "write", "a", "--content", "x", "--root", ".", "--yes", "--overwrite")
    assert agentengine(*write).returncode == 0
    assert checks(agentengine("doctor", "--json"))["decision log"][0]["state"] == "ok"
    spoilt_log(tmp_path / STATE, how)
    assert agentengine(*write).returncode == 8
    [fault] = checks(agentengine("doctor", "--json"))["decision log"]
    assert (fault["state"], bool(fault["fix"])) == ("fault", True)
    assert agentengine(*write).returncode == 8, "nothing was mended or made by looking"


def test_a_log_that_the_user_may_not_write_is_a_fault(agentengine: Run, tmp_path: Path) -> None:
    agentengine("workspace", "write", "a", "--content", "x", "--root", ".", "--yes")
    (tmp_path / STATE / "log/decisions.jsonl").chmod(0o400)
    done = subprocess.run(
        [*unprivileged(), sys.executable, "-m", "agentengine_cli", "doctor", "--json"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    [fault] = checks(done)["decision log"]
    assert (fault["state"], "Permission denied" in fault["found"]) == ("fault", True)


def test_a_full_disk_is_a_fault(agentengine: Run, tmp_path: Path) -> None:
    state = tmp_path / STATE
    with small_disk(state):
        assert checks(agentengine("doctor", "--json"))["decision log"][0]["state"] == "ok"
        fill(state)
        [fault] = checks(agentengine("doctor", "--json"))["decision log"]
    assert (fault["state"], "No space left" in fault["found"]) == ("fault", True)
    assert "room on its disk" in fault["fix"]


@pytest.mark.parametrize("text", ["{", '{"version": 1}', '{"version": 99, "projects": []}'])
def test_a_damaged_record_of_trust_is_a_fault(text: str, agentengine: Run, tmp_path: Path) -> None:
    assert checks(agentengine("doctor", "--json"))["trust"][0]["state"] == "ok"
    (tmp_path / STATE).mkdir(parents=True)
    (tmp_path / STATE / "trust.json").write_text(text)
    [fault] = checks(agentengine("doctor", "--json"))["trust"]
    assert (fault["state"], "trust.json" in fault["found"], bool(fault["fix"])) == ("fault", True, True)


def test_no_home_is_a_fault_and_no_crash(agentengine: Run) -> None:
    done = agentengine("doctor", "--json", HOME="", XDG_STATE_HOME="~nobody-of-this-name/x")
    assert done.stderr == ""
    assert checks(done)["store"][0]["state"] == "fault"


def test_a_search_program_inside_the_project_is_not_run(agentengine: Run) -> None:
    for name in ("rg", "bwrap"):
        Path(name).write_text("#!/bin/sh\ntouch ran\n")
        Path(name).chmod(0o755)
    found = checks(agentengine("doctor", "--json", PATH=f"{Path.cwd()}:/nowhere"))
    assert "is not used" in found["ripgrep"][0]["found"]
    assert not Path("ran").exists()


def test_a_locale_without_utf8_is_noted(agentengine: Run) -> None:
    found = checks(agentengine("doctor", "--json", PYTHONIOENCODING="latin-1"))
    assert (found["locale"][0]["state"], "C.UTF-8" in found["locale"][0]["fix"]) == ("note", True)


# Another distribution's ksadk


def distribution(place: Path, name: str, files: dict[str, str]) -> None:
    """An installed distribution of those files."""
    for file, text in files.items():
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text(text)
    info = place / f"{name.replace('-', '_')}-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def test_a_foreign_ksadk_that_comes_first_is_named(agentengine: Run, tmp_path: Path) -> None:
    distribution(
        tmp_path / "first", "ksadk", {"ksadk/__init__.py": "", "ksadk/errors.py": "class Other: ...\n"}
    )
    done = agentengine("tools", "list", PYTHONPATH=str(tmp_path / "first"))
    assert done.returncode == 1
    place = tmp_path / "first/ksadk"
    assert done.stderr.startswith(f"error: the package ksadk in {place} is not this program's, which ksadk 9")
    assert "hint: Install agentengine-cli into an environment of its own" in done.stderr


def test_a_foreign_ksadk_that_lacks_what_a_command_needs_is_named(agentengine: Run, tmp_path: Path) -> None:
    place = tmp_path / "first"
    shutil.copytree(SRC / "ksadk", place / "ksadk", ignore=shutil.ignore_patterns("__pycache__", "toolsets"))
    done = agentengine("tools", "list", PYTHONPATH=str(place))
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert done.stderr.startswith(f"error: the package ksadk in {place / 'ksadk'} is not this program's")


def test_a_foreign_ksadk_that_still_starts_is_a_fault(agentengine: Run, tmp_path: Path) -> None:
    place = tmp_path / "first"
    shutil.copytree(SRC / "ksadk", place / "ksadk", ignore=shutil.ignore_patterns("__pycache__"))
    distribution(place, "ksadk", {"ksadk/__init__.py": ""})
    done = agentengine("doctor", "--json", PYTHONPATH=str(place))
    assert checks(done)["ksadk"][0]["state"] == "fault"


def test_a_foreign_ksadk_behind_ours_is_noted(agentengine: Run, tmp_path: Path) -> None:
    distribution(tmp_path / "second", "ksadk", {"ksadk/__init__.py": ""})
    path = os.pathsep.join([str(SRC), str(tmp_path / "second")])
    ours, other = checks(agentengine("doctor", "--json", PYTHONPATH=path))["ksadk"]
    assert (ours["state"], other["state"]) == ("ok", "note")
    assert other["found"].startswith("ksadk 9 has a package of that name in ")


def test_an_overwritten_file_of_ours_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentengine_cli import shadow

    (tmp_path / "ksadk").mkdir()
    (tmp_path / "ksadk/a.py").write_text("x = 1\n")
    info = tmp_path / "agentengine_cli-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: agentengine-cli\nVersion: 9\n")
    digest = "nia_NpkRxFwkPGhBR7I_yeHc_PJX0pmhxjIBam_NM_Q"
    (info / "RECORD").write_text(f"ksadk/a.py,sha256={digest},6\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    changed = shadow.overwritten()
    (tmp_path / "ksadk/a.py").write_text("x = 2\n")
    assert (changed, shadow.overwritten()) == ([], ["ksadk/a.py"])


def test_a_bug_in_our_own_imports_still_looks_like_one(agentengine: Run, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['typer'] = None\n")
    done = agentengine("tools", "list", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_spaces_are_told_with_the_tokens_that_keep_them_from_working(
    agentengine: Run, tmp_path: Path
) -> None:
    environ = {
        "KSADK_A2A_SPACE_IDS": "space-demo",
        "KSADK_A2A_CONTROL_PLANE_URL": "http://user:s3cret@127.0.0.1:1",
        "KSADK_A2A_TOKEN_DIR": str(put_tokens(tmp_path / "tokens")),
    }
    done = agentengine("doctor", "--json", **environ)
    assert "s3cret" not in done.stdout
    assert checks(done)["A2A Spaces"][1]["state"] == "ok"
    (tmp_path / "tokens" / "a2a-gateway.jwt").chmod(0o620)
    fault = checks(agentengine("doctor", "--json", **environ))["A2A Spaces"][2]
    assert (fault["state"], "a2a-gateway.jwt" in fault["found"]) == ("fault", True)
    nowhere = agentengine("doctor", "--json", **(environ | {"KSADK_A2A_SPACE_IDS": ""}))
    assert checks(nowhere)["A2A Spaces"][1]["state"] == "note"
    [alone] = checks(agentengine("doctor", "--json", KSADK_A2A_SPACE_IDS="space-demo"))["a2a spaces"]
    assert (alone["state"], "no control plane is set" in alone["found"]) == ("fault", True)
