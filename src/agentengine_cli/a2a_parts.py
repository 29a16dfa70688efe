"""The parts of a message, as options say them, in the order in which they were given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer

from agentengine_cli.calls import MAX_INPUT_BYTES, read_text

PART_OPTIONS = ("text", "file", "data", "media_type")


def parts_of(message: str | None, given: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """The parts of a message as A2A's JSON writes them: the message's text first, then what options gave."""
    parts: list[dict[str, Any]] = []
    if message is not None:
        parts.append({"text": read_text("-") if message == "-" else message})
    bound = False
    for option, value in given:
        if option == "media_type":
            if not bound:
                raise typer.BadParameter(
                    "no --text, --file or --data is before it", param_hint="--media-type"
                )
            parts[-1]["mediaType"] = value
        else:
            parts.append(_MAKERS[option](value))
        bound = option != "media_type"
    if not parts:
        raise typer.BadParameter(
            "there is no message: give one, or --text, --file or --data", param_hint="MESSAGE"
        )
    return parts


def in_order(names: Iterable[str], values: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Each option of a part with its value, in the order of the command line."""
    left = {name: iter(items) for name, items in values.items()}
    for name in names:
        if name in left:
            yield name, next(left[name])


def told(parts: Iterable[dict[str, Any]]) -> str:
    """The message as rules and the log see it: its texts, and the names of what else it holds."""
    return "\n".join(
        part.get("text") or part.get("url") or f"[{part.get('filename') or 'data'}]" for part in parts
    )


def _text(value: str) -> dict[str, Any]:
    return {"text": value}


def _file(value: str) -> dict[str, Any]:
    import mimetypes
    from base64 import b64encode

    if value.startswith(("http://", "https://")):
        name = Path(urlsplit(value).path).name
        part: dict[str, Any] = {"url": value}
    else:
        name = Path(value).name
        try:
            with Path(value).open("rb") as stream:
                data = stream.read(MAX_INPUT_BYTES + 1)
        except OSError as error:
            raise typer.BadParameter(
                f"{value} cannot be read: {error.strerror}", param_hint="--file"
            ) from error
        if len(data) > MAX_INPUT_BYTES:
            raise typer.BadParameter(
                f"{value} holds more than {MAX_INPUT_BYTES:,} bytes", param_hint="--file"
            )
        part = {"raw": b64encode(data).decode("ascii")}
    guessed = mimetypes.guess_type(name)[0]
    return part | ({"filename": name} if name else {}) | ({"mediaType": guessed} if guessed else {})


def _data(value: str) -> dict[str, Any]:
    """Inline JSON, a file of JSON, or stdin."""
    if value != "-" and not value.startswith("@"):
        try:
            return {"data": json.loads(value)}
        except (ValueError, RecursionError):
            value = f"@{value}"
    try:
        return {"data": json.loads(read_text(value))}
    except typer.BadParameter as error:
        raise typer.BadParameter(
            f"it is neither JSON nor a file of it ({error.message})", param_hint="--data"
        ) from error
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"it is not JSON: {error}", param_hint="--data") from error


def json_object(text: str, option: str) -> dict[str, Any]:
    """The JSON object that an option holds; an empty one for none."""
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"it is not JSON: {error}", param_hint=option) from error
    if not isinstance(value, dict):
        raise typer.BadParameter("it is no JSON object", param_hint=option)
    return value


_MAKERS = {"text": _text, "file": _file, "data": _data}
