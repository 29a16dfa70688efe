"""The file of `--env-file`: KEY=VALUE lines."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ksadk.errors import KsadkError

MAX_BYTES = 1024 * 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_env_file(file: str) -> dict[str, str]:
    """The variables of a file, in its order; of a name that is there twice, the last value.

    `export`, comments, and single and double quotes (over several lines too) are as in shells; `$` is a
    plain character. Errors name file and line, and never show the line, which may hold a secret.
    """
    import io

    from dotenv.parser import parse_stream

    values: dict[str, str] = {}
    for binding in parse_stream(io.StringIO(_text(file), newline="")):
        written = binding.original.string
        blank = written[: len(written) - len(written.lstrip())]
        where = f"{file}:{binding.original.line + len(blank.splitlines())}"
        if binding.error or (binding.key is not None and binding.value is None):
            raise _unusable(f"{where}: this is not KEY=VALUE, or a quote is not closed")
        if binding.key is None or binding.value is None:
            continue
        if not _NAME.fullmatch(binding.key):
            raise _unusable(f"{where}: the name of a variable is letters, digits and _")
        if "\0" in binding.value:
            raise _unusable(f"{where}: the value of {binding.key} holds a NUL byte")
        try:
            os.fsencode(binding.value)
        except UnicodeEncodeError as error:
            raise _unusable(f"{where}: this locale has no such characters for {binding.key}") from error
        values[binding.key] = binding.value
    return values


def _text(file: str) -> str:
    try:
        with Path(file).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _unusable(f"{file}: it cannot be read: {reason}") from error
    if len(data) > MAX_BYTES:
        raise _unusable(f"{file}: it is larger than {MAX_BYTES:,} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _unusable(f"{file}:{line}: it is not UTF-8") from error


def _unusable(message: str) -> KsadkError:
    return KsadkError(message, code="invalid_env_file", hint="--env-file takes lines such as KEY=VALUE.")
