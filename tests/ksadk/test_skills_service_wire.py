"""The client of a Skill Service says and understands the very bytes that are written down."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx_auth._aws
import pytest
from skill_wire import ACCESS_KEY, ACCOUNT, SECRET_KEY, TOKEN, ToLoopback, answering, asked, request_bytes

from ksadk.settings import Settings
from ksadk.skills.errors import SkillServiceError
from ksadk.skills.models import SkillRef
from ksadk.skills.service_client import SkillServiceClient, SkillSpace

Ask = Callable[[SkillServiceClient], Any]

S1 = SkillRef("s1", "diagram", "v1")
ODD = SkillRef("图 表+~/a*b", "odd", "v1")
PREMADE = SkillRef("p1", "spreadsheet")

REQUESTS: list[tuple[str, Ask, str]] = [
    ("list_spaces", lambda client: client.list_spaces(), "direct_list_spaces"),
    ("list_skills", lambda client: client.list_skills("ss-1"), "direct_list_skills"),
    ("list_premade", lambda client: client.list_public_skills(), "direct_list_premade"),
    ("list_premade", lambda client: client.list_skills("public"), "direct_list_premade"),
    ("download_url", lambda client: client.download(S1), "direct_download_url"),
    ("download_url_quoted", lambda client: client.download(ODD), "direct_download_url"),
    ("premade_download_url", lambda client: client.download(PREMADE), "direct_download_url"),
]


def same(sent: Any, name: str, port: int) -> None:
    """Whether a request is the one of the file; headers of the connection come beside."""
    expected = asked(request_bytes(name).replace(b":65535", b":%d" % port))
    assert sent.line == expected.line
    beside = {"accept-encoding", "connection", "user-agent"}
    assert {key: value for key, value in sent.headers.items() if key not in beside} == expected.headers
    assert sent.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("name", "ask", "answer"), REQUESTS, ids=[f"{n}-{r[0]}" for n, r in enumerate(REQUESTS)]
)
def test_a_request_with_a_token_is_the_one_that_is_written_down(name: str, ask: Ask, answer: str) -> None:
    with answering(answer, "download") as service, service.client() as client:
        ask(client)
        same(service.requests[0], f"direct_{name}", service.port)


@pytest.fixture
def fixed_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The library that signs reads a clock of its own."""

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=tz)

    monkeypatch.setattr(
        httpx_auth._aws, "datetime", SimpleNamespace(datetime=Clock, timezone=datetime.timezone)
    )
    yield


SIGNED = [row for row in REQUESTS if row[0] not in {"download_url"}]


def signed(port: int, **settings: Any) -> SkillServiceClient:
    given = Settings(
        **{
            "skill_space_ids": ("ss-1",),
            "skill_service_access_key": ACCESS_KEY,
            "skill_service_secret_key": SECRET_KEY,
            "skill_service_token": TOKEN,  # which the signature replaces
            "skill_service_account_id": ACCOUNT,
            **settings,
        }
    )
    return SkillServiceClient.from_env(given, transport=ToLoopback(port))


@pytest.mark.parametrize(("name", "ask", "answer"), SIGNED, ids=[f"{n}-{r[0]}" for n, r in enumerate(SIGNED)])
def test_a_signed_request_is_the_one_that_is_written_down(
    name: str, ask: Ask, answer: str, fixed_time: None
) -> None:
    with answering(answer) as service, signed(service.port) as client:
        try:
            ask(client)
        except SkillServiceError as error:  # a download over http is not for this host
            assert "neither https" in error.message
        same(service.requests[0], f"signed_{name}", service.port)


def test_the_region_pre_online_stands_for_another_and_is_told(fixed_time: None) -> None:
    region = {"skill_service_region": "pre-online", "pre_control_region": "cn-shanghai-2"}
    with answering("direct_list_skills") as service, signed(service.port, **region) as client:
        client.list_skills("ss-1")
        same(service.requests[0], "signed_list_skills_pre_online", service.port)


def test_a_download_carries_no_credentials() -> None:
    with answering("direct_download_url", "download") as service, service.client() as client:
        assert client.download(S1) == b"PK\x05\x06" + bytes(18)
        sent = service.requests[1]
        expected = asked(request_bytes("download").replace(b":65535", b":%d" % service.port))
        assert sent.line == expected.line
        assert set(sent.headers) == {"host", "accept", "accept-encoding", "connection", "user-agent"}


SPACES = [
    ("direct_list_spaces", [SkillSpace("ss-1", "Team", "What the team uses"), SkillSpace("ss-2", "团队")]),
    ("direct_list_spaces_as_spaces", [SkillSpace("ss-1", "Team")]),
    ("direct_list_spaces_as_items", [SkillSpace("ss-1", "Team", "What the team uses")]),
    ("direct_list_spaces_snake_case", [SkillSpace("ss-1", "Team", "What the team uses")]),
]


@pytest.mark.parametrize(("answer", "spaces"), SPACES, ids=[row[0] for row in SPACES])
def test_spaces_are_understood_in_every_form(answer: str, spaces: list[SkillSpace]) -> None:
    with answering(answer) as service, service.client() as client:
        found = client.list_spaces()
        assert (list(found.spaces), found.warnings) == (spaces, ())


@pytest.mark.parametrize("answer", ["direct_list_skills", "direct_list_skills_snake_case"])
def test_skills_are_understood_in_every_form(answer: str) -> None:
    with answering(answer) as service, service.client() as client:
        found = client.list_skills("ss-1")
    diagram, report = found.skills
    assert diagram == SkillRef(
        skill_id="s1",
        name="diagram",
        version_id="v1",
        version="1.0.0",
        description="Draws a diagram",
        status="active",
        content_hash="sha256:5e74e0c57d9e2fd1f3b1b0b1b4e4e0c1f0a6e3bb6f0a4f0b1b9d3d6c7e8f9a0b",
        archive_uri="ks3://skills/s1/v1.zip",
        aliases=("draw", "画图"),
        tags=("picture", "svg"),
        examples=("Draw our network",),
        input_schema={"type": "object"},
        runtime_requirements={"python": ">=3.11"},
        space_id="ss-1",
        space_name="Team",
    )
    assert list(found.active_skills()) == [diagram]
    assert report.content_hash == "0B9A8F7E6C3D9B1B0F4A0F6BBE3A6F0C1E0E4B4B1B0B1F3D12F9E7D5C0E47E5A"
    assert (found.refused, found.warnings) == ((), ())


def test_what_the_service_offers_itself_is_the_space_public() -> None:
    with answering("direct_list_premade") as service, service.client() as client:
        (skill,) = client.list_public_skills().skills
    assert (skill.space_id, skill.space_name, skill.version_id) == ("public", "Public Skills", "")


def test_the_101st_skill_is_on_a_second_page() -> None:
    pages = ("direct_list_skills_page_1", "direct_list_skills_page_2")
    with answering(*pages) as service, service.client() as client:
        found = client.list_skills("ss-1")
        same(service.requests[1], "direct_list_skills_page_2", service.port)
    assert [skill.name for skill in found.skills] == [f"skill-{n:03}" for n in range(1, 102)]
    assert found.warnings == ()


@pytest.mark.parametrize("answer", ["direct_download_url", "direct_download_url_snake_case"])
def test_the_address_of_a_download_is_understood_in_every_form(answer: str) -> None:
    with answering(answer, "download") as service, service.client() as client:
        assert len(client.download(S1)) == 22


REFUSALS = [
    ("error_envelope", "skill_service_refused", "SkillSpaceNotFound There is no such space (request r-20)"),
    ("error_number", "skill_service_refused", "40301 Not yours (request r-21)"),
    (
        "error_unauthorized",
        "skill_service_unauthenticated",
        "HTTP 401: Unauthorized The token is not one (request r-22)",
    ),
    (
        "error_not_found",
        "skill_service_refused",
        "HTTP 404: SkillNotFound There is no such skill (request r-23)",
    ),
    ("error_unavailable", "skill_service_unavailable", "HTTP 503"),
]


@pytest.mark.parametrize(("answer", "code", "said"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_a_refusal_is_told_with_its_action_code_request_and_message(
    answer: str, code: str, said: str
) -> None:
    with answering(answer) as service, service.client() as client, pytest.raises(SkillServiceError) as raised:
        client.list_skills("ss-1")
    assert raised.value.code == code
    assert raised.value.message == f"ListSkillsBySpaceId: the Skill Service answered {said}"
    assert raised.value.details["action"] == "ListSkillsBySpaceId"
    assert isinstance(raised.value, ValueError)


UNUSABLE = [
    ("html", "what the Skill Service answered is no JSON"),
    ("not_an_object", "what the Skill Service answered is not an object but list"),
    ("redirect", "the answer is a redirect, which is not followed"),
]


@pytest.mark.parametrize(("answer", "said"), UNUSABLE, ids=[row[0] for row in UNUSABLE])
def test_an_answer_of_something_else_is_told(answer: str, said: str) -> None:
    with answering(answer) as service, service.client() as client, pytest.raises(SkillServiceError) as raised:
        client.list_skills("ss-1")
    assert (raised.value.code, raised.value.message) == (
        "invalid_skill_service_answer",
        f"ListSkillsBySpaceId: {said}",
    )
    assert len(service.requests) == 1


def test_an_answer_without_a_download_is_told() -> None:
    with (
        answering("no_download_url") as service,
        service.client() as client,
        pytest.raises(SkillServiceError, match="there is no DownloadUrl for diagram"),
    ):
        client.download(S1)
