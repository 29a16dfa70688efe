"""A run's files on their way into a sandbox that is somewhere else, and its artifacts on their way back."""

from __future__ import annotations

import io
import posixpath
import shlex
import tarfile
from pathlib import Path

from ksadk.skills.errors import SkillRuntimeError
from ksadk.skills.limits import MIB
from ksadk.skills.runtime.artifacts import MAX_DEPTH, MAX_TOTAL_BYTES, Artifacts, too_much
from ksadk.skills.runtime.base import Sandbox

_SECONDS = 120.0
_OVERHEAD_BYTES = 16 * MIB
_PACKED = "/tmp/ksadk-skill-output.tar"


def send(sandbox: Sandbox, directory: Path, target: str) -> None:
    """Put a directory into a sandbox, with its modes. Raises `SkillRuntimeError`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for entry in directory.iterdir():
            tar.add(entry, arcname=entry.name)
    # A file makes the directory, with the rights that it must have; a command of the template may not.
    carried = posixpath.join(target, ".ksadk-skill.tar")
    sandbox.write_file(carried, packed.getvalue())
    where = shlex.quote(carried)
    line = f"tar -xof {where} -C {shlex.quote(target)} && rm -f {where}"
    done = sandbox.run_command(line, timeout=_SECONDS)
    if done.exit_code != 0:
        raise SkillRuntimeError(
            f"the skill's files cannot be unpacked in the sandbox: {done.stderr.strip()}",
            code="skill_transfer_failed",
            hint="The template needs tar.",
        )


def fetch(sandbox: Sandbox, source: str, output: Path) -> Artifacts:
    """Take what is in a directory of a sandbox into `output`; returns what was left out, and why."""
    left_out = Artifacts()
    where = shlex.quote(source)
    line = f"cd {where} && tar -cf {_PACKED} . && stat -c %s {_PACKED}"
    done = sandbox.run_command(line, timeout=_SECONDS)
    size = done.stdout.strip()
    if done.exit_code != 0 or not (size.isascii() and size.isdigit()):
        left_out.leave_out("output", f"cannot be packed in the sandbox: {done.stderr.strip()[:500]}")
    elif len(size) > 15 or int(size) > MAX_TOTAL_BYTES + _OVERHEAD_BYTES:
        left_out.leave_out("output", f"has more than {MAX_TOTAL_BYTES // MIB} MiB in all")
    else:
        try:
            _unpack(sandbox.read_file(_PACKED), output, left_out)
        except (tarfile.TarError, ValueError, OverflowError) as error:  # of numbers in headers
            left_out.leave_out("output", f"came back broken: {error}")
    return left_out


def _unpack(data: bytes, output: Path, left_out: Artifacts) -> None:
    count = total = 0
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        for member in tar:
            path = posixpath.normpath(member.name)
            if member.isdir():
                continue
            content = tar.extractfile(member) if member.isreg() else None
            if content is None:
                left_out.leave_out(path, "is a link, or no regular file")
                continue
            reason = too_much(member.size, count, total) or _strange(path)
            if reason:
                left_out.leave_out(path, reason)
                continue
            count, total = count + 1, total + member.size
            _write(output / path, content.read(), left_out)


def _strange(path: str) -> str:
    if path.count("/") > MAX_DEPTH:
        return f"is more than {MAX_DEPTH} directories deep"
    inside = not posixpath.isabs(path) and ".." not in path.split("/") and "\0" not in path
    return "" if inside else "has a path that leads out of the output directory"


def _write(place: Path, data: bytes, left_out: Artifacts) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:  # nothing but regular files and directories is made there
            file.write(data)
    except OSError as error:
        left_out.leave_out(place.name, f"cannot be written: {error.strerror}")
