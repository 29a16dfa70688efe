"""Which variables a command is given, and which a caller may not set."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ksadk.sandbox.base import SandboxError
from ksadk.sandbox.environment import PINNED, allowed, check_variables, for_command

REFUSED = [
    "PATH",
    "HOME",
    "IFS",
    "ENV",
    "BASH_ENV",
    "BASH_FUNC_ls",
    "BASHOPTS",
    "SHELLOPTS",
    "PS4",
    "PROMPT_COMMAND",
    "CDPATH",
    "SHELL",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES",
    "GLIBC_TUNABLES",
    "MALLOC_CHECK_",
    "GCONV_PATH",
    "LOCPATH",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONBREAKPOINT",
    "PIP_INDEX_URL",
    "UV_INDEX_URL",
    "VIRTUAL_ENV",
    "NODE_OPTIONS",
    "NODE_PATH",
    "npm_config_script_shell",
    "npm_config_registry",
    "NPM_CONFIG_NODE_OPTIONS",
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "MYPYPATH",
    "MAVEN_ARGS",
    "CMAKE_TOOLCHAIN_FILE",
    "XDG_CONFIG_HOME",
    "TAR_OPTIONS",
    "ZDOTDIR",
    "PERL5OPT",
    "PERL5LIB",
    "PERL5DB",
    "RUBYOPT",
    "RUBYLIB",
    "GEM_PATH",
    "BUNDLE_GEMFILE",
    "PHPRC",
    "LUA_INIT",
    "LUA_PATH",
    "TCLLIBPATH",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "CLASSPATH",
    "DOTNET_STARTUP_HOOKS",
    "CORECLR_PROFILER",
    "GOFLAGS",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "MAKEFLAGS",
    "OPENSSL_CONF",
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_PAGER",
    "GIT_EXTERNAL_DIFF",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_0",
    "GIT_EXEC_PATH",
    "GIT_DIR",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "SSH_AUTH_SOCK",
    "SUDO_ASKPASS",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "LANG",
    "LC_ALL",
    "TERMINFO",
    "KSADK_INSIDE_TOOL",
    "KSADK_TOOL_APPROVAL_MODE",
    "AGENTENGINE_UI_DIR",
]

TAKEN = [
    "A",
    "FOO",
    "my_var",
    "DEBUG",
    "CI",
    "NO_COLOR",
    "TERM",
    "TZ",
    "PORT",
    "DATABASE_URL",
    "HTTP_PROXY",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "KSADK_SAFE_NAME",
    "MODE",
    "LOG_LEVEL",
    "PYTEST_ADDOPTS_NOT",
    "COLUMNS",
    "R_VALUE",
    "LUA_VALUE",
    "LESSON",
    "PATHS",
    "HOMEPAGE",
]


@pytest.mark.parametrize("name", REFUSED)
def test_a_variable_that_loads_or_is_pinned_is_refused(name: str) -> None:
    with pytest.raises(SandboxError, match=name) as caught:
        check_variables({"A": "1", name: "x"})
    assert caught.value.code == "environment_refused"
    assert caught.value.details["variable"] == name


@pytest.mark.parametrize("name", TAKEN)
def test_another_variable_is_taken(name: str) -> None:
    assert check_variables({name: "x y\n"}) == {name: "x y\n"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("", "x"), ("A=B", "x"), ("1A", "x"), ("A B", "x"), ("A\0", "x"), ("A", "x\0"), ("Ä", "x")],
)
def test_what_is_no_variable_is_an_error(name: str, value: str) -> None:
    with pytest.raises(SandboxError, match="no variable"):
        check_variables({name: value})


@pytest.mark.parametrize("given", [{"A": 1}, {1: "a"}, {"A": None}])
def test_names_and_values_are_text(given: dict[str, str]) -> None:
    with pytest.raises(SandboxError, match="text"):
        check_variables(given)


def test_what_is_pinned_cannot_be_given() -> None:
    taken = [name for name in PINNED if not refused(name)]
    assert taken == []


def refused(name: str) -> bool:
    try:
        check_variables({name: "x"})
    except SandboxError:
        return True
    return False


def test_few_variables_of_this_process_are_passed_on() -> None:
    given = dict.fromkeys([*REFUSED, *TAKEN, "LC_TIME", "AWS_SECRET_ACCESS_KEY", "UV_TOKEN"], "x")
    assert set(allowed(given)) == {
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_TIME",
        "TERM",
        "TZ",
        "KSADK_SAFE_NAME",
    }


def test_later_variables_win_and_pinned_ones_always() -> None:
    found = for_command({"A": "1", "B": "1", "LANG": "zh_CN.GBK"}, {"A": "2"}, {"A": "3"})
    assert (found["A"], found["B"], found["LANG"]) == ("3", "1", "C.UTF-8")


def test_bash_loads_nothing_by_what_is_passed_on(tmp_path: Path) -> None:
    marker, script = tmp_path / "marker", tmp_path / "script"
    script.write_text(f"touch {marker}\n")
    hostile = dict.fromkeys(("BASH_ENV", "ENV", "PROMPT_COMMAND", "PYTHONSTARTUP"), str(script))
    subprocess.run(["bash", "-c", "true"], env={**os.environ, **hostile}, check=True)
    assert marker.exists(), "a shell that is given these runs the script"
    marker.unlink()
    environment = for_command(allowed({**os.environ, **hostile}))
    subprocess.run(["bash", "-c", "true"], env=environment, check=True)
    assert not marker.exists()
