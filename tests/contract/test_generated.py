"""The generated files say what the code says, and a wheel brings them to where shells and man look."""

import importlib
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = {
    "bash-completion/completions/agentengine",
    "bash-completion/completions/ksadk",
    "zsh/site-functions/_agentengine",
    "fish/vendor_completions.d/agentengine.fish",
    "fish/vendor_completions.d/ksadk.fish",
    "man/man1/agentengine.1",
    "man/man1/agentengine-tools-call.1",
}


def test_the_generated_files_are_current() -> None:
    checked = subprocess.run(
        [sys.executable, "scripts/reference.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that writes the completion scripts."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("completion_scripts")


def test_no_value_that_completes_is_of_an_option_or_argument_that_is_no_more(scripts: Any) -> None:
    taken = set()
    for command in scripts.commands():
        named = [name for option in command.options for name in (option.names[0], option.metavar)]
        for name in [*named, *(argument.name for argument in command.arguments)]:
            taken |= {name, f"{command.path} {name}"}
    assert set(scripts.KINDS) - taken == set()


def test_every_kind_of_value_is_one_that_the_scripts_and_the_program_know(scripts: Any) -> None:
    from agentengine_cli.completion import LIVE

    by_the_shell = {"file", "directory", "text", "workspace", "none"}
    kinds = {kind for kind in scripts.KINDS.values() if not kind.startswith("words:")}
    assert kinds <= by_the_shell | set(LIVE)


def test_what_a_help_shows_as_one_of_a_few_words_completes(scripts: Any) -> None:
    shown = {
        (command.path, name): scripts.kind_of(command, option.names[0], option.metavar)
        for command in scripts.commands()
        for option in command.options
        for name in option.names
    }
    assert shown["a2a register", "--route"] == "words:hosted,public,vpc"
    assert shown["a2a discover", "-o"] == "words:text,json,jsonl"
    assert shown["doctor", "-o"] == "words:text,json"
    assert shown["a2a center", "--bearer-file"] == "file"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    [found] = directory.glob("*.whl")
    return found


def test_a_wheel_brings_completions_and_man_pages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    shared = {name.partition(".data/data/share/")[2] for name in names if ".data/data/share/" in name}
    assert shared >= SHARED
    pages = {f"man/man1/{page.name}" for page in (ROOT / "man").glob("*.1")}
    assert {name for name in shared if name.startswith("man/")} == pages


def test_an_installed_wheel_completes_in_bash_under_both_names(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "installed"
    venv.create(place, with_pip=False, symlinks=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed",
         "--no-warn-script-location", "--disable-pip-version-check", "--prefix", str(place), str(wheel)],
        check=True,
    )  # fmt: skip
    completions = place / "share/bash-completion/completions"
    for name in ("agentengine", "ksadk"):
        line = f"{name} tools cal"
        asked = (
            f". {completions / name}; COMP_WORDS=({line}); COMP_CWORD=2; COMP_LINE='{line}';"
            f" COMP_POINT={len(line)}; _agentengine {name} cal tools; printf '%s\\n' \"${{COMPREPLY[@]}}\";"
            f" complete -p {name}"
        )
        done = subprocess.run(["bash", "--norc", "-c", asked], capture_output=True, text=True, check=False)
        assert done.stdout.split("\n") == ["call", f"complete -F _agentengine {name}", ""], done.stderr


def test_what_is_marked_as_not_read_is_read_nowhere() -> None:
    from ksadk.settings import UNREAD, Settings

    fields = {variable.field for variable in Settings.variables()}
    assert fields >= UNREAD
    sources = [
        file.read_text("utf-8")
        for file in (ROOT / "src").rglob("*.py")
        if file.name not in ("settings.py", "doctor.py")
    ]
    words = {word for text in sources for word in re.findall(r"(?:settings|from_env\(\))\.(\w+)", text)}
    assert {field for field in UNREAD if field in words} == set()
    own = {"state_home", "config_home"}  # read in settings.py itself
    assert fields - UNREAD - words - own == set()
