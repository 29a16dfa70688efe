"""A Skill Service that misbehaves is told of in words, in time, and without a secret."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skill_wire import ACCOUNT, TOKEN, Answer, answer_bytes, answering, http, slowly

from ksadk.settings import Settings
from ksadk.skills import service_client
from ksadk.skills.answers import download_url, opened, spaces
from ksadk.skills.errors import SkillError, SkillServiceError
from ksadk.skills.models import SkillListResponse, SkillRef
from ksadk.skills.service_address import ServiceAddress
from ksadk.skills.service_client import SkillServiceClient

S1 = SkillRef("s1", "diagram", "v1")
SIGNATURE = "download-signature"


def listing(*names: str, total: int | None = None, **data: Any) -> bytes:
    """The answer that lists skills of these names."""
    skills = [{"SkillId": name, "VersionId": "v1", "Name": name} for name in names]
    body: dict[str, Any] = {"Code": 0, "Data": {"Skills": skills, **data}}
    if total is not None:
        body["Data"]["TotalCount"] = total
    return http(json.dumps(body).encode())


def numbered(first: int, last: int) -> list[str]:
    return [f"skill-{number}" for number in range(first, last + 1)]


PAGES: list[tuple[str, list[bytes], int, int, list[str]]] = [
    ("a short page is the last", [listing(*numbered(1, 99))], 99, 1, []),
    ("a full page without a total", [listing(*numbered(1, 100)), listing()], 100, 2, []),
    (
        "more than a page at once is all there is",
        [listing(*numbered(1, 150))],
        150,
        1,
        [],
    ),
    (
        "the 101st skill",
        [listing(*numbered(1, 100), total=101), listing("skill-101", total=101)],
        101,
        2,
        [],
    ),
    (
        "pages of the service's own size",
        [
            listing(*numbered(1, 20), total=60),
            listing(*numbered(1, 50), total=60),
            listing(*numbered(51, 60), total=60),
        ],
        60,
        3,
        [],
    ),
    (
        "a service that knows no pages",
        [listing(*numbered(1, 100))],
        100,
        2,
        ["pagination_repeated: page 2 of the space ss-1 has nothing new"],
    ),
    (
        "a page that comes again",
        [listing(*numbered(1, 100), total=150)],
        100,
        2,
        [
            "pagination_repeated: page 2 of the space ss-1 has nothing new",
            "directory_incomplete: the space ss-1 has 150 items, and 100 were listed",
        ],
    ),
    (
        "fewer than there are said to be",
        [listing(*numbered(1, 100), total=150), listing(*numbered(101, 120), total=150), listing(total=150)],
        120,
        3,
        ["directory_incomplete: the space ss-1 has 150 items, and 120 were listed"],
    ),
    (
        "a directory that changes meanwhile",
        [listing(*numbered(1, 100), total=101), listing("skill-101", "skill-102", total=102)],
        102,
        2,
        ["directory_changed: the space ss-1 had 101 items, then 102, while it was listed"],
    ),
    (
        "pages without an end",
        [listing(*numbered(n * 100 + 1, n * 100 + 100)) for n in range(30)],
        2000,
        20,
        ["page_budget_exhausted: the space ss-1 has more than 20 pages of 100"],
    ),
]


@pytest.mark.parametrize(
    ("name", "answers", "count", "requests", "warnings"), PAGES, ids=[p[0] for p in PAGES]
)
def test_every_page_is_asked_for_and_what_is_wrong_with_them_is_told(
    name: str, answers: list[bytes], count: int, requests: int, warnings: list[str]
) -> None:
    with answering(*answers) as service, service.client() as client:
        found = client.list_skills("ss-1")
    assert [skill.name for skill in found.skills] == numbered(1, count)
    assert (len(service.requests), list(found.warnings)) == (requests, warnings)


def test_an_item_that_is_none_hides_no_other() -> None:
    skills = [{"SkillId": "x"}, {"SkillId": "s1", "Name": "diagram"}, "text"]
    answer = http(json.dumps({"Data": {"Skills": skills, "TotalCount": 3}}).encode())
    with answering(answer) as service, service.client() as client:
        found = client.list_skills("ss-1")
    assert [skill.name for skill in found.skills] == ["diagram"]
    assert len(found.refused) == 2
    assert found.warnings == ()


def test_a_service_cannot_pass_its_skills_off_as_those_of_another_space() -> None:
    skills = [{"SkillId": "s1", "Name": "diagram", "SpaceId": "local"}]
    answer = http(json.dumps({"Data": {"SkillSpaceId": "local", "Skills": skills}}).encode())
    with answering(answer) as service, service.client() as client:
        found = client.list_skills("ss-1")
    assert (found.space_id, [skill.space_id for skill in found.skills]) == ("ss-1", ["ss-1"])


@pytest.mark.parametrize("total", [True, -5, 10**3000, 1.5, "9", float("nan"), [], {}])
def test_a_total_that_is_no_number_of_items_says_nothing(total: object) -> None:
    answer = http(json.dumps({"Data": {"TotalCount": total, "Skills": [{"Name": "a"}]}}).encode())
    with answering(answer) as service, service.client() as client:
        assert client.list_skills("ss-1").warnings == ()


def test_a_space_without_an_id_is_left_out_and_told() -> None:
    answer = http(b'{"Data":{"Spaces":[{"SpaceName":"x"},{"SpaceId":"ss-1"},7]}}')
    with answering(answer) as service, service.client() as client:
        found = client.list_spaces()
    assert [space.space_id for space in found.spaces] == ["ss-1"]
    assert list(found.warnings) == ["item 0 has no SkillSpaceId", "item 2 has no SkillSpaceId"]


def closes(connection: socket.socket) -> None:
    """Ends the connection without a word."""


def floods(connection: socket.socket) -> None:
    """Sends more than anybody wants."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        connection.sendall(bytes(1 << 20))


BROKEN: list[tuple[str, Answer, str, str]] = [
    ("closes", closes, "skill_service_unreachable", "the answer broke off"),
    ("no http", b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "skill_service_unreachable", "the answer broke off"),
    ("cut", http(b'{"Code":0', "200 OK", "Content-Length: 50"), "skill_service_unreachable", "broke off"),
    ("cut json", http(b'{"Code":0'), "invalid_skill_service_answer", "no JSON"),
    ("deep json", http(b"[" * 100_000), "invalid_skill_service_answer", "no JSON"),
    ("empty", http(b""), "invalid_skill_service_answer", "no JSON"),
    ("null", http(b"null"), "invalid_skill_service_answer", "no JSON"),
    ("floods", floods, "invalid_skill_service_answer", "the answer is larger than 8 MiB"),
    (
        "says that it will flood",
        http(b"", "200 OK", "Content-Length: 99999999999"),
        "invalid_skill_service_answer",
        "the answer is larger than 8 MiB",
    ),
    (
        "compressed",
        http(b"\x1f\x8b", "200 OK", "Content-Encoding: gzip"),
        "invalid_skill_service_answer",
        "the answer is compressed, which was not asked for",
    ),
    (
        "skills that are no list",
        http(b'{"Data":{"Skills":{}}}'),
        "invalid_skill_service_answer",
        "Skills is not",
    ),
    ("data that is no object", http(b'{"Data":[]}'), "invalid_skill_service_answer", "Data is not an object"),
    (
        "a code that is none",
        http(b'{"Code":false}'),
        "skill_service_refused",
        "with no Code of success",
    ),
    (
        "more items than anybody has",
        http(b'{"Data":{"Skills":[' + b"0," * 10_000 + b"0]}}"),
        "invalid_skill_service_answer",
        "Skills has more than 10,000 items",
    ),
    ("an error of http", http(b"{}", "418 Teapot"), "skill_service_refused", "HTTP 418"),
    ("forbidden", http(b"no", "403 Forbidden"), "skill_service_unauthenticated", "HTTP 403"),
]


@pytest.mark.parametrize(("name", "answer", "code", "said"), BROKEN, ids=[row[0] for row in BROKEN])
def test_an_answer_that_cannot_be_used_is_told(name: str, answer: Answer, code: str, said: str) -> None:
    with answering(answer) as service, service.client() as client, pytest.raises(SkillServiceError) as raised:
        client.list_skills("ss-1")
    assert raised.value.code == code
    assert said in raised.value.message


BUSY = http(b"busy", "503 Service Unavailable")
RETRIED: list[tuple[str, list[Answer], int, list[float]]] = [
    ("busy once", [BUSY, listing("a")], 2, [0.2]),
    ("busy twice", [BUSY, http(b"", "502 Bad Gateway"), listing("a")], 3, [0.2, 0.4]),
    ("told when", [http(b"", "429 Too Many Requests", "Retry-After: 3"), listing("a")], 2, [3.0]),
    (
        "told a date",
        [http(b"", "504 x", "Retry-After: Fri, 02 Jan 2026 03:04:05 GMT"), listing("a")],
        2,
        [0.2],
    ),
]


@pytest.mark.parametrize(("name", "answers", "requests", "slept"), RETRIED, ids=[row[0] for row in RETRIED])
def test_a_service_that_is_busy_is_asked_again(
    name: str, answers: list[Answer], requests: int, slept: list[float]
) -> None:
    waited: list[float] = []
    with answering(*answers) as service:
        address = ServiceAddress(service.url, token=TOKEN)
        with SkillServiceClient(address, sleep=waited.append) as client:
            assert [skill.name for skill in client.list_skills("ss-1").skills] == ["a"]
    assert (len(service.requests), waited) == (requests, slept)


NOT_RETRIED: list[tuple[str, Answer, int]] = [
    ("busy for ever", BUSY, 3),
    ("wants to be left alone for long", http(b"", "503 x", "Retry-After: 3600"), 1),
    ("broke", http(b"", "500 Internal Server Error"), 1),
    ("closes", closes, 1),
]


@pytest.mark.parametrize(("name", "answer", "requests"), NOT_RETRIED, ids=[row[0] for row in NOT_RETRIED])
def test_it_is_not_asked_for_ever(name: str, answer: Answer, requests: int) -> None:
    with answering(answer) as service, service.client() as client, pytest.raises(SkillServiceError):
        client.list_skills("ss-1")
    assert len(service.requests) == requests


def test_where_nothing_listens_that_is_said_after_three_tries() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    waited: list[float] = []
    client = SkillServiceClient(ServiceAddress(f"http://127.0.0.1:{port}"), sleep=waited.append)
    with client, pytest.raises(SkillServiceError) as raised:
        client.list_skills("ss-1")
    assert raised.value.code == "skill_service_unreachable"
    assert raised.value.message.startswith("ListSkillsBySpaceId: no connection: ")
    assert len(waited) == 2


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
SLOW: list[tuple[str, Answer, str]] = [
    ("says nothing", lambda connection: time.sleep(60), "the service was silent for 0.3 s"),
    ("byte by byte", lambda connection: slowly_after_head(connection), "the answer took more than 0.3 s"),
    *(
        (
            f"for ever in {where}",
            lambda connection, sent=sent: trickles(connection, sent),
            "took more than 1.3 s",
        )
        for where, sent in {
            "a header": b"X: ",
            "a chunk's head": CHUNKED + b"1;",
            "what is behind the chunks": CHUNKED + b"2\r\n{}\r\n0\r\nX: ",
        }.items()
    ),
    ("for ever before the answer", lambda connection: hints(connection), "took more than 1.3 s"),
]


def trickles(connection: socket.socket, begun: bytes) -> None:
    """An answer that is never quite silent, and never there."""
    connection.sendall(b"HTTP/1.1 200 OK\r\n" + begun)
    slowly(b"x" * 1000, 0.1)(connection)


def hints(connection: socket.socket) -> None:
    """One answer after another that only announces the real one."""
    for _ in range(1000):
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        time.sleep(0.1)


def slowly_after_head(connection: socket.socket) -> None:
    head, _, body = listing(*numbered(1, 40)).partition(b"\r\n\r\n")
    connection.sendall(head + b"\r\n\r\n")
    slowly(body, 0.02)(connection)


@pytest.mark.parametrize(("name", "answer", "said"), SLOW, ids=[row[0] for row in SLOW])
def test_a_slow_answer_is_given_up_in_time(name: str, answer: Answer, said: str) -> None:
    begun = time.monotonic()
    with answering(answer) as service:
        client = SkillServiceClient(ServiceAddress(service.url), timeout=0.3)
        with client, pytest.raises(SkillServiceError) as raised:
            client.list_skills("ss-1")
    assert raised.value.code == "skill_service_timeout"
    assert raised.value.message.startswith("ListSkillsBySpaceId: ")
    assert raised.value.message.endswith(said)
    assert time.monotonic() - begun < 30  # and not the 100 s that some of these go on


GOTTEN: list[tuple[str, Answer, str]] = [
    ("redirect", answer_bytes("redirect"), "a redirect, which is not followed"),
    ("forbidden", http(b"<Error/>", "403 Forbidden"), "from 127.0.0.1 answered HTTP 403"),
    ("partial", http(b"PK", "206 Partial Content"), "answered HTTP 206"),
    ("cut", http(b"PK", "200 OK", "Content-Length: 50"), "the answer broke off"),
    ("floods", floods, "larger than 20 MiB"),
    ("closes", closes, "the answer broke off"),
    ("echoes", f"GET /archives/s1.zip?Signature={SIGNATURE}\r\n\r\n".encode(), "the answer broke off"),
]


@pytest.mark.parametrize(("name", "answer", "said"), GOTTEN, ids=[row[0] for row in GOTTEN])
def test_a_download_that_fails_is_told_without_its_address(name: str, answer: Answer, said: str) -> None:
    with answering("direct_download_url", answer) as service:
        client = service.client()
        with client, pytest.raises(SkillServiceError) as raised:
            client.download(S1)
    assert said in raised.value.message
    assert raised.value.message.startswith("the download of diagram")
    shown = "".join(traceback.format_exception(raised.value)) + str(raised.value.to_result())
    assert SIGNATURE not in shown
    assert "/archives/" not in shown


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1/x.zip?Signature=download-signature", "ftp://x", "x", "https://"]
)
def test_a_download_from_elsewhere_is_refused(url: str) -> None:
    answer = http(json.dumps({"Data": {"DownloadUrl": url}}).encode())
    with answering(answer) as service:
        client = service.client()
        with client, pytest.raises(SkillServiceError, match="neither https nor the service's") as raised:
            client.download(S1)
    assert SIGNATURE not in str(raised.value.to_result())
    assert len(service.requests) == 1


def test_a_package_may_take_longer_than_an_answer() -> None:
    package = http(bytes(40))
    with (
        answering("direct_download_url", slowly(package, 0.01)) as service,
        SkillServiceClient(ServiceAddress(service.url), timeout=0.5) as client,
    ):
        assert client.download(S1) == bytes(40)


def every_error(service_answer: Answer, ask: Callable[[SkillServiceClient], object]) -> str:
    """All that an error shows, its causes included."""
    with answering(service_answer) as service, service.client() as client:
        with pytest.raises(SkillServiceError) as raised:
            ask(client)
        return (
            "".join(traceback.format_exception(raised.value)) + str(raised.value.to_result()) + repr(client)
        )


ECHOES = [
    http(json.dumps({"Code": 1, "Message": f"bad token {TOKEN}", "RequestId": TOKEN}).encode()),
    http(json.dumps({"Code": TOKEN, "Message": "x"}).encode(), "401 Unauthorized"),
    http(json.dumps({"Code": 1, "Message": f"https://x.example/a?Signature={SIGNATURE}"}).encode()),
    http(json.dumps({"Data": {"Skills": TOKEN}}).encode()),
    http(TOKEN.encode(), "500 Internal Server Error"),
    http(TOKEN.encode()),
    f"HTTP/1.1 200 OK\r\nAuthorization Bearer {TOKEN}\r\n\r\n".encode(),
    f"Bearer {TOKEN}\r\n\r\n".encode(),
    http(b"", "302 Found", f"Location: http://x:{TOKEN}/"),
]


@pytest.mark.parametrize("answer", ECHOES, ids=range(len(ECHOES)))
def test_no_error_holds_a_secret_that_the_service_says(answer: bytes) -> None:
    shown = every_error(answer, lambda client: client.list_skills("ss-1"))
    assert TOKEN not in shown
    assert SIGNATURE not in shown


def test_no_log_holds_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with answering("direct_download_url", "download") as service, service.client() as client:
        client.download(S1)
    assert "/archives/s1.zip" in caplog.text  # the request is in the log, by httpx
    assert SIGNATURE not in caplog.text
    assert TOKEN not in caplog.text


def test_other_requests_of_the_program_are_logged_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    import httpx

    caplog.set_level(logging.INFO)
    with answering("direct_download_url", "download", "html") as service, service.client() as client:
        client.download(S1)
        httpx.get(f"{service.url}/page?of=mine")
    assert "/page?of=mine" in caplog.text


def test_what_is_on_this_machine_is_not_asked_for_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with answering("direct_list_skills") as service, service.client() as client:
        assert len(client.list_skills("ss-1").skills) == 2


def test_what_is_elsewhere_is_asked_for_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering("direct_list_skills") as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with SkillServiceClient(ServiceAddress("http://skills.example")) as client:
            assert len(client.list_skills("ss-1").skills) == 2
    assert proxy.requests[0].line.startswith("GET http://skills.example/ListSkillsBySpaceId?")


def test_several_threads_use_one_client() -> None:
    with answering("direct_list_skills") as service, service.client() as client:
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda: found.append(len(client.list_skills("ss-1").skills)))
            for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [2] * 20


def test_the_variables_make_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering("direct_list_skills") as service:
        monkeypatch.setenv("KSADK_SKILL_SERVICE_URL", f"{service.url}/docs")
        monkeypatch.setenv("KSADK_SKILL_SERVICE_TOKEN", TOKEN)
        monkeypatch.setenv("KSADK_SKILL_SERVICE_ACCOUNT_ID", ACCOUNT)
        with SkillServiceClient.from_env() as client:
            client.list_skills("ss-1")
    assert service.requests[0].line == "GET /api/v1/ListSkillsBySpaceId?SpaceId=ss-1 HTTP/1.1"
    assert service.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_nothing_is_asked_where_a_key_is_missing() -> None:
    with pytest.raises(ValueError, match="KSADK_SKILL_SERVICE_ACCESS_KEY is not set"):
        SkillServiceClient.from_env(Settings(skill_space_ids=("ss-1",)))


@pytest.mark.parametrize(
    ("payload", "key"),
    [
        ({"SkillId": "a/b:c", "Name": "x", "VersionId": "v/1:0", "Version": "2"}, "a_b_c__v_1_0"),
        ({"skill_id": "a", "name": "x", "version": 1.5}, "a__1.5"),
        ({"Name": "x"}, "__"),
    ],
)
def test_the_key_of_a_skill_is_its_id_and_version(payload: dict[str, Any], key: str) -> None:
    assert SkillRef.from_payload(payload).cache_key == key


def test_a_skill_with_a_character_that_nothing_can_write_is_refused_and_hides_no_other() -> None:
    skills = json.loads(
        r'[{"Name": "a\ud800"}, {"Name": "b", "Version": "\udfff"}, {"Name": "c", "Tags": ["\ud800"]}]'
    )
    found = SkillListResponse.from_payload({"Data": {"Skills": skills}})
    assert [(skill.name, skill.tags) for skill in found.skills] == [("c", ())]
    assert len(found.refused) == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["Code", "code", "Data", "data", "Skills", "Items", "Spaces", "SkillId", "Name",
                         "SpaceId", "TotalCount", "DownloadUrl", "Tags", "Message", "RequestId"]),
        inner, max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON, st.sampled_from([200, 401, 404, 500]))
@settings(max_examples=300)
def test_no_answer_whatever_its_form_is_more_than_refused(answer: Any, status: int) -> None:
    try:
        payload = opened("ListSkillSpaces", status, json.dumps(answer).encode(), lambda text: text)
        SkillListResponse.from_payload(payload)
        download_url(payload)
        spaces(payload)
    except SkillError as error:
        assert error.kind


def test_a_retry_waits_no_longer_than_is_bearable() -> None:
    assert service_client.FIRST_PAUSE * 2**service_client.RETRIES < service_client.LONGEST_PAUSE
