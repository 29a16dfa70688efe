"""Signatures are those of AWS's published examples, and of an implementation that is written out here."""

from __future__ import annotations

import datetime
import hashlib
import hmac
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx
import httpx_auth._aws
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skill_wire import ACCESS_KEY, SECRET_KEY, answering

from ksadk.settings import Settings
from ksadk.skills.service_address import ServiceAddress
from ksadk.skills.service_client import SkillServiceClient
from ksadk.skills.signing import signer

EMPTY = hashlib.sha256(b"").hexdigest()

Pairs = Sequence[tuple[str, str]]


def signature(
    pairs: Pairs, headers: Pairs, when: str, region: str, service: str, secret: str = SECRET_KEY
) -> str:
    """AWS Signature V4 of a GET of `/`, as its documentation describes it; `headers` are those signed."""
    query = "&".join(sorted(f"{quote(name, '-_.~')}={quote(value, '-_.~')}" for name, value in pairs))
    named = ";".join(name for name, _ in headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers)
    request = hashlib.sha256(f"GET\n/\n{query}\n{lines}\n{named}\n{EMPTY}".encode()).hexdigest()
    scope = f"{when[:8]}/{region}/{service}/aws4_request"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, f"AWS4-HMAC-SHA256\n{when}\n{scope}\n{request}".encode(), hashlib.sha256).hexdigest()


SUITE = [
    ([], "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    (
        [("Param2", "value2"), ("Param1", "value1")],
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    ([("ሴ", "bar")], "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"),
]
"""get-vanilla, get-vanilla-query-order-key-case and get-vanilla-utf8-query of the test suite of AWS."""


@pytest.mark.parametrize(("pairs", "expected"), SUITE)
def test_what_is_written_out_here_signs_as_the_suite_of_aws(pairs: Pairs, expected: str) -> None:
    when = "20150830T123600Z"
    headers = [("host", "example.amazonaws.com"), ("x-amz-date", when)]
    assert signature(pairs, headers, when, "us-east-1", "service") == expected


def at(monkeypatch: pytest.MonkeyPatch, *when: int) -> None:
    """Set the clock that the library reads."""

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.datetime(*when, tzinfo=tz)  # type: ignore[misc]

    monkeypatch.setattr(
        httpx_auth._aws, "datetime", SimpleNamespace(datetime=Clock, timezone=datetime.timezone)
    )


def signed(address: ServiceAddress, url: str, headers: dict[str, str] | None = None) -> dict[str, str]:
    """The headers of a request once it is signed."""
    request = httpx.Request("GET", url, headers=headers)
    return dict(next(signer(address).auth_flow(request)).headers)


EXAMPLES = [
    ("?lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    ("?max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
]
"""Of the documentation of S3's API, "Examples: Signature Calculations"."""


@pytest.mark.parametrize(("query", "expected"), EXAMPLES)
def test_the_library_signs_as_the_published_examples(
    query: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 2013, 5, 24)
    keys = {"access_key": "AKIAIOSFODNN7EXAMPLE", "secret_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
    address = ServiceAddress("https://x", region="us-east-1", sign_service="s3", **keys)
    headers = signed(address, f"https://examplebucket.s3.amazonaws.com/{query}")
    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        f" SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={expected}"
    )


SIGNED_HERE = ("content-type", "host", "x-amz-content-sha256", "x-amz-date")

GATEWAY = ServiceAddress(
    "https://aicp.api.ksyun.com", "signed", access_key=ACCESS_KEY, secret_key=SECRET_KEY, token="unused-token"
)

text = st.text(st.characters(codec="utf-8"), max_size=12)


@given(text, st.sampled_from(["图 表", "a+b", "~", "*", "/", "%20", "=&", "", "'()!"]))
def test_every_value_is_signed_as_it_is_sent(value: str, odd: str) -> None:
    named = {"SkillId": value + odd, "VersionId": odd + value}
    url = GATEWAY.url("GetSkillDownloadUrl", named)
    headers = signed(GATEWAY, url, GATEWAY.headers("GetSkillDownloadUrl"))
    pairs = [("Action", "GetSkillDownloadUrl"), ("Version", "2024-06-12"), *named.items()]
    expected = signature(
        pairs, [(n, headers[n]) for n in SIGNED_HERE], headers["x-amz-date"], "cn-beijing-6", "aicp"
    )
    assert headers["authorization"].endswith(f"SignedHeaders={';'.join(SIGNED_HERE)}, Signature={expected}")
    assert httpx.URL(url).raw_path.decode() == url.removeprefix("https://aicp.api.ksyun.com")


def test_a_private_gateway_gets_what_it_can_verify_and_never_the_token() -> None:
    given = {"skill_service_access_key": ACCESS_KEY, "skill_service_secret_key": SECRET_KEY}
    with answering("direct_list_skills") as service:
        settings = Settings(
            skill_service_url=service.url,
            skill_service_signed_hosts=(f"127.0.0.1:{service.port}",),
            skill_service_token="a-token-of-somebody",
            **given,
        )
        with SkillServiceClient.from_env(settings) as client:
            client.list_skills("团队 1")
    (sent,) = service.requests
    pairs = [
        ("Action", "ListSkillsBySpaceId"),
        ("Version", "2024-06-12"),
        ("SpaceId", "团队 1"),
        ("PageNumber", "1"),
        ("PageSize", "100"),
    ]
    headers = [(name, sent.headers[name]) for name in SIGNED_HERE]
    expected = signature(pairs, headers, sent.headers["x-amz-date"], "cn-beijing-6", "aicp")
    assert sent.headers["authorization"].endswith(f"Signature={expected}")
    assert "a-token-of-somebody" not in str(sent)
    assert SECRET_KEY not in str(sent)
