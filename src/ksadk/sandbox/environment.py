"""The variables that a command is given: few of the caller's, ours against prompts, and no secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from ksadk.sandbox.base import SandboxError

_NAMES = frozenset({"PATH", "HOME", "LANG", "TERM", "TZ"})
_PREFIXES = ("LC_", "KSADK_SAFE_")

PINNED: Mapping[str, str] = MappingProxyType({
    # Text is UTF-8, whatever this machine's locale is.
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PYTHONUTF8": "1",
    "PYTHONIOENCODING": "utf-8",
    # Nobody is there to answer a question.
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "DEBIAN_FRONTEND": "noninteractive",
    "npm_config_yes": "true",
    "npm_config_update_notifier": "false",
    "npm_config_fund": "false",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    # Nothing that runs in here approves anything.
    "KSADK_INSIDE_TOOL": "1",
})  # fmt: skip
"""What every command is given, and no caller changes."""

_LOADING = re.compile(
    r"PATH|HOME|IFS|PS[0-4]|ENV|BASH_.*|BASHOPTS|SHELLOPTS|SHELL|PROMPT_COMMAND|CDPATH|GLOBIGNORE"
    r"|_?LD_.*|DYLD_.*|GLIBC_.*|MALLOC_.*|GCONV_PATH|LOCPATH|NLSPATH|NIX_LD.*|GIO_.*|GTK_.*|OPENSSL_.*"
    r"|PYTHON.*|PIP_.*|UV_.*|VIRTUAL_ENV|CONDA_.*"
    r"|NODE_.*|(?i:npm_config_).*|PYTEST_(ADDOPTS|PLUGINS)|MYPYPATH|YARN_.*|BUN_.*|DENO_.*"
    r"|PERL.*|RUBY(OPT|LIB)|GEM_.*|BUNDLE_.*|PHPRC|PHP_INI_SCAN_DIR|LUA_(INIT|PATH|CPATH).*|TCLLIBPATH"
    r"|R_(HOME|PROFILE|ENVIRON|LIBS).*|JULIA_.*|GOFLAGS|GOROOT|GOTOOLCHAIN|CARGO_.*|RUSTC.*|RUSTFLAGS"
    r"|CLASSPATH|_?JAVA_.*|JDK_JAVA_OPTIONS|MAVEN_.*|CMAKE_.*|GRADLE_OPTS|DOTNET_.*|CORECLR_.*|MAKEFLAGS|MAKEFILES"
    r"|GIT_(?!AUTHOR_|COMMITTER_).*|GCM_.*|SSH_.*|SUDO_.*|EDITOR|VISUAL|.*PAGER|BROWSER|LESS(OPEN|CLOSE)?"
    r"|DEBIAN_FRONTEND|LANG|LC_.*|TERMINFO.*|TERMCAP|XDG_.*|TAR_OPTIONS|ZDOTDIR"
    r"|KSADK_(?!SAFE_|(WORKFLOW_PROMPT|SKILL_(WORKDIR|OUTPUT_DIR|ROOT_DIR))$).*|AGENTENGINE_.*"
)
"""Names by which a value changes which programs, libraries or files of start-up are loaded, or that are
pinned."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_variables(variables: Mapping[str, str] | None) -> dict[str, str]:
    """Variables that a caller wants a command to have. Raises `environment_refused` for those that change
    what programs load, and `SandboxError` for what is no variable."""
    found = dict(variables or {})
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise SandboxError(f"{name!r} is no variable: names and values are text")
        if not _NAME.fullmatch(name) or "\0" in value:
            raise SandboxError(
                f"{name!r} is no variable that can be set",
                hint="A name is letters, digits and _; a value holds no NUL character.",
            )
        if _LOADING.fullmatch(name):
            raise SandboxError(
                f"{name} cannot be given to a command: it decides what programs load or how they run",
                code="environment_refused",
                hint=f"Leave {name} out. To set it for one program, set it in the command itself, where it "
                "is judged with the command.",
                variable=name,
            )  # fmt: skip
    return found


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """What of this process's variables a command on this machine is given."""
    return {name: value for name, value in environ.items() if name in _NAMES or name.startswith(_PREFIXES)}


def for_command(inherited: Mapping[str, str], *variables: Mapping[str, str]) -> dict[str, str]:
    """A command's whole environment: what it inherits, what it was given (later ones win), what is pinned."""
    result = dict(inherited)
    for given in (*variables, PINNED):
        result.update(given)
    return result
