"""`agentengine doctor`: what this program stands on, what is wrong with it, and how to mend it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import typer

from agentengine_cli import output
from agentengine_cli.base import Command
from agentengine_cli.config import setting
from ksadk.errors import KsadkError
from ksadk.sessions import project_dir
from ksadk.settings import UNREAD, Settings

if TYPE_CHECKING:
    from ksadk.a2a.space.tokens import Audience

VERSION_SECONDS = 5
MANY_SKILLS = 10
OLDEST_PYTHON = (3, 11)
PLATFORMS = {"linux": "Linux", "darwin": "macOS"}
SERVICES: dict[str, tuple[str, ...]] = {
    "model": ("model_name", "openai_base_url", "openai_api_key"),
    "knowledge base": ("kb_dataset_id",),
    "long-term memory": ("ltm_namespace",),
    "sandbox": ("sandbox_backend", "sandbox_template_id", "e2b_api_key"),
    "skills": (
        "local_skills_dir", "skill_space_ids", "public_skill_space_ids", "skill_service_url",
        "skill_service_endpoint", "skill_service_token", "skill_service_access_key",
        "skill_service_secret_key",
    ),
    "MCP": ("mcp_servers",),
    "web search": (
        "web_search_provider", "web_search_base_url", "web_search_api_key", "web_search_ksyun_key",
    ),
    "A2A Spaces": (
        "a2a_space_ids", "a2a_control_plane_url", "a2a_service_url", "a2a_service_endpoint",
        "a2a_service_token", "a2a_access_key", "a2a_secret_key",
    ),
}  # fmt: skip
"""The services by the fields that configure them."""

app = typer.Typer(rich_markup_mode=None, add_completion=False)


class Finding(NamedTuple):
    """One line: how it stands with what, and how to mend it. A fault keeps something from working."""

    name: str
    state: Literal["ok", "note", "fault"]
    found: str
    fix: str = ""


@app.command(cls=Command)
def doctor() -> None:
    """Find out what is wrong with this installation. Ends with 1 when something is.

    Looks at Python, other programs, variables, local skills, A2A Spaces, the approval mode, rule files, what
    is trusted, the store and the decision log. Nothing is changed, no service is contacted, and no secret is
    shown.

    \b
    Example:
      agentengine doctor
    """
    settings = Settings.from_env()
    findings = [finding for check in CHECKS for finding in _found(check, settings)]
    faults = sum(finding.state == "fault" for finding in findings)
    document = {"ok": not faults, "checks": [finding._asdict() for finding in findings]}
    output.show(document, lambda _: _table(findings))
    if faults:
        raise typer.Exit(output.exit_status("failed"))


def _found(check: Callable[[Settings], Iterator[Finding]], settings: Settings) -> list[Finding]:
    """What a check finds; an error that ends it is a fault too."""
    name = check.__name__.strip("_").replace("_", " ")
    findings = []
    try:
        for finding in check(settings):
            findings.append(finding)  # those before an error stay
    except KsadkError as error:
        findings.append(Finding(name, "fault", error.message, error.hint or ""))
    except OSError as error:
        findings.append(Finding(name, "fault", f"{error.filename}: {error.strerror}", "See to that file."))
    return findings


def _python(_settings: Settings) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    old = sys.version_info < OLDEST_PYTHON
    yield Finding(
        "Python", "fault" if old else "ok", f"{version}, {sys.executable}",
        f"Use Python {'.'.join(map(str, OLDEST_PYTHON))} or newer." if old else "",
    )  # fmt: skip
    name = PLATFORMS.get(sys.platform)
    yield Finding(
        "platform", "ok" if name else "note", name or f"{sys.platform}, which nothing is tested on",
        "" if name else "Use Linux or macOS.",
    )  # fmt: skip


def _package(_settings: Settings) -> Iterator[Finding]:
    from agentengine_cli import shadow

    wrong = shadow.explanation()
    place = shadow.imported_from()
    if wrong:
        yield Finding("ksadk", "fault", wrong, shadow.FIX)
    else:
        yield Finding("ksadk", "ok", f"this program's own, {place}")
    for other in shadow.foreign_distributions():
        if other.place != place:
            yield Finding(
                "ksadk", "note", f"{other.name} {other.version} has a package of that name in {other.place}",
                "Remove it, before another order of sys.path puts it first.",
            )  # fmt: skip


def _programs(_settings: Settings) -> Iterator[Finding]:
    yield _program("ripgrep", "rg", "searches use Python, which is slower", "Install ripgrep.")
    yield _program("bubblewrap", "bwrap", "the local sandbox needs it", "Install bubblewrap (Linux).")
    from ksadk.sandbox.verdicts import known

    verdict = known()
    if verdict is None:
        yield Finding("local sandbox", "note", "not tried yet", "Try it: agentengine sandbox status --probe.")
    elif verdict.works:
        yield Finding("local sandbox", "ok", "works, as of the last time that it was tried")
    elif verdict.diagnosis is not None and verdict.program:
        yield Finding("local sandbox", "fault", verdict.diagnosis.message, verdict.diagnosis.fix)


def _program(name: str, program: str, without: str, fix: str) -> Finding:
    path = shutil.which(program)
    if path is None:
        return Finding(name, "note", f"not installed; {without}", fix)
    if not Path(path).is_absolute() or Path(path).resolve().is_relative_to(Path.cwd()):
        return Finding(name, "note", f"{path} is inside this directory and is not used", fix)
    try:
        told = subprocess.run(
            [path, "--version"], capture_output=True, text=True, errors="replace", env={},
            stdin=subprocess.DEVNULL, timeout=VERSION_SECONDS, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(name, "fault", f"{path} --version failed: {error}", f"Install {name} again.")
    return Finding(name, "ok", f"{(told.splitlines() or ['it told no version'])[0]}, {path}")


def _settings(settings: Settings) -> Iterator[Finding]:
    bad = [
        (variable, shown["error"])
        for variable in Settings.variables()
        if (shown := setting(settings, variable))["error"]
    ]
    for variable, why in bad:
        yield Finding("settings", "fault", why, variable.help)
    if not bad:
        names = [name for v in Settings.variables() if (name := settings.origin(v.field)[0])]
        yield Finding("settings", "ok", f"{len(names)} set, each usable")


def _services(settings: Settings) -> Iterator[Finding]:
    for service, fields in SERVICES.items():
        by = [(field, name) for field in fields if (name := settings.origin(field)[0])]
        names = ", ".join(name for _, name in by)
        if by and all(field in UNREAD for field, _ in by):
            yield Finding(service, "note", f"{names}: set, but this release does not read it", "")
        else:
            yield Finding(service, "ok", f"configured by {names}" if by else "not configured")


def _local_skills(settings: Settings) -> Iterator[Finding]:
    """The skills of this machine, and what they are loaded by; no service is asked."""
    from ksadk.skills.catalogue import local_skills, spaces_configured
    from ksadk.skills.lock_file import LOCK_NAME, SkillLock
    from ksadk.skills.service_address import ServiceAddress
    from ksadk.toolsets.skill_trust import project_trusted

    found = local_skills(settings, project_trusted=project_trusted(), keep=False)
    told = [*found.warnings, *(f"refused: {why}" for why in found.refused)]
    for line in told[:MANY_SKILLS]:
        yield Finding("local skills", "note", line, "agentengine skills lint DIR tells more.")
    if len(told) > MANY_SKILLS:
        yield Finding(
            "local skills", "note", f"and {len(told) - MANY_SKILLS} more", "agentengine skills list"
        )
    counted = f"{len(found.entries)} can be loaded, {len(found.refused)} cannot"
    yield Finding("local skills", "ok", counted if found.configured else "there are none")
    lock = SkillLock.read(project_dir(settings) / LOCK_NAME)
    if lock is not None:
        yield Finding("skill lock", "ok", f"{LOCK_NAME} has {len(lock.skills)}; no other skill is loaded")
    if spaces_configured(settings):
        address = ServiceAddress.from_settings(settings)
        yield Finding("Skill Service", "ok", f"{address.host}, {address.mode}, not asked")


def _a2a_spaces(settings: Settings) -> Iterator[Finding]:
    """The Spaces whose agents can be called, and the tokens that say who asks; nobody is asked."""
    if not settings.a2a_space_ids:
        if settings.a2a_control_plane_url:
            yield Finding(
                "A2A Spaces", "note", "a control plane is set, and no Space",
                "KSADK_A2A_SPACE_IDS names the Spaces whose agents can be called.",
            )  # fmt: skip
        return  # the rest is told among the services
    from ksadk.a2a.space.configured import configured_space
    from ksadk.a2a.space.errors import WorkloadTokenError
    from ksadk.a2a.space.tokens import WorkloadTokens
    from ksadk.masking import without_user_info

    for space_id in settings.a2a_space_ids:
        configured_space(settings, space_id)
    at = settings.a2a_control_plane_url
    place = f"the control plane {without_user_info(at)}" if at else "the public service"
    yield Finding("A2A Spaces", "ok", f"{', '.join(settings.a2a_space_ids)} at {place}, not asked")
    tokens = WorkloadTokens(settings.a2a_token_dir)
    needed: tuple[Audience, ...] = ("a2a-registry", "a2a-task-sink", "a2a-gateway")
    if settings.a2a_enable_public_egress:
        needed += ("credential-broker",)
    for audience in needed if at else ():
        try:
            tokens.token(audience)
        except WorkloadTokenError as error:
            yield Finding("A2A Spaces", "fault", error.message, error.hint or "The platform writes it anew.")


def _approval_mode(settings: Settings) -> Iterator[Finding]:
    [variable] = (v for v in Settings.variables() if v.field == "tool_approval_mode")
    shown = setting(settings, variable)
    if shown["error"]:
        return  # among the settings
    where = f"{shown['name']} in {shown['file'] or 'the environment'}" if shown["set"] else "the default here"
    if shown["value"] == "off":
        fix = f"Unset {shown['name']}, or set it to strict."
        yield Finding("approval mode", "note", f"off, from {where}: nobody is asked about any call", fix)
    else:
        yield Finding("approval mode", "ok", f"{shown['value']}, from {where}")


def _rule_files(_settings: Settings) -> Iterator[Finding]:
    from agentengine_cli.rules import every_rule

    rules, broken = every_rule()
    mend = "Mend it; agentengine approvals rules list shows every rule."
    yield from (Finding("rules", "fault", problem, mend) for problem in broken)
    for rule in rules:
        place = f"{rule['file']}:{rule['line']}"
        if rule["state"] == "bad":
            yield Finding("rules", "fault", f"{place}: {rule['why']}", mend)
        elif rule["state"] == "ignored":
            yield Finding("rules", "note", f"{place}: {rule['why']}", "Look at it, then: agentengine trust")
        elif rule["why"]:
            yield Finding("rules", "note", f"{place}: {rule['why']}", mend)
    held = [rule for rule in rules if rule["state"] == "holds"]
    files = ", ".join(dict.fromkeys(rule["file"] for rule in held))
    if held or not (rules or broken):
        yield Finding("rules", "ok", f"{len(held)} hold, from {files}" if held else "there are none")


def _store(_settings: Settings) -> Iterator[Finding]:
    from ksadk.tools.gateway import ToolGateway

    store = ToolGateway().store
    directory, file = store.path.parent, store.path
    if not file.exists():
        above = next(path for path in file.parents if path.exists())
        writable = os.access(above, os.W_OK | os.X_OK)
        yield Finding(
            "store", "ok" if writable else "fault",
            f"{file}, made when it is first needed" if writable else f"{above} cannot be written",
            "" if writable else "Make it writable, or set XDG_STATE_HOME to another directory.",
        )  # fmt: skip
        return
    for path in (directory, *directory.rglob("*")):
        yield from _private(path)
    yield Finding("store", "ok", f"{file}, {len(store.list())} requests wait")


def _decision_log(_settings: Settings) -> Iterator[Finding]:
    from ksadk.tools.decision_log import DecisionLog
    from ksadk.tools.gateway import ToolGateway

    log = DecisionLog(ToolGateway().store)
    lines = log.check()
    found = f"{log.path}, {lines} lines" if lines else f"{log.path}, made when it is first needed"
    yield Finding("decision log", "ok", found)


def _trust(_settings: Settings) -> Iterator[Finding]:
    from ksadk.tools.trust import trusted

    yield Finding("trust", "ok", f"projects that are trusted: {len(trusted())}")


def _private(path: Path) -> Iterator[Finding]:
    """What is wrong with who may read and write a place of the user's own."""
    found = path.lstat()
    mode = 0o700 if stat.S_ISDIR(found.st_mode) else 0o600
    if found.st_uid != os.geteuid():
        yield Finding("store", "fault", f"{path} belongs to another user", f"chown it, and chmod {mode:o}.")
    elif stat.S_IMODE(found.st_mode) & 0o077:
        shown = f"{stat.S_IMODE(found.st_mode):04o}"
        yield Finding("store", "fault", f"{path} has the mode {shown}: others may use it",
                      f"chmod {mode:o} {path}")  # fmt: skip


def _terminal(settings: Settings) -> Iterator[Finding]:
    from agentengine_cli.terminal import at_terminal

    if settings.inside_tool:
        yield Finding("terminal", "note", "a tool started this: nothing is approved from here", "")
    elif at_terminal():
        yield Finding("terminal", "ok", "a person can be asked here")
    else:
        yield Finding(
            "terminal", "note", "nobody can be asked here: stdin or stderr is no terminal",
            "In scripts, use --yes, --wait-approval or --approval.",
        )  # fmt: skip


def _locale(_settings: Settings) -> Iterator[Finding]:
    encodings = {sys.stdout.encoding.lower(), sys.getfilesystemencoding().lower()}
    utf8 = encodings == {"utf-8"}
    yield Finding(
        "locale", "ok" if utf8 else "note", ", ".join(sorted(encodings)),
        "" if utf8 else "Set LC_ALL to a UTF-8 locale such as C.UTF-8.",
    )  # fmt: skip


def _completion(_settings: Settings) -> Iterator[Finding]:
    from importlib.metadata import files

    installed = (Path(str(file.locate())).resolve() for file in files("agentengine-cli") or ())
    script = next((file for file in installed if file.parts[-2:] == ("completions", "agentengine")), None)
    if script is None:
        yield Finding(
            "completion", "note", "no script was installed with this program",
            "From a checkout, load completions/agentengine.bash; see docs/setup.md.",
        )  # fmt: skip
    else:
        yield Finding("completion", "ok", f"for bash, {script}; for zsh and fish beside it")


CHECKS = (
    _python, _package, _programs, _settings, _services, _local_skills, _a2a_spaces, _approval_mode,
    _rule_files, _trust, _store, _decision_log, _terminal, _locale, _completion,
)  # fmt: skip


def _table(findings: list[Finding]) -> str:
    rows: list[tuple[str, str, str]] = []
    for finding in findings:
        rows.append((finding.state, finding.name, output.visible(finding.found)))
        if finding.fix:
            rows.append(("", "", f"fix: {output.visible(finding.fix)}"))
    return output.columns(rows, width=output.terminal_width())
