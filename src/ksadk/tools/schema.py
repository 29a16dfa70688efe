"""From a signature to a JSON Schema, and from arguments to checked arguments.

pydantic does both. It is imported at the first call, since listing tools needs neither.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any, NotRequired, Required

from ksadk.errors import InvalidArguments, ToolDefinitionError

RESERVED = frozenset(
    {"approval", "self", "cls", "config", "run_manager", "callbacks", "tool_context", "tool_call_id"}
)
"""Names that a host framework fills in or drops, and the one that a model must never fill in."""

_SCALARS = frozenset({"int", "float", "str", "bool"})

_PLAIN: dict[str, frozenset[type]] = {
    "str": frozenset({str}), "int": frozenset({int}), "float": frozenset({float}), "bool": frozenset({bool}),
}  # fmt: skip
_PLAIN |= {f"{word} | None": types | {type(None)} for word, types in _PLAIN.items()}
"""Annotations, as they are written, whose values need no more than a look at their type."""

MAX_DEPTH = 100
"""How deeply lists and objects are nested in arguments that are kept: what shows them recurses, too."""

_MAX_INTEGER_BITS = 14_000
"""Python writes no whole number of more than 4,300 digits; this bound is just below."""


class Parameters:
    """The parameters of a tool's function.

    Names, order and defaults are known at once, so that a function that cannot be a tool is refused when it
    is declared; types are resolved at first use. Raises `ToolDefinitionError` for variadic, positional-only
    and reserved parameters.
    """

    def __init__(self, tool_name: str, func: Callable[..., Any]) -> None:
        self.tool_name = tool_name
        self._func = func
        try:
            self.signature = inspect.signature(func)
        except (TypeError, ValueError) as error:
            raise ToolDefinitionError(f"{tool_name}: it has no signature to offer: {error}") from error
        for parameter in self.signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise ToolDefinitionError(
                    f"{tool_name}: *{parameter.name} cannot be offered to a model",
                    hint="Name each parameter, or take one list or dict.",
                )
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise ToolDefinitionError(
                    f"{tool_name}: {parameter.name} is positional-only, and tools are called by name",
                    hint="Remove the / from the signature.",
                )
            if parameter.name in RESERVED:
                raise ToolDefinitionError(
                    f"{tool_name}: the parameter name {parameter.name!r} is reserved",
                    hint="Agent frameworks fill in or drop parameters of this name. Choose another.",
                )
        self.names = tuple(self.signature.parameters)
        self._positional = tuple(
            p.name for p in self.signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD
        )

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Positional and named arguments as one dict by name; not yet checked."""
        if not args:
            return kwargs
        if len(args) > len(self._positional):
            raise InvalidArguments(
                f"{self.tool_name} takes {len(self._positional)} positional arguments; {len(args)} were given"
            )
        given = dict(zip(self._positional, args, strict=False))
        twice = given.keys() & kwargs.keys()
        if twice:
            raise InvalidArguments(f"{self.tool_name}: {sorted(twice)[0]!r} was given twice")
        given.update(kwargs)
        return given

    def check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments, checked and converted (nested models built); defaults are left to the function.

        Text is not taken for a number, nor a number for text or a truth value. Raises `InvalidArguments`
        that lists every problem.
        """
        if "pydantic" not in sys.modules and self._plainly_right(arguments):
            return dict(arguments)  # a command of one call need not import it
        validate, failure = self._checker
        try:
            checked: dict[str, Any] = validate(arguments)
        except failure as error:
            raise self._explain(error.errors(include_url=False)) from None
        return checked

    @functools.cached_property
    def _plain(self) -> tuple[dict[str, frozenset[type]], frozenset[str]]:
        """The types of the parameters whose annotations are plain, and the parameters that must be given."""
        parameters = self.signature.parameters.values()
        plain_types = {
            p.name: _PLAIN[p.annotation]
            for p in parameters
            if isinstance(p.annotation, str) and p.annotation in _PLAIN
        }
        return plain_types, frozenset(p.name for p in parameters if p.default is p.empty)

    def _plainly_right(self, arguments: dict[str, Any]) -> bool:
        """Whether there is nothing to find out about arguments: pydantic would give them back as they are."""
        types, required = self._plain
        return arguments.keys() >= required and all(
            type(value) in types.get(name, ()) and (type(value) is not str or value.isascii())
            for name, value in arguments.items()
        )

    @functools.cached_property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema (2020-12) of the arguments: an object that takes no further properties."""
        properties = self._adapter.json_schema(
            ref_template="#/$defs/{model}", schema_generator=_without_titles()
        )
        properties.pop("title", None)
        shown: dict[str, Any] = properties.get("properties", {})
        for name, parameter in self.signature.parameters.items():
            if parameter.default is not parameter.empty:
                shown[name] = {**shown[name], "default": plain(parameter.default)}
        result: dict[str, Any] = {
            "type": "object",
            "properties": {name: shown[name] for name in self.names},
            "required": [name for name, p in self.signature.parameters.items() if p.default is p.empty],
            "additionalProperties": False,
        }
        if not result["required"]:
            del result["required"]
        if "$defs" in properties:
            result["$defs"] = properties["$defs"]
        return result

    def canonical(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Checked arguments as plain JSON values, with the defaults filled in: what is shown and hashed.

        Raises `InvalidArguments` for what is nested deeper than `MAX_DEPTH`, and for other values that JSON
        cannot hold.
        """
        try:
            return {name: plain(value, 1) for name, value in self.filled(arguments).items()}
        except RecursionError:  # inside an object of the caller's
            raise InvalidArguments(f"{self.tool_name}: the arguments are nested too deeply") from None
        except ValueError as error:
            raise InvalidArguments(f"{self.tool_name}: an argument cannot be kept: {error}") from error

    def filled(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Checked arguments with the defaults filled in, in the order of the signature."""
        return {
            name: arguments.get(name, parameter.default)
            for name, parameter in self.signature.parameters.items()
        }

    @functools.cached_property
    def _adapter(self) -> Any:
        import pydantic
        from typing_extensions import TypedDict

        try:
            hints = typing.get_type_hints(_annotated(self._func), include_extras=True)
        except (NameError, TypeError) as error:
            raise ToolDefinitionError(
                f"{self.tool_name}: its annotations cannot be resolved: {error}"
            ) from error
        fields: dict[str, Any] = {}
        for name, parameter in self.signature.parameters.items():
            wrap = Required if parameter.default is parameter.empty else NotRequired
            fields[name] = wrap[hints.get(name, Any)]
        make_type: Any = TypedDict  # made at run time, which a type checker cannot follow
        arguments = make_type(self.tool_name, fields)
        arguments.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)
        try:
            return pydantic.TypeAdapter(arguments)
        except pydantic.PydanticUserError as error:
            raise ToolDefinitionError(f"{self.tool_name}: {error.message}") from error

    @functools.cached_property
    def _checker(self) -> tuple[Callable[[Any], Any], type[Any]]:
        from pydantic_core import SchemaValidator, ValidationError

        strict = _strict_scalars(self._adapter.core_schema)
        try:
            # A model's own lenient validator would be put in the place of the strict copy of its schema.
            validator = SchemaValidator(strict, _use_prebuilt=False)
        except TypeError:  # a pydantic without that argument: models are as lenient as they were declared
            validator = SchemaValidator(strict)
        return validator.validate_python, ValidationError

    def _explain(self, problems: list[Any]) -> InvalidArguments:
        said: dict[str, str] = {}
        hint: str | None = None
        for problem in problems:
            name = str(problem["loc"][0]) if problem["loc"] else ""
            if problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1:
                near = difflib.get_close_matches(name, self.names, n=1)
                said[name] = "is not an argument of this tool"
                hint = hint or (
                    f"Did you mean {near[0]!r}?" if near else f"It takes: {', '.join(self.names) or 'none'}."
                )
            elif problem["type"] == "missing":
                where = ".".join(str(part) for part in problem["loc"][1:])
                said.setdefault(name, f"{where} is missing" if where else "is missing")
            else:
                words = problem["msg"]
                said[name] = f"{said[name]}, or {words}" if name in said else words
        message = "; ".join(f"{name!r} {words}" if words.startswith("is ") else f"{name!r}: {words}"
                            for name, words in said.items())  # fmt: skip
        return InvalidArguments(f"{self.tool_name}: {message}", hint=hint)


def _strict_scalars(core_schema: Any) -> Any:
    """A copy of a pydantic core schema in which text is text, a number a number and a truth value a truth
    value; containers and models stay as lenient as they were declared."""
    if isinstance(core_schema, Mapping):
        copy = {key: _strict_scalars(value) for key, value in core_schema.items()}
        if copy.get("type") in _SCALARS and "strict" not in copy:
            copy["strict"] = True
        return copy
    if isinstance(core_schema, list):
        return [_strict_scalars(item) for item in core_schema]
    if isinstance(core_schema, tuple):
        return tuple(_strict_scalars(item) for item in core_schema)
    return core_schema


def _annotated(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function that has the annotations: a partial's own, an object's `__call__`."""
    while isinstance(func, functools.partial):
        func = func.func
    return func if inspect.isroutine(func) else type(func).__call__


@functools.cache
def _without_titles() -> Any:
    """pydantic's generator of JSON Schemas, without the titles that it makes of names."""
    from pydantic.json_schema import GenerateJsonSchema

    class WithoutTitles(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # pydantic's signature
            return False

    return WithoutTitles


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON holds it; `depth` is how deeply it is nested. Raises ValueError for what is too deep or
    too large."""
    if isinstance(value, int) and value.bit_length() > _MAX_INTEGER_BITS:
        raise ValueError(f"a whole number of more than {_MAX_INTEGER_BITS} bits")
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if depth > MAX_DEPTH:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, depth + 1) for item in value]
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, bytes_mode="base64", fallback=repr)
