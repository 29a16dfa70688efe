"""Another agent's card: fetched or read, and what of it can be used."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from a2a.types import AgentCard, AgentInterface
from google.protobuf.json_format import ParseDict, ParseError

from ksadk.a2a.card import PROTOCOL_VERSION
from ksadk.a2a.client_errors import AgentError, CardNotFound, CardUnusable, http_error
from ksadk.a2a.json_text import MAX_BYTES
from ksadk.a2a.targets import Target
from ksadk.a2a.urls import split_http_url
from ksadk.a2a.wire import Interface, hidden, network, parse_json, read_body, without
from ksadk.hosts import reach

BINDINGS = ("JSONRPC", "HTTP+JSON")
"""What is spoken here."""


@dataclass(frozen=True)
class RemoteCard:
    """A card: as it was given (`document`), as A2A 1.0 reads it, where it came from, and whether it was found
    where cards of A2A before 1.0 are."""

    document: dict[str, Any]
    card: AgentCard
    source: str
    old: bool = False


async def fetch_card(client: httpx.AsyncClient, target: Target, bearer: str = "") -> RemoteCard:
    """The card of a target that is an address or a file.

    The bearer token is shown to the card's address only if that asks for one.
    """
    if target.kind == "file":
        return read_card(target.place)
    response, body = await _get(client, target.place)
    if (
        response.status_code == 401
        and bearer
        and "bearer" in response.headers.get("www-authenticate", "").lower()
    ):
        response, body = await _get(client, target.place, {"Authorization": f"Bearer {bearer}"})
    if response.status_code == 404 and target.old:
        old, old_body = await _get(client, target.old)
        if old.is_success and old_body.lstrip().startswith(b"{"):
            return _card(old_body, target.old, old=True)
    if response.status_code in (404, 410):
        raise CardNotFound(
            f"no Agent Card is at {target.place} (HTTP {response.status_code})",
            hint="Pass the agent's base URL, or the whole URL of its card.",
        )
    if not response.is_success:
        secrets = [bearer] if bearer else []
        raise http_error(
            response.status_code, hidden(secrets, response.reason_phrase),
            without(secrets, body).decode("utf-8", "replace"), target.place, with_credentials=bool(bearer),
        )  # fmt: skip
    return _card(body, str(response.url))


def read_card(file: str) -> RemoteCard:
    """The card in a file."""
    try:
        with Path(file).open("rb") as stream:
            return _card(stream.read(MAX_BYTES + 1), file)
    except OSError as error:
        raise CardNotFound(f"{file} cannot be read: {error.strerror}") from error


async def _get(
    client: httpx.AsyncClient, url: str, headers: dict[str, str] | None = None
) -> tuple[httpx.Response, bytes]:
    with network(url):
        request = client.build_request("GET", url, headers={"Accept": "application/json", **(headers or {})})
        response = await client.send(request, stream=True, follow_redirects=True)
        try:
            return response, await read_body(response, MAX_BYTES + 1, cut=True)
        finally:
            await response.aclose()


def _card(body: bytes, source: str, *, old: bool = False) -> RemoteCard:
    if len(body) > MAX_BYTES:
        raise CardUnusable(f"the card at {source} is longer than {MAX_BYTES:,} bytes")
    try:
        document = parse_json(body)
    except AgentError as error:
        raise CardUnusable(f"what is at {source} is no card; {error.message}") from error
    if not isinstance(document, dict):
        raise CardUnusable(f"what is at {source} is no card: a JSON object is expected")
    try:
        card = ParseDict(document, AgentCard(), ignore_unknown_fields=True, max_recursion_depth=64)
    except (ParseError, ValueError, OverflowError) as error:
        if not old:
            raise CardUnusable(
                f"the card at {source} is not one of A2A 1.0: {error}",
                hint="agentengine a2a card --check FILE says what is wrong with a card.",
            ) from error
        card = AgentCard(name=_text(document, "name"), description=_text(document, "description"))
    return RemoteCard(document, card, source, old)


def _text(document: dict[str, Any], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""


def choose_interface(remote: RemoteCard, preferred: Sequence[str] = ()) -> Interface:
    """The interface to speak to: the first of a preferred binding, else the first that is spoken here."""
    if remote.old or not remote.card.supported_interfaces:
        raise _not_usable(remote)
    usable = [offered for offered in remote.card.supported_interfaces if not _why_not(offered)]
    if not usable:
        raise _not_usable(remote)
    wanted = [offered for binding in preferred for offered in usable if offered.protocol_binding == binding]
    chosen = (wanted or usable)[0]
    return Interface(
        chosen.url, chosen.protocol_binding, chosen.protocol_version or PROTOCOL_VERSION, chosen.tenant
    )


def refuse_in_the_clear(card: RemoteCard, interface: Interface) -> None:
    """Refuse to send a secret where everybody on the way reads it, though the card came over https."""
    there = urlsplit(interface.url)
    in_the_clear = there.scheme == "http" and reach(there.hostname or "") != "loopback"
    if in_the_clear and card.source.startswith("https:"):
        raise AgentError(
            f"the card came over https and names {interface.url}, which would get credentials in the clear",
            code="A2ACLI_ERR_CARD_INVALID",
            hint="If that is meant, call the agent by a copy of its card in a file.",
        )


def _not_usable(remote: RemoteCard) -> AgentError:
    offered = list(remote.card.supported_interfaces)
    if remote.old or (not offered and "url" in remote.document):
        return AgentError(
            f"{remote.source} is a card of A2A before 1.0, and only 1.0 is spoken here",
            code="VersionNotSupportedError",
            hint="agentengine a2a discover shows the card.",
        )
    if not offered:
        return CardUnusable(f"the card at {remote.source} offers no interface")
    shown = ", ".join(
        f"{item.protocol_binding or 'nothing'} {item.protocol_version} at {item.url}" for item in offered
    )
    why = "; ".join(dict.fromkeys(_why_not(item) for item in offered))
    spoken = [item for item in offered if item.protocol_binding in BINDINGS]
    if spoken and not any(_speaks(item.protocol_version) for item in spoken):
        return AgentError(
            f"no common version of A2A: 1.0 is spoken here; offered are {shown}",
            code="VersionNotSupportedError",
        )
    return CardUnusable(f"none of the agent's interfaces can be used: {why}. Offered are {shown}")


def _speaks(version: str) -> bool:
    return not version or re.fullmatch(r"1(\.\d+){0,2}", version) is not None


def _why_not(offered: AgentInterface) -> str:
    """Why an interface cannot be used; empty where it can."""
    if offered.protocol_binding not in BINDINGS:
        near = next((name for name in BINDINGS if name.lower() == offered.protocol_binding.lower()), "")
        more = f" (bindings are written in capitals: {near})" if near else ""
        spoken = " and ".join(BINDINGS)
        return f"the binding {offered.protocol_binding!r} is not spoken here, only {spoken}{more}"
    if not _speaks(offered.protocol_version):
        return f"A2A {offered.protocol_version} is not spoken here, only 1.0"
    try:
        split_http_url(offered.url)
    except ValueError as error:
        return f"{offered.url!r} is no address: {error}"
    return ""


def problems(remote: RemoteCard) -> Iterator[str]:
    """What would not work, or not well, for whoever calls the agent."""
    if remote.old:
        yield "the card is at the place of A2A before 1.0; such an agent can be looked at, not called"
    if not remote.card.supported_interfaces:
        yield "no interface is offered, so nobody can call the agent"
    from_here = urlsplit(remote.source).hostname
    for offered in remote.card.supported_interfaces:
        reason = _why_not(offered)
        where = f"{offered.protocol_binding} at {offered.url}"
        if reason:
            yield f"{where}: {reason}"
            continue
        host = urlsplit(offered.url).hostname or ""
        if reach(host) == "unspecified":
            yield f"{where}: {host} is no address that a caller can reach"
        elif reach(host) == "loopback" and from_here is not None and reach(from_here) != "loopback":
            yield f"{where}: {host} is the caller's own machine, not the agent's"
        elif remote.source.startswith("https://") and offered.url.startswith("http://"):
            yield f"{where}: the card came over https, and its interface has none"
        if not offered.protocol_version:
            yield f"{where}: no protocol version is said; 1.0 is assumed"
    for extension in remote.card.capabilities.extensions:
        if extension.required:
            yield f"the extension {extension.uri} is required, and not spoken here"


def described(remote: RemoteCard) -> dict[str, Any]:
    """What a caller needs to know of an agent, as JSON values."""
    card = remote.card
    return {
        "name": card.name,
        "description": card.description,
        "version": card.version,
        "source": remote.source,
        "streaming": bool(card.capabilities.streaming),
        "interfaces": [
            {"url": item.url, "binding": item.protocol_binding, "version": item.protocol_version}
            for item in card.supported_interfaces
        ],
        "skills": [
            {"id": skill.id, "name": skill.name, "description": skill.description} for skill in card.skills
        ],
        "input_modes": list(card.default_input_modes),
        "output_modes": list(card.default_output_modes),
        "security": security(card),
        "problems": list(problems(remote)),
    }


def security(card: AgentCard) -> list[str]:
    """The schemes of a card, each as its name and kind."""
    return [f"{name} ({_scheme(scheme)})" for name, scheme in sorted(card.security_schemes.items())]


def _scheme(scheme: Any) -> str:
    kind = scheme.WhichOneof("scheme") or ""
    if kind == "http_auth_security_scheme":
        return f"HTTP {scheme.http_auth_security_scheme.scheme}"
    if kind == "api_key_security_scheme":
        key = scheme.api_key_security_scheme
        return f"API key in {key.location} {key.name}"
    return kind.removesuffix("_security_scheme").replace("_", " ") or "of an unknown kind"
