"""Where the Skill Service is, which requests are signed, and what is refused before anything is sent."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skill_wire import ACCESS_KEY, SECRET_KEY, TOKEN

from ksadk.settings import Settings
from ksadk.skills.errors import SkillServiceError
from ksadk.skills.service_address import PUBLIC_HOST, ServiceAddress, clean_base, service_configured

KEYS = {"skill_service_access_key": ACCESS_KEY, "skill_service_secret_key": SECRET_KEY}


def address(**settings: Any) -> ServiceAddress:
    return ServiceAddress.from_settings(Settings(**(KEYS | settings)))


BASES = [
    ("https://skills.example.com", "https://skills.example.com"),
    ("https://skills.example.com/", "https://skills.example.com"),
    ("https://Skills.Example.com:8443//", "https://skills.example.com:8443"),
    ("https://skills.example.com/openapi.json", "https://skills.example.com"),
    ("https://skills.example.com/v2/openapi.json?x=1", "https://skills.example.com/v2"),
    ("https://skills.example.com/docs", "https://skills.example.com/api/v1"),
    ("https://skills.example.com/team/docs/#/Skills", "https://skills.example.com/team/api/v1"),
    ("https://skills.example.com/mydocs", "https://skills.example.com/mydocs"),
    ("http://127.0.0.1:8082/api/v1/?token=x#y", "http://127.0.0.1:8082/api/v1"),
    ("http://[::1]:8082/", "http://[::1]:8082"),
]


@pytest.mark.parametrize(("url", "base"), BASES, ids=[row[0] for row in BASES])
def test_an_address_is_cleaned_of_what_people_paste_with_it(url: str, base: str) -> None:
    assert clean_base(url) == base
    assert clean_base(base) == base


UNUSABLE = [
    "skills.example.com",
    "ftp://skills.example.com",
    "https://",
    "https:///path",
    "https://user:s3cret@skills.example.com",
    "https://aicp.api.ksyun.com@evil.example",
    "https://skills.example.com\\@evil.example",
    "https://skills.example.com:port",
    "https://skills.example.com:",
    "https://skills.example.com;x",
    "https://skills%2eexample.com",
    "https://.example.com",
    f"https://{'a' * 5000}!",
    "https://skills.example.com:99999",
    "https://skills .example.com",
    "https://skills.example.com/\r\nX: y",
    "https://бета.example.com",
    f"http://{PUBLIC_HOST}",
    f"http://{PUBLIC_HOST.upper()}:8080/api",
]


@pytest.mark.parametrize("url", UNUSABLE)
def test_what_is_no_address_of_a_service_is_refused(url: str) -> None:
    with pytest.raises(SkillServiceError) as raised:
        address(skill_service_url=url)
    assert raised.value.code == "invalid_skill_service_address"
    assert "s3cret" not in raised.value.message


MODES = [
    (f"https://{PUBLIC_HOST}", "signed"),
    (f"https://{PUBLIC_HOST.upper()}:443/x", "signed"),
    ("https://gateway.example.com", "signed"),
    ("http://gateway.example.com:8080", "signed"),
    ("https://ported.example.com:8443", "signed"),
    ("https://ported.example.com", "direct"),
    (f"https://{PUBLIC_HOST}.evil.example", "direct"),
    (f"https://evil{PUBLIC_HOST}", "direct"),
    (f"https://evil.{PUBLIC_HOST}", "direct"),
    (f"https://{PUBLIC_HOST}.", "direct"),
    (f"https://{PUBLIC_HOST}:8443", "direct"),
    (f"https://evil.example/{PUBLIC_HOST}", "direct"),
    (f"https://evil.example/?{PUBLIC_HOST}", "direct"),
    ("https://gateway.example.com.evil.example", "direct"),
]


@pytest.mark.parametrize(("url", "mode"), MODES, ids=[row[0] for row in MODES])
def test_only_the_very_hosts_of_gateways_are_signed_for(url: str, mode: str) -> None:
    hosts = ("Gateway.example.com", "ported.example.com:8443")
    assert address(skill_service_url=url, skill_service_signed_hosts=hosts).mode == mode


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30))
def test_no_host_that_only_looks_like_the_gateway_is_signed_for(text: str) -> None:
    for url in (f"https://{PUBLIC_HOST}{text}", f"https://{text}{PUBLIC_HOST}"):
        try:
            found = address(skill_service_url=url)
        except SkillServiceError:
            continue
        asked = httpx.URL(url)  # which is who the request would go to
        assert (found.mode == "signed") == (asked.host == PUBLIC_HOST and asked.port in (None, 443))


ORDERS: list[tuple[dict[str, Any], str]] = [
    ({"skill_service_url": "https://a.example", "skill_service_endpoint": "b.example"}, "https://a.example"),
    ({"skill_space_ids": ("s",), "skill_service_endpoint": "b.example"}, "https://b.example"),
    (
        {
            "skill_space_ids": ("s",),
            "skill_service_endpoint": "127.0.0.1:8082",
            "skill_service_scheme": "http",
        },
        "http://127.0.0.1:8082",
    ),
    ({"skill_space_ids": ("s",)}, f"https://{PUBLIC_HOST}"),
    ({"public_skill_space_ids": ("public",)}, f"https://{PUBLIC_HOST}"),
]


@pytest.mark.parametrize(("settings", "base"), ORDERS, ids=[row[1] for row in ORDERS])
def test_the_url_counts_before_the_endpoint_and_that_before_the_public_gateway(
    settings: dict[str, Any], base: str
) -> None:
    assert address(**settings).base == base
    assert service_configured(Settings(**settings))


def test_without_a_url_and_without_a_space_there_is_no_service() -> None:
    assert not service_configured(Settings())
    with pytest.raises(SkillServiceError) as raised:
        address(skill_service_endpoint="b.example")
    assert raised.value.code == "skill_service_not_configured"


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"skill_service_secret_key": ""}, "skill_service_unauthenticated", "KSADK_SKILL_SERVICE_SECRET_KEY"),
    ({"skill_service_access_key": ""}, "skill_service_unauthenticated", "KSADK_SKILL_SERVICE_ACCESS_KEY"),
    ({"skill_service_scheme": "http"}, "invalid_skill_service_address", "over https only"),
    (
        {"skill_service_endpoint": "https://b.example"},
        "invalid_skill_service_address",
        "KSADK_SKILL_SERVICE_ENDPOINT is 'https://b.example', not a host",
    ),
    ({"skill_service_token": "a\r\nX-Evil: 1"}, "invalid_skill_service_address", "KSADK_SKILL_SERVICE_TOKEN"),
    ({"skill_service_account_id": "a b"}, "invalid_skill_service_address", "KSADK_SKILL_SERVICE_ACCOUNT_ID"),
    ({"skill_service_region": "cn\n"}, "invalid_skill_service_address", "KSADK_SKILL_SERVICE_REGION"),
]


@pytest.mark.parametrize(("settings", "code", "said"), REFUSED, ids=[row[2] for row in REFUSED])
def test_what_cannot_be_sent_is_refused_before_any_request(
    settings: dict[str, Any], code: str, said: str
) -> None:
    with pytest.raises(SkillServiceError) as raised:
        address(**({"skill_space_ids": ("s",)} | settings))
    assert raised.value.code == code
    assert said in raised.value.message
    assert "X-Evil" not in raised.value.message


def test_the_older_names_of_the_variables_count_too() -> None:
    environ = {
        "KSYUN_ACCESS_KEY": "AK",
        "KS3_ACCESS_KEY": "other",
        "KS3_SECRET_KEY": "SK",
        "KSYUN_ACCOUNT_ID": "1",
        "KSYUN_REGION": "pre-online",
        "AGENTENGINE_PRE_CONTROL_REGION": "cn-shanghai-2",
        "SKILL_SPACE_ID": "ss-1",
    }
    found = ServiceAddress.from_settings(Settings.from_env(environ))
    assert (found.access_key, found.secret_key, found.account_id) == ("AK", "SK", "1")
    assert (found.region, found.pre_online, found.mode) == ("cn-shanghai-2", True, "signed")


def test_no_secret_is_in_what_an_address_shows() -> None:
    found = address(skill_service_url="https://a.example", skill_service_token=TOKEN)
    for secret in found.secrets():
        assert secret not in f"{found!r} {found}"
    assert set(found.secrets()) == {TOKEN, ACCESS_KEY, SECRET_KEY}


DOWNLOADS = [
    ("https://a.example", "https://b.example/x?y=z", True),
    ("https://a.example", "https://a.example/x", True),
    ("https://a.example", "http://a.example/x", False),
    ("https://a.example", "http://127.0.0.1/x", False),
    ("http://a.example", "http://a.example:81/x", True),
    ("http://a.example", "http://b.example/x", False),
    ("http://a.example", "http://169.254.169.254/latest", False),
    ("http://a.example", "http://127.0.0.1/x", False),
    ("http://127.0.0.1:8082", "http://localhost:9/x", True),
    ("http://127.0.0.1:8082", "http://127.0.0.1.evil.example/x", False),
    ("https://a.example", "file:///etc/passwd", False),
    ("https://a.example", "https://user@b.example/x", False),
    ("https://a.example", "https://b.example:port/x", False),
    ("https://a.example", "https://b.example/\nx", False),
    ("https://a.example", "//b.example/x", False),
    ("https://a.example", "/x", False),
    ("https://a.example", "https://127.0.0.1/x", False),
    ("https://a.example", "https://localhost./x", False),
    ("https://a.example", "https://2852039166/latest", False),
    ("https://a.example", "https://[::ffff:169.254.169.254]/latest", False),
    ("https://a.example", "https://0/x", False),
    ("https://a.example", "https://10.0.0.1/x", True),
    ("http://127.0.0.1:8082", "https://127.0.0.1/x", True),
    ("http://localhost:8082", "http://127.0.0.1/x", True),
]


@pytest.mark.parametrize(
    ("base", "url", "taken"), DOWNLOADS, ids=[f"{row[0]} {row[1]!r}" for row in DOWNLOADS]
)
def test_a_package_comes_over_https_or_from_the_services_own_host(base: str, url: str, taken: bool) -> None:
    assert address(skill_service_url=base).takes_download(url) is taken
