"""A directory of skills as a Skill Service: the bytes that are written down, and what comes of them."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from skill_wire import TOKEN, answer_bytes, request_bytes

from ksadk.errors import KsadkError
from ksadk.listening import HTTPServer, listen
from ksadk.settings import Settings
from ksadk.skills.errors import SkillServiceError
from ksadk.skills.manifest import load_manifest
from ksadk.skills.models import ContentHash, SkillRef
from ksadk.skills.service_address import ServiceAddress
from ksadk.skills.service_client import SkillServiceClient
from ksadk.skills.serving.app import SkillService
from ksadk.skills.serving.directory import ServedDirectory
from ksadk.skills.serving.tickets import Tickets

DIAGRAM = """\
---
name: diagram
description: Draws a diagram
compatibility: python >=3.11
metadata:
  version: "1.0.0"
  aliases: draw, 画图
  tags: picture, svg
  examples: Draw our network
---
Draw it.
"""


def skill(place: Path, name: str = "", text: str = "") -> Path:
    """A skill in a directory of its own."""
    place.mkdir(parents=True, exist_ok=True)
    given = text or f"---\nname: {name or place.name}\ndescription: What {place.name} does\n---\nDo it.\n"
    (place / "SKILL.md").write_text(given)
    return place


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Skills in the spaces ss-1, ss-2 and public."""
    place = tmp_path / "ss-1"
    skill(place / "diagram", text=DIAGRAM)
    skill(place / "report")
    skill(place / "ss-2/notes")
    skill(place / "public/spreadsheet")
    (place / "no-skill").mkdir()
    (place / "README.md").write_text("about")
    return place


@contextmanager
def served(directory: Path, **given: Any) -> Iterator[str]:
    """The URL of the real server for a directory."""
    service = SkillService(ServedDirectory(directory), token=TOKEN, **given)
    listening = listen("127.0.0.1", 0)
    config = uvicorn.Config(service.app, log_config=None, access_log=False, lifespan="off", ws="none")
    server = HTTPServer(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


def client(url: str) -> SkillServiceClient:
    return SkillServiceClient(ServiceAddress(url, token=TOKEN), sleep=lambda _: None)


def exchanged(url: str, request: bytes) -> tuple[int, Any]:
    """Status and JSON of what a server answers to the bytes of a request."""
    port = httpx.URL(url).port
    assert port is not None
    with socket.create_connection(("127.0.0.1", port)) as connection:
        sent = request.replace(b":65535", b":%d" % port)
        connection.sendall(sent.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def ref(url: str, name: str, space: str = "ss-1") -> SkillRef:
    with client(url) as asked:
        return next(ref for ref in asked.list_skills(space).skills if ref.name == name)


def in_fixture(name: str) -> Any:
    return json.loads(answer_bytes(name).partition(b"\r\n\r\n")[2])


FREE = {"InputSchema", "RuntimeRequirements", "Tags"}
"""Keys whose values have any keys, or two types."""


def has_form_of(found: Any, expected: Any) -> None:
    """Whether a document has all keys of another, with values of the same types."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        for key in set(expected) - FREE:
            has_form_of(found[key], expected[key])
    elif isinstance(expected, list) and expected and found:
        has_form_of(found[0], expected[0])


ANSWERED = [
    ("direct_list_spaces", "direct_list_spaces"),
    ("direct_list_skills", "direct_list_skills"),
    ("direct_list_skills_page_2", "direct_list_skills_page_2"),
    ("direct_list_premade", "direct_list_premade"),
]


@pytest.mark.parametrize(("request_name", "answer_name"), ANSWERED, ids=[row[0] for row in ANSWERED])
def test_a_request_that_is_written_down_gets_an_answer_of_the_form_that_is(
    request_name: str, answer_name: str, directory: Path
) -> None:
    with served(directory) as url:
        status, answer = exchanged(url, request_bytes(request_name))
    assert (status, answer["Code"]) == (200, 0)
    assert re.fullmatch("[0-9a-f]{32}", answer["RequestId"])
    has_form_of(answer, in_fixture(answer_name))


def test_the_address_of_a_download_has_the_form_that_is_written_down(directory: Path) -> None:
    with served(directory) as url:
        found = ref(url, "diagram")
        asked = request_bytes("direct_download_url")
        target = f"SkillId=ss-1%2Fdiagram&VersionId={found.version_id}".encode()
        status, answer = exchanged(url, asked.replace(b"SkillId=s1&VersionId=v1", target))
        has_form_of(answer, in_fixture("direct_download_url"))
        assert (status, answer["Code"]) == (200, 0)
        sent = request_bytes("download").replace(b"/archives/s1.zip", b"/package")
        status, answer = exchanged(url, sent)
    assert (status, answer["Code"]) == (403, "AccessDenied")


ERRORS = [
    (request_bytes("direct_download_url"), 404, "error_not_found"),
    (request_bytes("direct_premade_download_url"), 404, "error_not_found"),
    (request_bytes("direct_list_spaces").replace(b"Bearer test", b"Bearer best"), 401, "error_unauthorized"),
    (request_bytes("download"), 401, "error_unauthorized"),
]


@pytest.mark.parametrize(("request_", "status", "name"), ERRORS, ids=range(len(ERRORS)))
def test_an_error_has_the_form_that_is_written_down(
    request_: bytes, status: int, name: str, directory: Path
) -> None:
    with served(directory) as url:
        found, answer = exchanged(url, request_)
    expected = in_fixture(name)
    assert (found, answer["Code"]) == (status, expected["Code"])
    has_form_of(answer, expected)


def test_a_skill_is_listed_with_all_that_it_says_of_itself(directory: Path) -> None:
    with served(directory) as url:
        _, answer = exchanged(url, request_bytes("direct_list_skills"))
        assert answer["Data"]["TotalCount"] == 2
        assert (answer["Data"]["SkillSpaceId"], answer["Data"]["SkillSpaceName"]) == ("ss-1", "ss-1")
        item = answer["Data"]["Skills"][0]
        package = httpx.get(download_url(url, item["SkillId"], item["VersionId"])).content
    assert item == {
        "SkillId": "ss-1/diagram",
        "VersionId": ContentHash.of(package).hex[:32],
        "Version": "1.0.0",
        "Name": "diagram",
        "Description": "Draws a diagram",
        "Status": "active",
        "ContentHash": str(ContentHash.of(package)),
        "ArchiveUri": f"ss-1/diagram/{item['VersionId']}.zip",
        "Aliases": ["draw", "画图"],
        "Tags": ["picture", "svg"],
        "Examples": ["Draw our network"],
        "InputSchema": {},
        "RuntimeRequirements": {"Compatibility": "python >=3.11"},
    }


def get(url: str, action: str, **query: str) -> httpx.Response:
    return httpx.get(f"{url}/{action}", params=query, headers={"Authorization": f"Bearer {TOKEN}"})


def download_url(url: str, skill_id: str, version_id: str) -> str:
    answer = get(url, "GetSkillDownloadUrl", SkillId=skill_id, VersionId=version_id).json()
    found: str = answer["Data"]["DownloadUrl"]
    return found


def test_the_client_lists_and_downloads_what_the_directory_holds(directory: Path) -> None:
    configured = Settings(skill_space_ids=("ss-1", "ss-2"), public_skill_space_ids=("public",))
    with served(directory) as url, client(url) as asked:
        spaces = asked.list_spaces()
        assert [space.space_id for space in spaces.spaces] == ["ss-1", "ss-2"]
        found = load_manifest(configured, client=asked, limit=None)
        assert [f"{it.space_id}/{it.name}" for it in found.skills] == [
            "ss-1/diagram", "ss-1/report", "ss-2/notes", "public/spreadsheet",
        ]  # fmt: skip
        assert found.warnings == ()
        for it in found.skills:
            assert it.content_hash == str(ContentHash.of(asked.download(it)))


def test_what_is_offered_to_everybody_needs_no_version(directory: Path) -> None:
    with served(directory) as url, client(url) as asked:
        (sheet,) = asked.list_public_skills().skills
        assert (sheet.space_id, sheet.space_name) == ("public", "Public Skills")
        package = asked.download(SkillRef(sheet.skill_id, sheet.name))
        assert sheet.content_hash == str(ContentHash.of(package))
        with pytest.raises(SkillServiceError, match="SkillNotFound"):
            asked.download(SkillRef("ss-1/diagram", "diagram"))


def test_the_101st_skill_is_served_on_a_second_page(tmp_path: Path) -> None:
    for number in range(1, 102):
        skill(tmp_path / f"skill-{number:03}")
    with served(tmp_path) as url:
        one = get(url, "ListSkillsBySpaceId", SpaceId=tmp_path.name).json()["Data"]
        two = get(url, "ListSkillsBySpaceId", SpaceId=tmp_path.name, PageNumber="2", PageSize="100").json()[
            "Data"
        ]
        assert (len(one["Skills"]), one["TotalCount"], len(two["Skills"]), two["TotalCount"]) == (
            100,
            101,
            1,
            101,
        )
        with client(url) as asked:
            found = asked.list_skills(tmp_path.name)
    assert [it.name for it in found.skills] == [f"skill-{number:03}" for number in range(1, 102)]
    assert found.warnings == ()


def test_a_skill_that_changes_is_another_version_and_the_old_address_never_means_it(directory: Path) -> None:
    with served(directory) as url:
        before = ref(url, "report")
        address = download_url(url, before.skill_id, before.version_id)
        old = httpx.get(address)
        assert old.status_code == 200
        (directory / "report/more.txt").write_text("more")
        after = ref(url, "report")
        assert after.version_id != before.version_id
        gone = httpx.get(address)
        assert (gone.status_code, gone.json()["Code"]) == (404, "SkillVersionNotFound")
        with client(url) as asked:
            assert str(ContentHash.of(asked.download(after))) == after.content_hash
            with pytest.raises(SkillServiceError, match="has changed: list the skills again"):
                asked.download(before)
        (directory / "report/more.txt").unlink()
        assert ref(url, "report") == before
        assert httpx.get(address).content == old.content


def test_the_executable_bit_and_an_edit_of_the_same_size_are_changes(directory: Path) -> None:
    script = directory / "report/run.sh"
    script.write_text("echo 1\n")
    seen = set()
    with served(directory) as url:
        seen.add(ref(url, "report").version_id)
        script.chmod(0o755)
        seen.add(ref(url, "report").version_id)
        kept = script.stat()
        script.write_text("echo 2\n")
        os.utime(script, ns=(kept.st_atime_ns, kept.st_mtime_ns))
        seen.add(ref(url, "report").version_id)
    assert len(seen) == 3


def test_skills_come_and_go_while_it_serves(directory: Path) -> None:
    with served(directory) as url, client(url) as asked:
        skill(directory / "late")
        assert [it.name for it in asked.list_skills("ss-1").skills] == ["diagram", "late", "report"]
        (directory / "late/SKILL.md").unlink()
        assert [it.name for it in asked.list_skills("ss-1").skills] == ["diagram", "report"]


def test_a_skill_that_cannot_be_served_is_told_once_and_hides_no_other(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    skill(directory / "broken", text="no frontmatter")
    skill(directory / "linked")
    (directory / "linked/secret").symlink_to("/etc/passwd")
    (directory / "a,b").mkdir()
    (directory / "twice").symlink_to(directory / "ss-2/notes")
    caplog.set_level(logging.WARNING)
    offered = ServedDirectory(directory)
    offered.spaces()
    assert sorted(served.skill.name for served in offered.spaces().by_id["ss-1"]) == [
        "diagram",
        "notes",
        "report",
    ]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 3
    for place in ("broken is not served", "linked is not served", "a name with a comma"):
        assert any(place in line for line in told), told


def test_a_skill_with_what_looks_like_a_key_is_served_and_told_once(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (directory / "diagram/.env").write_text("TOKEN=1")
    offered = ServedDirectory(directory)
    offered.spaces()
    assert "diagram" in [served.skill.name for served in offered.spaces().by_id["ss-1"]]
    [told] = [record.getMessage() for record in caplog.records]
    assert told == f"{directory / 'diagram'} is served with .env, which may hold a key or a password"


def test_of_two_skills_of_one_name_the_first_is_served(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    skill(directory / "report-2", "report")
    offered = ServedDirectory(directory)
    (report,) = (it for it in offered.spaces().by_id["ss-1"] if it.skill.name == "report")
    assert report.skill.root_dir.name == "report"
    assert "report-2 is not served" in caplog.text


def test_an_empty_directory_is_a_space_without_skills(tmp_path: Path) -> None:
    place = tmp_path / "empty"
    place.mkdir()
    assert dict(ServedDirectory(place).spaces().by_id) == {"empty": ()}
    assert dict(ServedDirectory(place, space_id="team").spaces().by_id) == {"team": ()}


def test_a_directory_that_is_taken_away_has_no_skills_and_serving_goes_on(directory: Path) -> None:
    with served(directory) as url, client(url) as asked:
        directory.rename(directory.with_name("away"))
        assert asked.list_spaces().spaces[0].space_id == "ss-1"
        assert asked.list_skills("ss-1").skills == ()


def test_neither_a_skill_itself_nor_nothing_is_served(directory: Path) -> None:
    with pytest.raises(KsadkError, match="diagram is a skill, not a directory of skills") as raised:
        ServedDirectory(directory / "diagram")
    assert raised.value.hint == f"Serve the directory that it is in: {directory}"
    with pytest.raises(KsadkError, match="is no directory"):
        ServedDirectory(directory / "none")


REFUSED: list[tuple[str, dict[str, str], int, str]] = [
    ("ListSkillsBySpaceId", {}, 400, "MissingParameter"),
    ("ListSkillsBySpaceId", {"SpaceId": "nope"}, 404, "SkillSpaceNotFound"),
    ("ListSkillsBySpaceId", {"SpaceId": "../ss-1"}, 404, "SkillSpaceNotFound"),
    ("ListSkillsBySpaceId", {"SpaceId": "ss-1", "PageNumber": "0"}, 400, "InvalidParameter"),
    ("ListSkillsBySpaceId", {"SpaceId": "ss-1", "PageNumber": "-1"}, 400, "InvalidParameter"),
    ("ListSkillsBySpaceId", {"SpaceId": "ss-1", "PageNumber": "9" * 5000}, 400, "InvalidParameter"),
    ("ListSkillsBySpaceId", {"SpaceId": "ss-1", "PageSize": "101"}, 400, "InvalidParameter"),
    ("ListSkillsBySpaceId", {"SpaceId": "ss-1", "PageSize": "x"}, 400, "InvalidParameter"),
    ("GetSkillDownloadUrl", {"SkillId": "ss-1/diagram"}, 400, "MissingParameter"),
    ("GetSkillDownloadUrl", {"VersionId": "v"}, 400, "MissingParameter"),
    ("GetSkillDownloadUrl", {"SkillId": "..", "VersionId": "v"}, 404, "SkillNotFound"),
    ("GetSkillDownloadUrl", {"SkillId": "ss-1/diagram", "VersionId": "v"}, 404, "SkillVersionNotFound"),
    ("GetPremadeSkillDownloadUrl", {"SkillId": "ss-1/diagram"}, 404, "SkillNotFound"),
    ("DeleteSkill", {}, 404, "InvalidAction"),
    ("", {}, 404, "InvalidAction"),
    ("a/b/../../etc/passwd", {}, 404, "InvalidAction"),
    ("package", {}, 403, "AccessDenied"),
    ("package", {"SkillId": "ss-1/diagram", "Expires": "9999999999", "Signature": "é"}, 403, "AccessDenied"),
]


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for what changes nothing."""
    place = tmp_path_factory.mktemp("served") / "ss-1"
    skill(place / "diagram", text=DIAGRAM)
    with served(place) as url:
        yield url


@pytest.mark.parametrize(
    ("action", "query", "status", "code"), REFUSED, ids=[f"{r[0]}-{n}" for n, r in enumerate(REFUSED)]
)
def test_what_cannot_be_answered_is_refused_in_an_envelope(
    action: str, query: dict[str, str], status: int, code: str, everywhere: str
) -> None:
    answer = get(everywhere, action, **query)
    assert (answer.status_code, answer.json()["Code"]) == (status, code)
    assert set(answer.json()) == {"Code", "Message", "RequestId", "Data"}


ACTIONS = [
    "ListSkillSpaces", "ListSkillsBySpaceId", "ListAvailablePremadeSkills", "GetSkillDownloadUrl",
    "GetPremadeSkillDownloadUrl", "package", "%00", "..%2f..%2fetc%2fpasswd", "a//b",
]  # fmt: skip
NAMES = ["SpaceId", "SkillId", "VersionId", "PageNumber", "PageSize", "Expires", "Signature"]


@given(
    action=st.sampled_from(ACTIONS),
    query=st.dictionaries(
        st.sampled_from(NAMES), st.text(st.characters(codec="utf-8"), max_size=20), max_size=4
    ),
)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_request_whatever_it_says_breaks_the_service(
    action: str, query: dict[str, str], everywhere: str, caller: httpx.Client
) -> None:
    answer = caller.get(f"{everywhere}/{action}", params=query)
    assert answer.status_code in {200, 400, 403, 404}
    assert set(answer.json()) == {"Code", "Message", "RequestId", "Data"}


@pytest.fixture(scope="module")
def caller() -> Iterator[httpx.Client]:
    """One connection for many requests."""
    with httpx.Client(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        yield client


AUTHORIZATIONS = [
    "",
    TOKEN,
    f"Basic {TOKEN}",
    "Bearer",
    f"Bearer {TOKEN[:-1]}",
    f"Bearer {TOKEN}x",
    "Bearer é",
]


@pytest.mark.parametrize("header", AUTHORIZATIONS)
@pytest.mark.parametrize("action", ["ListSkillSpaces", "nothing", ""])
def test_without_the_token_nothing_is_told(header: str, action: str, everywhere: str) -> None:
    headers = {b"Authorization": header.encode("utf-8")} if header else {}
    answer = httpx.get(f"{everywhere}/{action}", headers=headers)
    assert (answer.status_code, answer.json()["Code"]) == (401, "Unauthorized")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(method: str, everywhere: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = httpx.request(method, f"{everywhere}/ListSkillSpaces", headers=headers)
    assert (answer.status_code, answer.json()["Code"]) == (405, "MethodNotAllowed")


def test_an_address_of_a_download_is_bound_to_its_version_and_expires() -> None:
    now = [1000.0]
    tickets = Tickets(lifetime=10, clock=lambda: now[0])
    query = dict(httpx.QueryParams(tickets.query("ss-1/diagram", "v1")))
    assert tickets.counts(query)
    for changed in (
        {"SkillId": "ss-1/other"},
        {"VersionId": "v2"},
        {"SkillId": "ss-1/diagra", "VersionId": "mv1"},
        {"Expires": "99999"},
        {"Expires": "x"},
        {"Signature": ""},
        {"Signature": query["Signature"].upper()},
    ):
        assert not tickets.counts(query | changed), changed
    assert not Tickets(lifetime=10, clock=lambda: now[0]).counts(query)
    now[0] = 1009.9
    assert tickets.counts(query)
    now[0] = 1010
    assert not tickets.counts(query)


def test_an_expired_address_of_a_download_is_refused_without_a_stack_trace(directory: Path) -> None:
    now = [time.time()]
    with served(directory, tickets=Tickets(clock=lambda: now[0])) as url:
        found = ref(url, "diagram")
        address = download_url(url, found.skill_id, found.version_id)
        now[0] += 301
        answer = httpx.get(address)
    assert (answer.status_code, answer.json()["Code"]) == (403, "AccessDenied")


def test_downloads_are_at_the_address_by_which_the_service_is_reached(directory: Path) -> None:
    with served(directory) as url:
        found = ref(url, "diagram")
        host = url.replace("127.0.0.1", "localhost")
        assert download_url(host, found.skill_id, found.version_id).startswith(f"{host}/package?")
        headers = {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example/x?"}
        assert httpx.get(f"{url}/ListSkillSpaces", headers=headers).status_code == 400
    with served(directory, url="https://skills.example.com/team/") as url:
        found = ref(url, "diagram")
        address = download_url(url, found.skill_id, found.version_id)
        assert address.startswith("https://skills.example.com/team/package?SkillId=ss-1%2Fdiagram&")


def test_many_callers_at_once_get_what_they_ask_for(directory: Path) -> None:
    found: list[int] = []
    with served(directory) as url, client(url) as asked:

        def ask() -> None:
            for it in asked.list_skills("ss-1").skills:
                found.append(str(ContentHash.of(asked.download(it))) == it.content_hash)

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [True] * 32
