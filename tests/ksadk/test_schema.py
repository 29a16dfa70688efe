"""A tool's parameters: what a model is shown, and what becomes of what it sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import TypedDict

from ksadk.errors import InvalidArguments, ToolDefinitionError
from ksadk.tools.gateway import ToolGateway
from ksadk.tools.registry import Tool
from ksadk.tools.schema import RESERVED, Parameters


class Point(BaseModel):
    x: int
    label: str = "here"


class Line(BaseModel):
    start: Point
    end: Point | None = None


class Edit(TypedDict, total=False):
    old_text: str
    count: int


def plain(q: str, a: list[str] | None = None) -> None: ...
def optional(n: int | None, m: int | None = None) -> None: ...
def nothing() -> None: ...
def free(m: dict[str, Any]) -> None: ...
def typed(env: dict[str, str]) -> None: ...
def either(v: int | str) -> None: ...
def literal(mode: Literal["fast", "slow"] = "fast") -> None: ...
def nested(p: Point, lines: list[Line] = []) -> None: ...  # noqa: B006
def typed_dicts(edits: list[Edit]) -> None: ...
def keyword(a: int, *, b: bool = False, c: float = 0.5) -> None: ...
def untyped(a, b=3) -> None: ...


TOOLS: list[Callable[..., Any]] = [
    plain, optional, nothing, free, typed, either, literal, nested, typed_dicts, keyword, untyped,
]  # fmt: skip


def parameters(func: Callable[..., Any]) -> Parameters:
    return Parameters(func.__name__, func)


def schema(func: Callable[..., Any]) -> dict[str, Any]:
    return parameters(func).json_schema


def refusal(func: Callable[..., Any], arguments: dict[str, Any]) -> InvalidArguments:
    with pytest.raises(InvalidArguments) as caught:
        parameters(func).check(arguments)
    return caught.value


@pytest.mark.parametrize(
    ("func", "properties", "required"),
    [
        (
            plain,
            {
                "q": {"type": "string"},
                "a": {
                    "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                    "default": None,
                },
            },
            ["q"],
        ),
        (
            optional,
            {
                "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "m": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            },
            ["n"],
        ),
        (nothing, {}, None),
        (free, {"m": {"type": "object", "additionalProperties": True}}, ["m"]),
        (typed, {"env": {"type": "object", "additionalProperties": {"type": "string"}}}, ["env"]),
        (either, {"v": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}, ["v"]),
        (literal, {"mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"}}, None),
        (
            keyword,
            {
                "a": {"type": "integer"},
                "b": {"type": "boolean", "default": False},
                "c": {"type": "number", "default": 0.5},
            },
            ["a"],
        ),
        (untyped, {"a": {}, "b": {"default": 3}}, ["a"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_signature_becomes_exactly_this_schema(
    func: Callable[..., Any], properties: dict[str, Any], required: list[str] | None
) -> None:
    wanted: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    assert schema(func) == (wanted if required is None else wanted | {"required": required})
    assert list(schema(func)["properties"]) == list(properties)


def test_a_nested_model_keeps_its_own_required_fields() -> None:
    definitions = schema(nested)["$defs"]
    assert definitions["Point"]["required"] == ["x"]
    assert definitions["Line"]["required"] == ["start"]
    assert schema(nested)["properties"]["p"] == {"$ref": "#/$defs/Point"}
    assert schema(nested)["required"] == ["p"]


def test_no_schema_uses_a_list_of_types() -> None:
    def types(value: Any) -> list[Any]:
        if isinstance(value, dict):
            here = [value["type"]] if "type" in value else []
            return here + [t for v in value.values() for t in types(v)]
        return [t for v in value for t in types(v)] if isinstance(value, list) else []

    assert [func.__name__ for func in TOOLS if not all(isinstance(t, str) for t in types(schema(func)))] == []


@pytest.mark.parametrize("name", sorted(RESERVED))
@pytest.mark.parametrize("kind", ["{}: str", "*, {}: str = ''"])
def test_a_reserved_parameter_is_refused_when_the_tool_is_built(name: str, kind: str) -> None:
    made: dict[str, Any] = {}
    exec(f"def f({kind.format(name)}): ...", made)
    with pytest.raises(ToolDefinitionError, match=f"'{name}' is reserved"):
        Parameters("f", made["f"])


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(*items): ...", "items cannot be offered"),
        ("def f(**options): ...", "options cannot be offered"),
        ("def f(a, /, b): ...", "a is positional-only"),
    ],
)
def test_variadic_and_positional_only_parameters_are_refused_when_the_tool_is_built(
    source: str, words: str
) -> None:
    made: dict[str, Any] = {}
    exec(source, made)
    with pytest.raises(ToolDefinitionError, match=words) as caught:
        Parameters("f", made["f"])
    assert caught.value.code == "invalid_tool"
    assert caught.value.hint


def test_an_annotation_that_names_nothing_is_a_definition_error() -> None:
    def lost(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ToolDefinitionError, match="Nowhere"):
        _ = parameters(lost).json_schema


@pytest.mark.parametrize(
    ("func", "arguments"),
    [
        (plain, {"q": 5}),
        (plain, {"q": None}),
        (plain, {"q": b"bytes"}),
        (plain, {"q": "x", "a": "x"}),
        (plain, {"q": "x", "a": [1]}),
        (optional, {"n": "5"}),
        (optional, {"n": 5.0}),
        (optional, {"n": True}),
        (keyword, {"a": 1, "b": "true"}),
        (keyword, {"a": 1, "b": 1}),
        (keyword, {"a": 1, "c": "0.5"}),
        (literal, {"mode": "medium"}),
        (either, {"v": 1.5}),
        (either, {"v": None}),
        (typed, {"env": {"A": 1}}),
        (free, {"m": []}),
        (nested, {"p": {"x": "1"}}),
        (nested, {"p": {}}),
        (nested, {"p": 3}),
        (typed_dicts, {"edits": [{"count": "1"}]}),
        (typed_dicts, {"edits": {"old_text": "x"}}),
    ],
)
def test_a_value_of_another_type_is_refused_and_its_argument_named(
    func: Callable[..., Any], arguments: dict[str, Any]
) -> None:
    error = refusal(func, arguments)
    assert error.code == "invalid_arguments"
    assert any(f"'{name}'" in error.message for name in arguments)
    assert error.message.startswith(f"{func.__name__}: ")


def test_good_values_keep_their_types_and_models_are_built() -> None:
    assert parameters(either).check({"v": "5"}) == {"v": "5"}
    assert parameters(either).check({"v": 5}) == {"v": 5}
    assert parameters(keyword).check({"a": 1, "c": 2}) == {"a": 1, "c": 2.0}
    built = parameters(nested).check({"p": {"x": 1}, "lines": [{"start": {"x": 2, "label": "l"}}]})
    assert built == {"p": Point(x=1), "lines": [Line(start=Point(x=2, label="l"))]}
    assert parameters(plain).check({"q": "x"}) == {"q": "x"}


def test_an_unknown_argument_is_refused_with_the_name_that_was_meant() -> None:
    error = refusal(keyword, {"a": 1, "bb": True})
    assert "'bb' is not an argument of this tool" in error.message
    assert error.hint == "Did you mean 'b'?"
    assert refusal(plain, {"q": "x", "zebra": 1}).hint == "It takes: q, a."
    assert refusal(nothing, {"zebra": 1}).hint == "It takes: none."


def test_every_problem_is_listed_at_once() -> None:
    message = refusal(keyword, {"b": "x", "z": 1}).message
    assert all(part in message for part in ("'a' is missing", "'b'", "'z' is not an argument"))


def test_a_missing_field_of_a_nested_model_is_named_by_its_path() -> None:
    assert "'p': x is missing" in refusal(nested, {"p": {}}).message
    assert "0.start.x is missing" in refusal(nested, {"p": {"x": 1}, "lines": [{"start": {}}]}).message


def test_positional_arguments_are_bound_by_name() -> None:
    assert parameters(plain).bind(("x",), {"a": []}) == {"q": "x", "a": []}
    with pytest.raises(InvalidArguments, match="2 positional arguments; 3 were given"):
        parameters(plain).bind(("x", [], 3), {})
    with pytest.raises(InvalidArguments, match="'q' was given twice"):
        parameters(plain).bind(("x",), {"q": "y"})
    with pytest.raises(InvalidArguments, match="1 positional arguments; 2 were given"):
        parameters(keyword).bind((1, True), {})


def test_canonical_arguments_are_plain_values_with_the_defaults_filled_in() -> None:
    built = parameters(nested).check({"p": {"x": 1}})
    assert parameters(nested).canonical(built) == {"p": {"x": 1, "label": "here"}, "lines": []}
    assert parameters(keyword).canonical({"a": 1}) == {"a": 1, "b": False, "c": 0.5}


def test_a_model_is_not_changed_by_its_check() -> None:
    given_arguments = {"p": {"x": 1}, "lines": [{"start": {"x": 2}}]}
    parameters(nested).check(given_arguments)
    assert given_arguments == {"p": {"x": 1}, "lines": [{"start": {"x": 2}}]}


NAMES = sorted(
    {name for func in TOOLS for name in parameters(func).names} | {"", "approval", "self", "\ud800"}
)
text = st.text(max_size=8) | st.text(st.characters(categories=["Cs", "Cc", "L"]), max_size=3)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | text
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["x", "label", "start", "end", "old_text", "count"]) | text, inner, max_size=3
        )
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from(NAMES) | text, values, max_size=4)
FITS: dict[str, Callable[[Any], bool]] = {
    "q": lambda v: isinstance(v, str),
    "a": lambda v: v is None or isinstance(v, (list, int)),
    "n": lambda v: v is None or (isinstance(v, int) and not isinstance(v, bool)),
    "m": lambda v: v is None or isinstance(v, (int, dict)),
    "env": lambda v: isinstance(v, dict) and all(isinstance(x, str) for pair in v.items() for x in pair),
    "v": lambda v: isinstance(v, (int, str)) and not isinstance(v, bool),
    "mode": lambda v: v in ("fast", "slow"),
    "p": lambda v: isinstance(v, Point),
    "lines": lambda v: isinstance(v, list) and all(isinstance(x, Line) for x in v),
    "edits": lambda v: isinstance(v, list) and all(isinstance(x, dict) for x in v),
    "c": lambda v: isinstance(v, float),
}  # fmt: skip


@given(st.sampled_from(TOOLS), objects)
def test_whatever_a_model_sends_is_right_or_refused(
    func: Callable[..., Any], arguments: dict[str, Any]
) -> None:
    shape = parameters(func)
    try:
        checked = shape.check(arguments)
    except InvalidArguments as error:
        assert error.code == "invalid_arguments"
        return
    assert checked.keys() == arguments.keys()
    if func is not untyped:
        assert all(FITS[name](value) for name, value in checked.items() if name in FITS)
    shape.canonical(checked)


@given(st.sampled_from(TOOLS), objects)
def test_whatever_a_model_sends_the_gateway_answers_with_a_result(
    func: Callable[..., Any], arguments: dict[str, Any]
) -> None:
    result = ToolGateway(approval_mode="strict").call(Tool(func.__name__, func, "g", "b"), (), arguments)
    assert result is None or result["error_type"] == "invalid_arguments"


@pytest.mark.parametrize("depth", [300, 900, 50_000])
def test_values_that_are_nested_absurdly_deep_are_taken_or_refused(depth: int) -> None:
    value: Any = {}
    for _ in range(depth):
        value = {"x": [value]}
    for func, arguments in ((free, {"m": value}), (untyped, {"a": value}), (nested, {"p": value})):
        shape = parameters(func)
        try:
            shape.canonical(shape.check(arguments))
        except InvalidArguments:
            continue


@pytest.mark.parametrize(
    ("arguments", "plain"),
    [
        ({"a": "x"}, True), ({"a": "x", "b": 1, "c": True, "d": 1.5, "e": None}, True),
        ({"a": "x", "b": 10**30, "d": float("nan"), "e": ""}, True),
        ({}, False), ({"a": 1}, False), ({"a": None}, False), ({"a": "x", "b": True}, False),
        ({"a": "x", "c": 1}, False), ({"a": "x", "d": True}, False), ({"a": "x", "e": 1}, False),
        ({"a": "x", "z": 1}, False), ({"a": "\ud800"}, False),
        # These are right too, and left to pydantic.
        ({"a": "é"}, False), ({"a": "x", "d": 1}, False), ({"a": "x", "f": ["y"]}, False),
        ({"a": type("Text", (str,), {})("x")}, False),
    ],
    ids=repr,
)  # fmt: skip
def test_what_needs_only_a_look_is_what_pydantic_gives_back_as_it_is(
    arguments: dict[str, Any], plain: bool
) -> None:
    def tool(
        a: str,
        b: int = 0,
        c: bool = False,
        d: float = 0.0,
        e: str | None = None,
        f: list[str] = [],  # noqa: B006
    ) -> None:
        """Do it."""

    parameters = Parameters("t", tool)
    assert parameters._plainly_right(arguments) is plain
    if plain:
        checked = parameters.check(arguments)
        assert checked.keys() == arguments.keys()
        assert all(checked[name] is value for name, value in arguments.items())
