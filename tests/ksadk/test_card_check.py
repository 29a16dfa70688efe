"""Checking cards that anybody wrote."""

import copy
import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksadk.a2a import build_agent_card, check_card, json_text
from ksadk.a2a.json_text import JsonError, Members

GOOD: dict[str, Any] = build_agent_card(name="a", base_url="https://x.example.com", skills=["s"])
IF0 = "supportedInterfaces/0"
OAUTH = {"flows": {"clientCredentials": {"tokenUrl": "https://t.example.com", "scopes": {}}}}


def changed(*changes: tuple[str, Any]) -> str:
    """The good card as JSON text with values set at paths; `...` removes."""
    card = copy.deepcopy(GOOD)
    for path, value in changes:
        *way, last = [int(step) if step.isdigit() else step for step in path.split("/")]
        place: Any = card
        for step in way:
            place = place[step]
        if value is ...:
            del place[last]
        elif isinstance(place, list) and last == len(place):
            place.append(value)
        else:
            place[last] = value
    return json.dumps(card, indent=1, ensure_ascii=False)


def findings(text: str | bytes) -> list[tuple[str, str, str, str]]:
    return [(found.severity, found.pointer, found.message, found.fix) for found in check_card(text)]


def test_a_card_that_this_program_makes_is_without_blemish() -> None:
    assert check_card(json.dumps(GOOD)) == []


ERRORS: list[tuple[list[tuple[str, Any]], str, str, str]] = [
    ([("nmae", "x")], "/nmae", "no field nmae", "Did you mean name?"),
    ([("skills/0/tag", [])], "/skills/0/tag", "no field tag", "Did you mean tags?"),
    ([("icon_url", "https://x.example.com")], "/icon_url", "section 5.5", "Write iconUrl."),
    ([("name", ...)], "/name", "name is missing", "Give name."),
    ([("name", None)], "/name", "name is empty", "Give name."),
    ([("version", "")], "/version", "version is empty", "Give version."),
    ([("capabilities", ...)], "/capabilities", "is missing", "Give capabilities."),
    ([("supportedInterfaces", [])], "/supportedInterfaces", "is empty", "Give at least one."),
    ([("skills", [])], "/skills", "is empty", "Give at least one."),
    ([("skills/0/tags", [])], "/skills/0/tags", "is empty", "Give at least one."),
    ([("skills/0/tags", [""])], "/skills/0/tags/0", "a tag is empty", "Remove it"),
    ([("defaultInputModes", [])], "/defaultInputModes", "is empty", "Give at least one."),
    ([(f"{IF0}/protocolVersion", ...)], f"/{IF0}/protocolVersion", "is missing", "Give protocolVersion."),
    ([("name", 3)], "/name", "a number, not a text", "Write a text."),
    ([("skills", {})], "/skills", "an object, not a list", "Write a list."),
    ([("skills/1", "s")], "/skills/1", "skills[1] is a text, not an object", "Write an object."),
    ([("capabilities/streaming", "yes")], "/capabilities/streaming", "a text, not true or false", "Write"),
    ([("url", "https://x")], "/url", "removed in A2A 1.0", "supportedInterfaces"),
    ([("preferredTransport", "GRPC")], "/preferredTransport", "removed", "first of supportedInterfaces"),
    ([("additionalInterfaces", [])], "/additionalInterfaces", "removed", "supportedInterfaces"),
    ([("protocolVersion", "0.3.0")], "/protocolVersion", "removed", "each of supportedInterfaces"),
    (
        [("supportsAuthenticatedExtendedCard", True)],
        "/supportsAuthenticatedExtendedCard", "removed", "capabilities.extendedAgentCard",
    ),
    ([("security", [])], "/security", "removed", "securityRequirements"),
    ([("skills/0/security", [])], "/skills/0/security", "removed", "securityRequirements"),
    (
        [("capabilities/stateTransitionHistory", True)],
        "/capabilities/stateTransitionHistory", "removed", "Leave it out",
    ),
    ([(f"{IF0}/transport", "GRPC")], f"/{IF0}/transport", "removed", "protocolBinding"),
    (
        [("securitySchemes", {"k": {"type": "apiKey", "in": "header", "name": "X"}})],
        "/securitySchemes/k/type", "older than A2A 1.0", "apiKeySecurityScheme",
    ),
    (
        [("securitySchemes", {"k": {"type": ["?"]}})],
        "/securitySchemes/k/type", "older than A2A 1.0", "mtlsSecurityScheme",
    ),
    ([("securitySchemes", {"k": {}})], "/securitySchemes/k", "has none of", "exactly one"),
    (
        [("securitySchemes", {"k": {"mtlsSecurityScheme": {}, "oauth2SecurityScheme": OAUTH}})],
        "/securitySchemes/k", "has oauth2SecurityScheme and mtlsSecurityScheme", "exactly one",
    ),
    (
        [("securitySchemes", {"k": {"apiKeySecurityScheme": {"location": "body", "name": "n"}}})],
        "/securitySchemes/k/apiKeySecurityScheme/location", "cannot be in 'body'", "query, header or cookie",
    ),
    ([("securityRequirements", [{"k": []}])], "/securityRequirements/0/k", "outside schemes", '"schemes"'),
    (
        [("securitySchemes", {"key": {"mtlsSecurityScheme": {}}}),
         ("securityRequirements", [{"schemes": {"kye": {"list": []}}}])],
        "/securityRequirements/0/schemes/kye", "no scheme 'kye'", "Did you mean key?",
    ),
    (
        [("skills/0/securityRequirements", [{"schemes": {"k": {}}}])],
        "/skills/0/securityRequirements/0/schemes/k", "no scheme 'k'", "Declare it",
    ),
    (
        [("securitySchemes", {"k": {"mtlsSecurityScheme": {}}}),
         ("securityRequirements", [{"schemes": {"k": ["scope"]}}])],
        "/securityRequirements/0/schemes/k", "a plain list", '{"list"',
    ),
    ([(f"{IF0}/url", "x.example.com")], f"/{IF0}/url", "no usable URL", "absolute"),
    ([(f"{IF0}/url", "ftp://x")], f"/{IF0}/url", "its scheme is ftp", "absolute"),
    ([(f"{IF0}/url", "https://u:p@x.example.com")], f"/{IF0}/url", "user name or password", "absolute"),
    ([(f"{IF0}/url", "https://0.0.0.0/a")], f"/{IF0}/url", "nobody can reach 0.0.0.0", "callers"),
    ([(f"{IF0}/url", "https://[::]:80/a")], f"/{IF0}/url", "nobody can reach ::", "callers"),
    ([(f"{IF0}/protocolVersion", "1.0.0")], f"/{IF0}/protocolVersion", "not of the form", "Write 1.0."),
    ([(f"{IF0}/protocolVersion", "v1")], f"/{IF0}/protocolVersion", "not of the form", "Write 1.0."),
    ([("documentationUrl", "/docs")], "/documentationUrl", "no usable URL", "absolute"),
    ([("provider", {"url": "https://x.example.com"})], "/provider/organization", "missing", "Give"),
    ([("defaultInputModes", ["text"])], "/defaultInputModes/0", "not a media type", "text/plain"),
    ([("skills/0/outputModes", ["a b"])], "/skills/0/outputModes/0", "not a media type", "text/plain"),
    ([("skills/1", GOOD["skills"][0])], "/skills/1/id", "is that of skills[0] too", "own"),
    ([("name", " ")], "/name", "name is blank", "seen"),
    ([("capabilities/extensions", [{"required": True}])], "/capabilities/extensions/0", "without uri", "uri"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "pointer", "message", "fix"), ERRORS, ids=[row[1] for row in ERRORS])
def test_an_error_names_the_value_and_the_fix(
    changes: list[tuple[str, Any]], pointer: str, message: str, fix: str
) -> None:
    text = changed(*changes)
    [found] = [found for found in check_card(text) if found.severity == "error"]
    assert found.pointer == pointer
    assert message in found.message
    assert fix in found.fix
    # The line is the one where the value, or what lacks it, begins.
    assert found.line is not None
    key = pointer.rsplit("/", 1)[1]
    missing = "missing" in message
    if not key.isdigit() and not missing:
        assert f'"{key}"' in text.splitlines()[found.line - 1]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (f"{IF0}/url", "http://x.example.com/", "without encryption"),
        (f"{IF0}/url", "http://127.0.0.1:80/", "the same machine only"),
        (f"{IF0}/url", "https://localhost/", "the same machine only"),
        (f"{IF0}/url", "http://127.1/", "the same machine only"),
        (f"{IF0}/url", "http://0x7f000001/", "the same machine only"),
        (f"{IF0}/url", "http://10.0.0.1/", "the same network only"),
        (f"{IF0}/url", "http://agent/", "the same network only"),
        (f"{IF0}/url", "http://x.local/", "the same network only"),
        (f"{IF0}/url", "http://169.254.1.1/", "the same link only"),
        (f"{IF0}/url", "http://[fe80::1%25eth0]/", "the same link only"),
        (f"{IF0}/protocolBinding", "jsonrpc", "few clients know"),
        (f"{IF0}/protocolBinding", "https://x/my-binding", "few clients know"),
        (
            "supportedInterfaces/2",
            GOOD["supportedInterfaces"][0],
            "the same interface as supportedInterfaces[0]",
        ),
        ("name", "a ", "blanks around it"),
    ],
)
def test_what_may_trouble_callers_is_a_warning(path: str, value: Any, message: str) -> None:
    [found] = check_card(changed((path, value)))
    assert (found.severity, found.pointer) == ("warning", "/" + path)
    assert message in found.message


def test_a_page_for_people_may_be_plain_http() -> None:
    assert check_card(changed(("documentationUrl", "http://x.example.com/docs"))) == []


def test_findings_come_in_the_order_of_lines_with_lines_and_columns_from_one() -> None:
    text = '{\n  "nmae": 1,\n\t"url": "x",\n "a"\n : 1}'
    places = [(found.pointer, found.line, found.column) for found in check_card(text) if "is missing" not in
              found.message]  # fmt: skip
    assert places == [("/nmae", 2, 3), ("/url", 3, 2), ("/a", 4, 2)]


def test_a_repeated_key_is_found_where_it_is_repeated() -> None:
    text = changed().replace('   "tags"', '   "id": "s",\n   "tags"')
    [found] = check_card(text)
    assert found.message.startswith("id is written more than once")
    assert found.place == "skills[0].id"
    assert found.line == text.splitlines().index('   "tags": [')


def test_a_place_of_a_hostile_key_is_one_short_line() -> None:
    [found] = [
        found for found in check_card(changed(("\u2028" + "k" * 5_000, 1))) if "no field" in found.message
    ]
    assert found.place.isprintable()
    assert len(found.place) < 220


@pytest.mark.parametrize(
    ("text", "line", "message", "fix"),
    [
        (b"", 1, "expecting value", "The text is empty."),
        (b'{\n"a": 1,\n}', None, "not JSON", "Remove the comma"),
        (b'{"a": 1\n "b": 2}', 2, "expecting ','", "Put a comma"),
        (b"{'a': 1}", 1, "double quotes", "double quotes"),
        (b'{"a": 1}\n// x', 2, "extra data", "no comments"),
        (b'{"a": 1}\n}', 2, "extra data", "Remove what follows"),
        (b'{"a": "x\ny"}', 1, "invalid control character", "\\n"),
        (b'{"a": "\x00"}', 1, "invalid control character", "\\n"),
        (b'{"a": [1', 1, "expecting", "before its last bracket"),
        (b'{"NaN":\n NaN}', 2, "NaN is not a JSON number", ""),
        (b"9" * 5000, None, "not JSON", ""),
        (b"\xff\xfe{\x00}\x00", 1, "UTF-16", "UTF-8"),
        (b'{\n"a": "\xe9"}', 2, "byte 8 (0xe9) is not UTF-8", "UTF-8"),
        (b"[" * 200_000, None, "levels deep", ""),
        (b"[" * 100 + b"]" * 100, None, "levels deep", ""),
        (b" " * (1024 * 1024 + 1), None, "larger than 1 MiB", ""),
        (b"[]", 1, "is a JSON object", ""),
        (b"null", 1, "is a JSON object", ""),
    ],
)
def test_a_text_that_cannot_be_read_gives_one_error(
    text: bytes, line: int | None, message: str, fix: str
) -> None:
    [found] = check_card(text)
    assert found.severity == "error"
    assert message in found.message
    assert fix in found.fix
    if line is not None:
        assert found.line == line


def test_a_byte_order_mark_is_reported_and_read_past() -> None:
    [found] = check_card(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())
    assert "byte order mark" in found.message


@pytest.mark.parametrize("wrap", [dict, MappingProxyType])
def test_a_card_may_be_given_as_a_mapping_and_its_findings_have_no_lines(wrap: Any) -> None:
    assert check_card(wrap(GOOD)) == []
    bad = GOOD | {"skills": ({"id": "\ud800"},), "capabilities": MappingProxyType({"x": 1})}
    found = check_card(wrap(bad))
    assert "/skills/0/name" in [finding.pointer for finding in found]
    assert "/capabilities/x" in [finding.pointer for finding in found]
    assert {(finding.line, finding.column) for finding in found} == {(None, None)}
    as_text = check_card(json.dumps(bad | {"capabilities": {"x": 1}}))
    assert {finding.message for finding in found} == {finding.message for finding in as_text}


LOOP: dict[str, Any] = {}
LOOP["self"] = LOOP


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": {1, 2}}, "it holds a value of type set"),
        ({("a",): 1}, "keys must be"),
        ({"a": float("nan")}, "NaN is not a JSON number"),
        ({"a": 10**5000}, "no JSON can be made"),
        (LOOP, "no JSON can be made"),
        ([], "is a JSON object"),
        (None, "is a JSON object"),
        (object(), "it holds a value of type object"),
    ],
)
def test_a_value_that_is_no_card_gives_one_error(value: Any, words: str) -> None:
    [found] = check_card(value)
    assert (found.severity, found.line) == ("error", None)
    assert words in found.message


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), ""),
        (("name",), "name"),
        (("skills", 1, "description"), "skills[1].description"),
        (("skills", 0, "tags", 2), "skills[0].tags[2]"),
        (("securitySchemes", "a.b/c~d"), 'securitySchemes["a.b/c~d"]'),
        (('x\n"', ""), '["x\\n\\""][""]'),
        (("研究",), "研究"),
    ],
)
def test_a_place_is_written_as_people_write_a_path(path: json_text.Path, place: str) -> None:
    assert json_text.place(json_text.pointer(path)) == place


def test_half_a_character_is_an_error_wherever_it_is() -> None:
    for text in (changed(("name", "x")).replace('"x"', r'"\ud800"'), r'{"\ud800": 1}'):
        found = next(found for found in check_card(text) if "half of a character" in found.message)
        assert found.severity == "error"
        json.dumps([finding.to_dict() for finding in check_card(text)], ensure_ascii=False).encode()


def test_a_number_beyond_all_floats_is_what_the_sdk_does_not_take() -> None:
    extension = {"uri": "x:y", "params": {"n": 10**400}}
    [found] = check_card({**GOOD, "capabilities": {"extensions": [extension]}})
    assert (found.severity, "the SDK does not take the card" in found.message) == ("error", True)


def test_a_flood_of_findings_is_cut() -> None:
    flood = json.dumps({f"k{number}": number for number in range(2_000)})
    assert len(check_card(flood)) == 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.binary() | st.text() | st.dictionaries(st.sampled_from([*GOOD, "url"]), JSON).map(json.dumps))
def test_no_text_makes_the_check_fail(text: str | bytes) -> None:
    check_card(text)


@given(st.sampled_from([path for row in ERRORS for path, _ in row[0]]), JSON)
def test_no_value_makes_the_check_fail(path: str, value: Any) -> None:
    try:
        text = changed((path, value))
    except (KeyError, IndexError):
        return
    check_card(text)


@given(JSON, st.sampled_from([None, 0, 1, 4]), st.booleans())
def test_the_yaml_reader_finds_every_value_of_a_json_text(
    value: Any, indent: int | None, ascii: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii)
    read = json_text.read(text)
    places = json_text.locate(text, read)
    lines = text.split("\n")
    todo: list[tuple[json_text.Path, Any]] = [((), read)]
    while todo:
        path, part = todo.pop()
        place = places[path]
        at = lines[place.line - 1][place.column - 1 :]
        if path and isinstance(path[-1], str):
            assert at.startswith(json.dumps(path[-1], ensure_ascii=ascii))
        else:
            assert at[:1] == json.dumps(part)[:1]
        children = (
            part.items() if isinstance(part, Members) else enumerate(part) if isinstance(part, list) else ()
        )
        todo += [((*path, key), child) for key, child in children]


def test_a_key_longer_than_yaml_takes_keeps_every_line_number() -> None:
    text = json.dumps({"k" * 5000: 1, "z": {"y": 2}}, indent=1)
    assert json_text.locate(text, json_text.read(text))[("z", "y")].line == 4


@pytest.mark.parametrize("text", ["-Infinity", "[NaN]", "{,}", "01", '"\t"'])
def test_what_rfc_8259_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(JsonError):
        json_text.read(text)
