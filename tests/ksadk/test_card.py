"""The Agent Card that is made, held against the official SDK's protobuf."""

import json
from time import perf_counter
from typing import Any

import pytest
from a2a.types import AgentCard
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import given
from hypothesis import strategies as st

from ksadk.a2a import build_agent_card
from ksadk.a2a.card import CardError, check_base_url, parse_skill, title
from ksadk.a2a.check import check_card

EXAMPLE = """\
{
  "name": "research-agent",
  "description": "Answers research questions.",
  "supportedInterfaces": [
    {
      "url": "https://agent.example.com/a2a/jsonrpc",
      "protocolBinding": "JSONRPC",
      "protocolVersion": "1.0"
    },
    {
      "url": "https://agent.example.com/a2a/v1",
      "protocolBinding": "HTTP+JSON",
      "protocolVersion": "1.0"
    }
  ],
  "version": "1.0.0",
  "capabilities": {
    "streaming": true,
    "pushNotifications": false
  },
  "defaultInputModes": [
    "text/plain"
  ],
  "defaultOutputModes": [
    "text/plain"
  ],
  "skills": [
    {
      "id": "research",
      "name": "Research",
      "description": "Skill: research",
      "tags": [
        "research"
      ]
    }
  ]
}"""


def card(**values: Any) -> dict[str, Any]:
    return build_agent_card(**({"name": "a", "base_url": "https://x.example.com"} | values))


def test_the_documented_example_is_made_byte_for_byte() -> None:
    made = build_agent_card(
        name="research-agent",
        base_url="https://agent.example.com",
        description="Answers research questions.",
        skills=["research"],
    )
    assert json.dumps(made, indent=2, ensure_ascii=False) == EXAMPLE


def test_every_optional_field_has_the_protobufs_place_and_is_kept_by_the_sdk() -> None:
    made = card(
        provider={"organization": "O", "url": "https://o.example.com"},
        documentation_url="https://x.example.com/docs?a=1#b",
        icon_url="https://x.example.com/icon.png",
        input_modes=["text/plain", "application/json; charset=utf-8"],
        output_modes=["image/*"],
        streaming=False,
        version="2.1",
        skills=[{"id": "s", "examples": ["e"], "inputModes": ["text/plain"]}],
    )
    message = ParseDict(made, AgentCard())
    kept = MessageToDict(message)
    # A list of defaults and an explicit false survive; nothing is lost or renamed.
    assert kept == made
    order = [field.json_name for field in AgentCard.DESCRIPTOR.fields]
    in_order = [
        "name", "description", "supportedInterfaces", "provider", "version", "documentationUrl",
        "capabilities", "defaultInputModes", "defaultOutputModes", "skills", "iconUrl",
    ]  # fmt: skip
    assert list(made) == in_order == [name for name in order if name in made]


def test_what_is_left_out_gets_the_documented_defaults() -> None:
    made = card()
    assert made["description"] == "a agent powered by ksadk"
    assert [skill["id"] for skill in made["skills"]] == ["general"]
    assert card(skills=[]) == made
    assert not {"provider", "documentationUrl", "iconUrl", "url", "preferredTransport"} & set(made)


@pytest.mark.parametrize(
    ("base", "jsonrpc"),
    [
        ("https://x/sub/", "https://x/sub/a2a/jsonrpc"),
        ("https://x/sub", "https://x/sub/a2a/jsonrpc"),
        ("https://x", "https://x/a2a/jsonrpc"),
        ("http://127.0.0.1:8081/", "http://127.0.0.1:8081/a2a/jsonrpc"),
        ("http://[::1]:80", "http://[::1]:80/a2a/jsonrpc"),
    ],
)
def test_interfaces_are_below_the_base_url(base: str, jsonrpc: str) -> None:
    assert card(base_url=base)["supportedInterfaces"][0]["url"] == jsonrpc


@pytest.mark.parametrize(
    "url",
    [
        "agent.example.com", "//agent.example.com", "ftp://x", "https:x", "https:/x", "https://", "https://:80",
        "https://user@x", "https://user:pass@x", "https://x?a=1", "https://x#f", "https://x/?", "https://x/#",
        "https://x y", " https://x", "https://x\n", "https://x\\y", "https://x:99999", "https://x:0",
        "https://x:port", "https://[::1", "http://0.0.0.0:80", "http://0", "http://[::]", "http://0x0",
        "http://[::ffff:0.0.0.0]", "javascript:alert(1)", "https://{host}/",
    ],
)  # fmt: skip
def test_a_base_url_that_no_caller_can_use_is_refused(url: str) -> None:
    with pytest.raises(CardError) as caught:
        check_base_url(url)
    assert caught.value.code == "invalid_url"
    assert caught.value.kind == "usage"


@pytest.mark.parametrize(
    ("text", "skill"),
    [
        ("my-skill", ("my-skill", "My Skill", "Skill: my-skill", ["my-skill"])),
        ("a:Name", ("a", "Name", "Skill: a", ["a"])),
        ("a:Name:Words.", ("a", "Name", "Words.", ["a"])),
        ("a:Name:Words.:x, y,", ("a", "Name", "Words.", ["x", "y"])),
        ("a::Only words", ("a", "A", "Only words", ["a"])),
        ("a:::x", ("a", "A", "Skill: a", ["x"])),
        ("a:::", ("a", "A", "Skill: a", ["a"])),
        ("a:N:See: this:t", ("a", "N", "See: this", ["t"])),
        ("x:X:See https://foo.com", ("x", "X", "See https://foo.com", ["x"])),
        ("x:X:See https://foo.com:web,foo", ("x", "X", "See https://foo.com", ["web", "foo"])),
        ("x:X:http://foo:8080/a?b", ("x", "X", "http://foo:8080/a?b", ["x"])),
        ("x:X:http://foo:8080:80", ("x", "X", "http://foo:8080", ["80"])),
        ("x:X:http://foo:80s,70s", ("x", "X", "http://foo", ["80s", "70s"])),
        ("x:X:http://[::1]:80/ or http://b:t", ("x", "X", "http://[::1]:80/ or http://b", ["t"])),
        ("x:X:http://w/a:b:t", ("x", "X", "http://w/a:b", ["t"])),
        ("x:https://n:d", ("x", "https://n", "d", ["x"])),
        ("x://y", ("x://y", "X://y", "Skill: x://y", ["x://y"])),
        (" a : N ", ("a", "N", "Skill: a", ["a"])),
        ("研究:研究员:回答问题:科学,数学", ("研究", "研究员", "回答问题", ["科学", "数学"])),
        ("--", ("--", "--", "Skill: --", ["--"])),
    ],
)
def test_a_skill_is_read_from_a_string(text: str, skill: tuple[Any, ...]) -> None:
    assert tuple(parse_skill(text).values()) == skill


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"name": " "}, "the agent's name is empty"),
        ({"name": "\ud800"}, "not valid Unicode"),
        ({"skills": [":Name"]}, "a skill's id is empty"),
        ({"skills": ["a", "a:Again"]}, "two skills have the id 'a'"),
        ({"skills": [{"id": "a", "input_modes": ["text/plain"]}]}, "no field 'input_modes'"),
        ({"skills": [{"id": "a", "tags": "x"}]}, "a list of texts is expected"),
        ({"skills": [{"id": 3}]}, "is not text"),
        ({"skills": [3]}, "a skill is text or a dict of fields, not a value of type int"),
        ({"skills": [None]}, "not a value of type NoneType"),
        ({"skills": 3}, "the skills are not a list"),
        ({"skills": ":N"}, "a skill's id is empty"),
        ({"provider": 3}, "exactly the fields"),
        ({"input_modes": "text/plain"}, "a list of texts is expected"),
        ({"input_modes": ["text"]}, "not a media type"),
        ({"provider": {"organization": "O"}}, "exactly the fields"),
        ({"provider": {"organization": "O", "url": "o.example.com"}}, "the provider's URL"),
        ({"documentation_url": "/docs"}, "the documentation URL"),
    ],
)
def test_what_no_valid_card_can_hold_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(CardError, match=words):
        card(**values)


@pytest.mark.parametrize("piece", ["://[", "://", ":", "://[::1]:1", "a"])
def test_a_long_skill_string_is_read_at_once(piece: str) -> None:
    start = perf_counter()
    parse_skill("x" + piece * 200_000)
    assert perf_counter() - start < 5


@pytest.mark.parametrize("skill", ["abc", "abc:Abc", {"id": "abc"}])
def test_one_skill_needs_no_list(skill: Any) -> None:
    assert card(skills=skill) == card(skills=[skill]) == card(skills=["abc"])


def test_a_refused_skill_field_names_the_right_one() -> None:
    with pytest.raises(CardError) as caught:
        card(skills=[{"id": "a", "input_modes": []}])
    assert caught.value.hint == "Did you mean inputModes?"


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
SKILL = st.fixed_dictionaries(
    {"id": TEXT},
    optional={"name": TEXT, "description": TEXT, "tags": st.lists(TEXT), "examples": st.lists(TEXT)},
)


@given(
    name=TEXT,
    description=st.one_of(st.just(""), TEXT),
    version=TEXT,
    skills=st.lists(st.one_of(SKILL), unique_by=lambda skill: skill["id"], max_size=5),
    streaming=st.booleans(),
)
def test_the_sdk_takes_every_card_and_keeps_all_of_it(
    name: str, description: str, version: str, skills: list[dict[str, Any]], streaming: bool
) -> None:
    made = card(name=name, description=description, version=version, skills=skills, streaming=streaming)
    assert MessageToDict(ParseDict(made, AgentCard())) == made
    text = json.dumps(made, ensure_ascii=False)
    assert [finding for finding in check_card(text) if finding.severity == "error"] == []


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_skill_string_gives_a_whole_skill_or_is_refused(text: str) -> None:
    try:
        skill = parse_skill(text)
    except CardError:
        assert not text.partition(":")[0].strip()
    else:
        assert all(skill.values())


def test_titles_keep_capitals() -> None:
    assert [title(word) for word in ("SQL-query", "snake_case", "two words")] == [
        "SQL Query", "Snake Case", "Two Words",
    ]  # fmt: skip
