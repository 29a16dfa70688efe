"""What bash really runs of a line, found out without running any program.

The lines run in an empty directory with a PATH that holds nothing, so that bash looks for each command in
vain and tells the handler of commands that are not found, which writes down the words. A line may hold no
slash: a command with one is not looked for in PATH.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

BASH = shutil.which("bash")

_DRIVER = r"""
command_not_found_handle() {
  local IFS=$'\x1f'
  local words="$*"
  printf '%s\x1e' "${words//$'\n'/$'\x1d'}" >&9  # in one write, whatever runs beside it
}
number=0
while IFS= read -r -d '' line <&8; do
  exec 9>"$RECORDS.$number"
  ( exec 8<&- </dev/null >/dev/null 2>&1; ulimit -t 2; TMOUT=1; eval "$line"; wait ) 2>/dev/null
  number=$((number + 1))
done
"""


def commands_run(lines: Sequence[str], place: Path) -> list[list[list[str]]]:
    """The words of every command that is no builtin, of each line."""
    assert BASH is not None
    assert not any("/" in line or "\0" in line for line in lines)
    here, empty = place / "here", place / "empty"
    here.mkdir()
    empty.mkdir()
    (place / "lines").write_bytes("".join(f"{line}\0" for line in lines).encode())
    with (place / "lines").open("rb") as given:
        subprocess.run(
            [BASH, "--norc", "--noprofile", "-c", f"exec 8<&0 </dev/null\n{_DRIVER}"],
            stdin=given,
            cwd=here,
            env={
                "PATH": str(empty),
                "HOME": str(here),
                "RECORDS": str(place / "record"),
                "LC_ALL": "C.UTF-8",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
            check=False,
            start_new_session=True,
        )
    return [_records(place / f"record.{number}") for number in range(len(lines))]


def _records(path: Path) -> list[list[str]]:
    records = path.read_bytes().decode("utf-8", "replace").split("\x1e")[:-1]
    return [record.replace("\x1d", "\n").split("\x1f") for record in records]
