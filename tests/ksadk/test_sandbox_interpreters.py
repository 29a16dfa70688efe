"""The languages that a sandbox has: those of the system, and the environment of the project itself."""

from __future__ import annotations

import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from sandboxes import bubblewrap

from ksadk.sandbox import isolated
from ksadk.sandbox.base import SandboxCommandResult, SandboxError
from ksadk.sandbox.interpreters import find_python
from ksadk.sandbox.limits import MIB, Limits
from ksadk.sandbox.mounts import Layout


def run(root: Path, line: str, **options: object) -> SandboxCommandResult:
    return bubblewrap(root, **options).create_session(session_id="test").run_command(line, timeout=60)


def test_javascript_runs_under_the_usual_limits(root: Path) -> None:
    simple = "const a=[];for(let i=0;i<1e6;i++)a.push({i});console.log(a.length)"
    threads = (
        "const {Worker}=require('worker_threads');"
        "new Worker('console.log(7)',{eval:true}).on('exit',c=>console.log('exit',c))"
    )
    assert run(root, f'node -e "{simple}"').stdout == "1000000\n"
    assert run(root, f'node -e "{threads}"').stdout == "7\nexit 0\n"
    assert run(root, f'node -e "{simple}"', limits=Limits(memory_bytes=512 * MIB)).stdout == "1000000\n"


def test_python_is_always_there(root: Path) -> None:
    line = "python -c 'import sys; print(sys.version_info[0])'; python3 -m json.tool <<< '{}'"
    assert run(root, line).stdout == "3\n{}\n"


@pytest.fixture
def project(root: Path) -> Path:
    """A project with an environment of its own, in which a package is installed that refers to the source."""
    venv.create(root / ".venv", symlinks=True)
    site = next((root / ".venv/lib").glob("python3.*")) / "site-packages"
    (site / "__editable__.mine.pth").write_text(f"{root}/src\n")
    (root / "src/mine").mkdir(parents=True)
    (root / "src/mine/__init__.py").write_text("ANSWER = 42\n")
    script = root / ".venv/bin/mine"
    script.write_text(f"#!{root}/.venv/bin/python\nimport mine, sys; print(mine.ANSWER, sys.prefix)\n")
    script.chmod(0o755)
    return root


def test_a_projects_own_environment_leads(project: Path) -> None:
    result = run(project, "mine; python -c 'import sys, mine; print(sys.prefix, mine.ANSWER)'; echo $PATH")
    lines = result.stdout.splitlines()
    assert lines[:2] == [f"42 {project}/.venv", f"{project}/.venv 42"], result.stderr
    assert lines[2].startswith(f"{project}/.venv/bin:")


def test_an_environment_and_its_interpreter_are_read_only_at_their_own_paths(project: Path) -> None:
    base = Path(sys.base_prefix)
    for place in (project / ".venv/bin/python", project / ".venv/lib", base / "lib"):
        result = run(project, f"touch {place}/made {place}")
        assert result.exit_code != 0, place


def test_an_environment_that_points_elsewhere_opens_nothing(root: Path, tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere"
    (secret / "bin").mkdir(parents=True)
    (secret / "key").write_text("secret")
    (secret / "bin/python3").symlink_to(sys.executable)
    (root / ".venv/bin").mkdir(parents=True)
    for target in (secret / "bin/python3", secret / "bin/other"):
        (root / ".venv/pyvenv.cfg").write_text(f"home = {secret}/bin\n")
        link = root / ".venv/bin/python"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        assert run(root, f"cat {secret}/key; ls {secret.parent}").stdout.split() in ([], ["root"])


def test_an_interpreter_that_is_reached_by_links_is_bound_under_each_name(root: Path, tmp_path: Path) -> None:
    real = tmp_path / "versions" / "3.12.1"
    (real / "lib/python3.12").mkdir(parents=True)
    (real / "lib/python3.12/os.py").touch()
    (real / "bin").mkdir()
    (real / "bin/python3.12").touch()
    (tmp_path / "versions/3.12").symlink_to("3.12.1")
    (root / ".venv/bin").mkdir(parents=True)
    (root / ".venv/pyvenv.cfg").touch()
    (root / ".venv/bin/python").symlink_to(tmp_path / "versions/3.12/bin/python3.12")
    found = {place: source for source, place in find_python(root).directories}
    assert found == {
        str(real): str(real),
        str(tmp_path / "versions/3.12"): str(real),
        str(root / ".venv"): str(root / ".venv"),
    }


@pytest.mark.parametrize("prefix", ["/", "~"])
def test_a_home_and_the_whole_system_are_no_interpreters_directory(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    home = tmp_path / "a-home"
    (home / "lib/python3.12").mkdir(parents=True)
    (home / "lib/python3.12/os.py").touch()
    (home / "bin").mkdir()
    (home / "bin/python3").touch()
    monkeypatch.setenv("HOME", str(home))
    (root / ".venv/bin").mkdir(parents=True)
    (root / ".venv/pyvenv.cfg").touch()
    place = home / "bin/python3" if prefix == "~" else Path("/bin/python-that-is-not-there")
    (root / ".venv/bin/python").symlink_to(place)
    assert {source for source, _ in find_python(root).directories} <= {str(root / ".venv")}


def test_a_link_in_the_place_of_an_environment_is_not_followed(root: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "other", symlinks=True)
    (root / ".venv").symlink_to(tmp_path / "other")
    assert find_python(root).directories == () and find_python(root).path == ()


def test_a_project_of_many_files_runs_too(project: Path) -> None:
    for number in range(4000):
        (project / f"a-{number}").touch()
    assert run(project, "mine").stdout == f"42 {project}/.venv\n"


def test_a_link_that_is_put_in_the_place_of_what_is_just_mounted_shows_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = project.parent / "secret"
    secret.mkdir()
    bubblewrap(project)  # the probe is no part of this
    looked_at = isolated.layout

    def swapped(*arguments: Any, **options: Any) -> Layout:
        seen = looked_at(*arguments, **options)
        (project / ".venv").rename(project / "away")
        (project / ".venv").symlink_to(secret)
        return seen

    monkeypatch.setattr(isolated, "layout", swapped)
    with pytest.raises(SandboxError, match=f"not started: {project}/.venv is {secret}"):
        run(project, "true")
