"""The lists of objects that workspace tools take."""

from __future__ import annotations

from typing import Annotated, Any


class ListOf:
    """The JSON Schema of a list of objects, for a parameter whose items the engine checks itself.

    The engine names the item that is wrong, and with which code; and the class that pydantic asks for to
    describe such objects costs more to import than the rest of this module.
    """

    def __init__(self, required: tuple[str, ...], **properties: dict[str, Any]) -> None:
        self._items = {
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": False,
        }

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.any_schema()

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "array", "items": self._items}


Files = Annotated[
    list[dict[str, Any]],
    ListOf(
        ("path", "content"),
        path={"type": "string", "description": "Where to write, relative to the workspace root."},
        content={"type": "string", "description": "The whole content."},
    ),
]
Edits = Annotated[
    list[dict[str, Any]],
    ListOf(
        ("old_text", "new_text"),
        old_text={"type": "string", "description": "The text to replace, exactly as the file has it."},
        new_text={"type": "string", "description": "What replaces it; empty deletes it."},
        expected_replacements={"type": "integer", "minimum": 1, "default": 1},
        replace_all={"type": "boolean", "default": False},
    ),
]
