"""Trim large results: the model sees the beginning, and a private file keeps the rest.

Nothing here fails a tool call that has finished. Where the full text cannot be kept, the result says so.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ksadk.errors import KsadkError
from ksadk.sessions import make_session_dir, resolve_local_session_dir
from ksadk.settings import Settings

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_NAME_CHARS = 80
"""What is kept of an id and of a field in a file name; file systems allow 255 bytes in all."""


@dataclass(frozen=True)
class ToolResultBudget:
    """Limits in characters. Above `max_chars` a field is cut to `preview_chars` (or `max_chars`, if less);
    above `persist_threshold_chars`, or when it is cut, its full text goes to a file in `persist_dir`."""

    max_chars: int = 50_000
    preview_chars: int = 8_000
    persist_threshold_chars: int = 50_000
    persist_dir: Path | None = None

    @property
    def resolved_persist_dir(self) -> Path:
        """`persist_dir`, else `KSADK_TOOL_RESULT_DIR`, else `tool-results` in the session's directory."""
        if self.persist_dir is not None:
            return Path(self.persist_dir).absolute()
        settings = Settings.from_env()
        chosen = settings.tool_result_dir or resolve_local_session_dir(settings) / "tool-results"
        return chosen.absolute()


def default_tool_result_budget(
    *,
    max_chars: int | None = None,
    preview_chars: int | None = None,
    persist_threshold_chars: int | None = None,
) -> ToolResultBudget:
    """The budget of the environment; the arguments count where a variable is not set."""
    settings, usual = Settings.from_env(), ToolResultBudget
    return ToolResultBudget(
        _first(settings.tool_result_max_chars, max_chars, usual.max_chars),
        _first(settings.tool_result_preview_chars, preview_chars, usual.preview_chars),
        _first(
            settings.tool_result_persist_threshold_chars,
            persist_threshold_chars,
            usual.persist_threshold_chars,
        ),
    )


def budget_tool_output(
    *,
    tool_name: str,
    field_name: str,
    value: Any,
    metadata: Mapping[str, Any] | None = None,
    budget: ToolResultBudget | None = None,
) -> dict[str, Any]:
    """One value within the budget: `{<field>, truncated, original_chars, preview_chars, persisted?}`.

    `persisted` is `{"path", "mime_type"}`; `persist_error` stands in its place when the file could not be
    written. Text is measured as it is, anything else as its JSON. `metadata` may name the call
    (`tool_use_id`, `tool_call_id` or `id`), which then begins the file's name.
    """
    budget = budget or default_tool_result_budget()
    is_text = isinstance(value, str)
    text = value if is_text else _as_json(value)
    cut = len(text) > budget.max_chars
    shown = text[: min(budget.preview_chars, budget.max_chars)] if cut else text
    output: dict[str, Any] = {
        field_name: shown if cut else value,
        "truncated": cut,
        "original_chars": len(text),
        "preview_chars": len(shown),
    }
    if cut or len(text) > budget.persist_threshold_chars:
        name = _file_name(tool_name, field_name, metadata or {}, ".txt" if is_text else ".json")
        try:
            path = result_path(budget.resolved_persist_dir, name)
            _write_private(path, text)
        except (KsadkError, OSError) as error:
            output["persist_error"] = f"the full text was not kept: {_reason(error)}"
        else:
            mime_type = "text/plain" if is_text else "application/json"
            output["persisted"] = {"path": str(path), "mime_type": mime_type}
    return output


def budget_text_fields(
    payload: Mapping[str, Any],
    *,
    tool_name: str,
    fields: Iterable[str],
    metadata: Mapping[str, Any] | None = None,
    budget: ToolResultBudget | None = None,
) -> dict[str, Any]:
    """A copy of a result with each of `fields` within the budget.

    Beside a field stand `<field>_truncated`, `<field>_original_chars` and `<field>_preview_chars`;
    `persisted_outputs[<field>]` tells where the full text is, `persist_errors[<field>]` why it is nowhere.
    Fields that are absent or None are let be.
    """
    budget = budget or default_tool_result_budget()
    result = dict(payload)
    kept: dict[str, Any] = {}
    lost: dict[str, str] = {}
    for name in fields:
        if result.get(name) is None:
            continue
        output = budget_tool_output(
            tool_name=tool_name, field_name=name, value=result[name], metadata=metadata, budget=budget
        )
        result[name] = output[name]
        for fact in ("truncated", "original_chars", "preview_chars"):
            result[f"{name}_{fact}"] = output[fact]
        if "persisted" in output:
            kept[name] = output["persisted"]
        if "persist_error" in output:
            lost[name] = output["persist_error"]
    if kept:
        result["persisted_outputs"] = kept
    if lost:
        result["persist_errors"] = lost
    return result


def result_path(directory: Path, name: str) -> Path:
    """The path of a result's file; `ValueError` where `name` would leave `directory`."""
    path = Path(os.path.normpath(directory / name))
    if path.parent != Path(os.path.normpath(directory)):
        raise ValueError(f"a tool's result must be kept inside {directory}")
    return path


def _file_name(tool_name: str, field_name: str, metadata: Mapping[str, Any], suffix: str) -> str:
    call = next((metadata[key] for key in ("tool_use_id", "tool_call_id", "id") if metadata.get(key)), "")
    parts = [_safe(str(call)) or _safe(tool_name), _safe(field_name)]
    # The random part keeps two results of one call apart, and the name from being guessed.
    return ".".join(part for part in parts if part) + f"-{secrets.token_hex(8)}{suffix}"


def _reason(error: KsadkError | OSError) -> str:
    if isinstance(error, KsadkError):  # a variable that names no directory
        return error.message
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def _safe(word: str) -> str:
    return _UNSAFE.sub("_", word)[:_NAME_CHARS].strip("._")


def _write_private(path: Path, text: str) -> None:
    # A lone surrogate has no UTF-8; it is written as the escape that names it.
    data = text.encode("utf-8", "backslashreplace")
    make_session_dir(path.parent, 0o700)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  # of a descriptor
            file.write(data)
    except OSError:
        path.unlink(missing_ok=True)  # a half-written file would pass for the full text
        raise


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True, default=_json_of_other)
    except (TypeError, ValueError, RecursionError):  # mixed keys, a cycle, too deep
        return json.dumps(_repr(value), ensure_ascii=False)


def _json_of_other(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=_repr)
    return _repr(value)


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  # another's __repr__ may raise anything, and the call has finished
        return f"<{type(value).__name__}>"


def _first(*numbers: int | None) -> int:
    return max(0, next(number for number in numbers if number is not None))
