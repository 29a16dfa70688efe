"""`agentengine skills lock`: write down which version of each skill a project loads."""

# No `from __future__ import annotations`: Typer would have to compile each annotation again, at each start.

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentengine_cli import output
from agentengine_cli.base import Command, new_group
from ksadk.errors import KsadkError
from ksadk.sessions import project_dir

if TYPE_CHECKING:
    from ksadk.skills.lock_file import Difference, Locked

app = new_group("Lock skills.")


@app.command("lock", cls=Command)
def lock(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Only these skills; the others stay as they are locked."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 where skills are not as locked.")
    ] = False,
    project: Annotated[
        bool,
        typer.Option("--project", help="Also the project's own skills, though the project is not trusted."),
    ] = False,
) -> None:
    """Write name, version and digest of every skill into skills.lock, to be kept with the project's source.

    Each is fetched and verified. From then on a skill that is another, or that is not in the file, is not
    loaded in the project, and the error tells the difference. Without a skills.lock all are; none is looked
    for in the directories above.

    \b
    Examples:
      agentengine skills lock
      agentengine skills lock word-count
      agentengine skills lock --check
    """
    from ksadk.skills.lock_file import LOCK_NAME, SkillLock
    from ksadk.skills.locking import current_lock
    from ksadk.toolsets.skill_trust import project_trusted

    path = project_dir() / LOCK_NAME
    before = SkillLock.read(path)
    if check and before is None:
        raise KsadkError(f"{path} is not there", code="not_found", hint="agentengine skills lock writes it.")
    known = before or SkillLock({})
    found, warnings = current_lock(names or (), project_trusted=project or project_trusted())
    if names:
        found = SkillLock({**known.skills, **found.skills})
    differences = list(known.differences(found))
    if not check and (differences or before is None):
        try:
            found.write(path)
        except OSError as error:
            raise KsadkError(f"{path} cannot be written: {error.strerror}", code="io_error") from error
    for warning in warnings:
        output.say(f"warning: {output.visible(warning)}")
    document = {
        "ok": not (check and differences), "path": str(path), "warnings": list(warnings),
        "skills": [{"name": name, **_document(locked)} for name, locked in sorted(found.skills.items())],
        "differences": [_difference(difference) for difference in differences],
    }  # fmt: skip
    output.show(document, lambda _: _words(str(path), len(found.skills), differences, check=check))
    if check and differences:
        raise typer.Exit(1)


def _document(locked: "Locked") -> dict[str, Any]:
    return {"version": locked.version, "digest": locked.digest}


def _difference(difference: "Difference") -> dict[str, Any]:
    name, locked, found = difference
    return {
        "name": name,
        "locked": _document(locked) if locked else None,
        "found": _document(found) if found else None,
    }


def _words(path: str, count: int, differences: "list[Difference]", *, check: bool) -> str:
    """A line for each side of each difference, as a diff has them, and one for the whole."""
    lines = []
    for name, locked, found in differences:
        lines += [f"{mark} {name} {side}" for mark, side in (("-", locked), ("+", found)) if side]
    skills = f"{count} skill{'s' * (count != 1)}"
    if check:
        lines.append(f"not as in {path}" if differences else f"{skills}, as in {path}")
    else:
        lines.append(f"{skills} in {path}" + ("" if differences else ", unchanged"))
    return "".join(f"{output.visible(line)}\n" for line in lines)
