"""Where the Skill Service is, and how requests to it prove who asks: a bearer token, or a signature."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from urllib.parse import SplitResult, quote, urlsplit

from ksadk.hosts import reach
from ksadk.skills.errors import SkillServiceError

if TYPE_CHECKING:
    from ksadk.settings import Settings

Mode = Literal["direct", "signed"]

PUBLIC_HOST = "aicp.api.ksyun.com"
"""The public gateway. It takes signed requests only, and is spoken to over https only."""

PRE_ONLINE = "pre-online"

_OWN_REACH = frozenset({"loopback", "link-local", "unspecified"})
_UNRESERVED = "-_.~"
_HEADER_VALUE = re.compile(r"[\x21-\x7e]+")
_NETLOC = re.compile(r"([\w-]+(\.[\w-]+)*\.?|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?", re.ASCII)
_BLANK_OR_ODD = re.compile(r"[\s\\<>\"{}|^`]|[^\x20-\x7e]")


@dataclass(frozen=True)
class ServiceAddress:
    """Where requests go, and what they carry. Secrets are in no `repr`.

    base: scheme, host, port and path, without a slash at the end.
    mode: `direct` has a bearer token, where there is one; `signed` has an AWS Signature V4.
    """

    base: str
    mode: Mode = "direct"
    token: str = field(default="", repr=False)
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    account_id: str = ""
    region: str = "cn-beijing-6"
    pre_online: bool = False
    api_version: str = "2024-06-12"
    sign_service: str = "aicp"

    @classmethod
    def from_settings(cls, settings: Settings) -> ServiceAddress:
        """Of the variables: KSADK_SKILL_SERVICE_URL, else the endpoint where any space is set.

        Raises `SkillServiceError`: nothing is configured, the address cannot be used, or keys are missing.
        """
        base = clean_base(_configured(settings))
        mode = _mode(urlsplit(base), settings.skill_service_signed_hosts)
        region = settings.skill_service_region
        address = cls(
            base=base,
            mode=mode,
            token=settings.skill_service_token,
            access_key=settings.skill_service_access_key,
            secret_key=settings.skill_service_secret_key,
            account_id=settings.skill_service_account_id,
            region=settings.pre_control_region if region == PRE_ONLINE else region,
            pre_online=region == PRE_ONLINE,
            api_version=settings.skill_service_api_version,
            sign_service=settings.skill_service_sign_service,
        )
        _check(address)
        return address

    @property
    def host(self) -> str:
        """Host and port, as messages name the service."""
        return urlsplit(self.base).netloc

    @property
    def is_loopback(self) -> bool:
        """Whether the service is on this machine."""
        return _is_loopback(urlsplit(self.base).hostname)

    def url(self, action: str, parameters: Mapping[str, str]) -> str:
        """The address of a request. Everything but letters, digits and `-_.~` is percent-encoded, a blank as
        %20, so that a signature is made of the very bytes that are sent."""
        if self.mode == "direct":
            query = _query(parameters)
            return f"{self.base}/{action}" + (f"?{query}" if query else "")
        parts = urlsplit(self.base)
        named = {"Action": action, "Version": self.api_version, **parameters}
        return f"{parts.scheme}://{parts.netloc}/?{_query(named)}"

    def headers(self, action: str) -> dict[str, str]:
        """The headers of a request, but for the signature."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.account_id:
            headers["X-Ksc-Account-Id"] = self.account_id
        if self.mode == "signed":
            headers |= {
                "X-Ksc-Region": self.region,
                "X-Ksc-Source": "ksadk-skill-runtime",
                "X-Action": action,
                "X-Version": self.api_version,
            }
            if self.pre_online:
                headers["X-KSC-CUSTOM-SOURCE"] = "pre"
        return headers

    def takes_download(self, url: str) -> bool:
        """Whether a package may be got from there: over https, or from the service itself, or from this
        machine where the service is on it too. A service elsewhere names no host that only this machine
        reaches, such as itself or its metadata."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            return False
        if not _NETLOC.fullmatch(parts.netloc) or _BLANK_OR_ODD.search(url):
            return False
        own = urlsplit(self.base)
        if host != own.hostname and not self.is_loopback and reach(host or "") in _OWN_REACH:
            return False
        if parts.scheme == "https":
            return True
        return parts.scheme == "http" == own.scheme and (
            host == own.hostname or (self.is_loopback and _is_loopback(host))
        )

    def secrets(self) -> Iterator[str]:
        """What no message may hold."""
        return (secret for secret in (self.token, self.secret_key, self.access_key) if secret)


def configured_spaces(settings: Settings) -> list[str]:
    """The ids of the user's spaces, then of the public ones, each once."""
    return list(dict.fromkeys([*settings.skill_space_ids, *settings.public_skill_space_ids]))


def service_configured(settings: Settings) -> bool:
    """Whether the variables name a Skill Service, or spaces of the public one."""
    return bool(settings.skill_service_url or configured_spaces(settings))


def clean_base(url: str) -> str:
    """A base URL as people paste it: without the query, the fragment and slashes at the end; that of
    `/openapi.json` is what is before it, and that of `/docs` has `/api/v1` instead. Raises
    `SkillServiceError`."""
    parts = _split(url)
    path = parts.path.rstrip("/")
    if path.endswith("/openapi.json"):
        path = path.removesuffix("/openapi.json").rstrip("/")
    elif path.endswith("/docs"):
        path = path.removesuffix("/docs").rstrip("/") + "/api/v1"
    return f"{parts.scheme}://{parts.netloc.lower()}{path}"


def _configured(settings: Settings) -> str:
    if settings.skill_service_url:
        return settings.skill_service_url
    if not service_configured(settings):
        raise SkillServiceError(
            "no Skill Service is configured",
            code="skill_service_not_configured",
            hint="Set KSADK_SKILL_SERVICE_URL, and KSADK_SKILL_SPACE_IDS.",
        )
    endpoint = settings.skill_service_endpoint
    if "://" in endpoint:
        raise _unusable(f"KSADK_SKILL_SERVICE_ENDPOINT is {_shown(endpoint)}, not a host")
    return f"{settings.skill_service_scheme}://{endpoint or PUBLIC_HOST}"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise _unusable("the Skill Service's address is no URL") from error
    if "@" in parts.netloc:
        raise _unusable("the Skill Service's address holds a user name or password")
    readable = _NETLOC.fullmatch(parts.netloc) and not _BLANK_OR_ODD.search(url)
    if parts.scheme not in {"http", "https"} or not readable:
        raise _unusable(f"the Skill Service's address is {_shown(url)}, not http(s)://HOST")
    return parts


def _mode(base: SplitResult, signed_hosts: tuple[str, ...]) -> Mode:
    """The host must be the very one: what only begins or ends like a gateway is never signed for."""
    if base.hostname == PUBLIC_HOST:
        if base.scheme != "https":
            raise _unusable(f"{PUBLIC_HOST} is asked over https only")
        if base.port in (None, 443):
            return "signed"
    named = {host.lower() for host in signed_hosts}
    return "signed" if named & {base.hostname or "", base.netloc} else "direct"


def _check(address: ServiceAddress) -> None:
    """Before any request: keys are there where they are needed, and are what a header can hold."""
    if address.mode == "signed" and not (address.access_key and address.secret_key):
        missing = "KSADK_SKILL_SERVICE_SECRET_KEY" if address.access_key else "KSADK_SKILL_SERVICE_ACCESS_KEY"
        raise SkillServiceError(
            f"{address.host} takes signed requests, and {missing} is not set",
            code="skill_service_unauthenticated",
            hint="Set KSADK_SKILL_SERVICE_ACCESS_KEY and KSADK_SKILL_SERVICE_SECRET_KEY.",
        )
    for name, value in (
        ("KSADK_SKILL_SERVICE_TOKEN", address.token),
        ("KSADK_SKILL_SERVICE_ACCESS_KEY", address.access_key),
        ("KSADK_SKILL_SERVICE_ACCOUNT_ID", address.account_id),
        ("KSADK_SKILL_SERVICE_REGION", address.region),
        ("KSADK_SKILL_SERVICE_API_VERSION", address.api_version),
    ):
        if value and not _HEADER_VALUE.fullmatch(value):
            raise _unusable(f"{name} holds a character that no header can hold")


def _is_loopback(host: str | None) -> bool:
    return host is not None and reach(host) == "loopback"


def _query(parameters: Mapping[str, str]) -> str:
    return "&".join(f"{quote(k, _UNRESERVED)}={quote(v, _UNRESERVED)}" for k, v in parameters.items())


def _shown(url: str) -> str:
    return repr(url.partition("?")[0].partition("#")[0][:200])


def _unusable(message: str) -> SkillServiceError:
    return SkillServiceError(
        message,
        code="invalid_skill_service_address",
        hint="It is https://HOST, or http://127.0.0.1:PORT for one of `agentengine skills serve`.",
    )
