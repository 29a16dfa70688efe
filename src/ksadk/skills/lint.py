"""What is wrong with skills, on which line, and how it is mended; what can be repaired for sure, repaired."""

from __future__ import annotations

import errno
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ksadk.errors import KsadkError
from ksadk.skills.errors import SkillError
from ksadk.skills.findings import MAX_FINDINGS, SKILL_MD, Finding, Findings
from ksadk.skills.loader import load_local_skill, read_skill_md
from ksadk.skills.local import Place, walk
from ksadk.skills.parsing import parse_skill_md
from ksadk.skills.publishing import contract_of, flaws
from ksadk.skills.repairs import apply

MAX_BODY_LINES = 500

_LINK = re.compile(r"\]\((?P<path>[^()\s:#?]+)(?=[)\s#?])")
_CODE = re.compile(r"^ {0,3}(```|~~~).*?^ {0,3}\1|`[^`\n]*`", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Linted:
    """A skill that was looked at. fixed: how many repairs were written to its SKILL.md."""

    path: Path
    findings: tuple[Finding, ...]
    fixed: int = 0

    @property
    def errors(self) -> int:
        """How many findings are against the specification."""
        return sum(finding.severity == "error" for finding in self.findings)


def lint(path: Path, *, fix: bool = False, publish: bool = False) -> list[Linted]:
    """Look at a skill (its directory or its SKILL.md), or at every skill below a directory.

    fix: write the repairs whose meaning is sure; every other byte stays, and no permission is guessed at.
    publish: hold each against what a public skill has to state. Raises `SkillError` where there is no skill,
    and `KsadkError` where a repair cannot be written.
    """
    return [_lint(place, fix, publish) for place in skills_at(path)]


def skills_at(path: Path) -> list[Place]:
    """The skills that a path names, also those that are not looked at. Raises `SkillError` where there is
    none."""
    if path.name == SKILL_MD and not path.is_dir():
        path = Path(os.path.abspath(path)).parent  # noqa: PTH100  # links stay
    warnings: list[str] = []
    found = list(walk(path, warnings))
    if not found:
        raise SkillError(
            warnings[0] if warnings else f"{path} holds no {SKILL_MD}",
            hint="Name a skill, or a directory of them.",
        )
    return found


def _lint(place: Place, fix: bool, publish: bool) -> Linted:
    directory = Path(place.directory)
    path = directory / SKILL_MD
    if place.problem:
        return Linted(path, (Finding("error", "unreadable", place.problem, refuses=True),))
    try:
        data = read_skill_md(directory)
    except FileNotFoundError:
        return Linted(path, (Finding("error", "unreadable", f"{SKILL_MD} is gone", refuses=True),))
    except SkillError as error:
        return Linted(path, (Finding("error", "unreadable", error.message, refuses=True),))
    name = Path(os.path.abspath(directory)).name  # noqa: PTH100  # links stay
    document = parse_skill_md(data, directory=name)
    fixed = 0
    if fix and document.edits:
        _write(path, data, apply(data.decode(), list(document.edits)).encode())
        fixed = len(document.edits)
        data = read_skill_md(directory)
        document = parse_skill_md(data, directory=name)
    if document.refusal is not None:
        return Linted(path, document.findings, fixed)
    about = Findings(data.decode())
    _look_at_body(directory, document.body, about)
    if publish:
        for point, text in flaws(contract_of(load_local_skill(directory))).items():
            how = f"write {point}: ... below metadata, or a section with the heading {point.capitalize()}"
            about.error(0, f"contract_{point}", text, how)
    return Linted(path, (*document.findings, *about.found), fixed)


def _look_at_body(directory: Path, body: str, about: Findings) -> None:
    """What is recommended of instructions, and which files they speak of that are not there."""
    lines = body.count("\n") + 1
    if not body:
        about.warning(0, "no_instructions", "there are no instructions below the fields")
    elif lines > MAX_BODY_LINES:
        message = f"the instructions have {lines:,} lines, and {MAX_BODY_LINES} are recommended at most"
        about.warning(0, "long_instructions", message, "move what is long to references/")
    paths = dict.fromkeys(match["path"] for match in _LINK.finditer(_CODE.sub("", body)))
    missing = (path for path in paths if not path.startswith("/") and not _is_inside(directory, path))
    for path in itertools.islice(missing, MAX_FINDINGS):
        message = f"the instructions speak of {path[:200]}, which is no file of the skill"
        about.warning(about.text.find(f"]({path}") + 2, "missing_file", message)
    if next(missing, None) is not None:
        about.warning(0, "more", "more files that the instructions speak of are not there")


def _is_inside(directory: Path, path: str) -> bool:
    return not os.path.normpath(path).startswith("..") and os.path.lexists(directory / path)


def _write(path: Path, old: bytes, new: bytes) -> None:
    """Put new bytes in a file's place in one step, with its mode and owner, unless it changed meanwhile."""
    status = path.lstat()
    if status.st_nlink > 1:
        raise KsadkError(f"{path} has several names, and only one would be repaired", code="hard_linked_file")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with open(descriptor, "wb") as stream:  # noqa: PTH123  # a descriptor
                stream.write(new)
                made = os.fstat(descriptor)
                if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
                    os.fchown(descriptor, status.st_uid, status.st_gid)
                os.fchmod(descriptor, status.st_mode & 0o7777)
                os.fsync(descriptor)
            if read_skill_md(path.parent) != old:
                raise KsadkError(f"{path} changed meanwhile, and was let be", code="file_modified_since_read")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        code = "no_space" if error.errno == errno.ENOSPC else "io_error"
        raise KsadkError(f"{path} cannot be repaired: {error.strerror}", code=code) from error
