"""Tools that read the web. This release has neither a fetcher nor a search provider, and both say so."""

from __future__ import annotations

from typing import Any

from ksadk.errors import KsadkError
from ksadk.settings import Settings
from ksadk.tools.registry import builtin

AVAILABLE_PROVIDERS: frozenset[str] = frozenset()
"""The search providers that this release can ask."""

CAN_FETCH = False
"""Whether this release can fetch a URL."""


def fetch_enabled() -> bool:
    """Whether web_fetch can work."""
    return CAN_FETCH


def search_enabled() -> bool:
    """Whether the configured search provider can be asked."""
    return Settings.from_env().web_search_provider in AVAILABLE_PROVIDERS


def get_web_tools() -> list[Any]:
    """web_fetch and web_search, as agent frameworks take them."""
    from ksadk.toolsets.frameworks import as_tools

    return as_tools([web_fetch, web_search])


@builtin(
    group="web", boundary="public_http", scopes=("public_network",), approval_exempt=True,
    enabled=fetch_enabled,
)  # fmt: skip
def web_fetch(url: str, max_chars: int | None = None, timeout: int = 30) -> dict[str, Any]:
    """Fetch a public http or https URL and return its text, without scripts and styles.

    max_chars: characters of text to return; 50000 if left out.
    timeout: seconds.

    Private and local addresses are refused. `ok` is false for a status that is not 2xx; the text is kept.
    """
    _check_url(url)
    raise KsadkError(
        "nothing that can fetch a URL is available",
        code="provider_not_configured",
        hint="This release does not fetch web pages.",
        url=url,
        max_chars=max_chars,
        timeout=timeout,
    )


@builtin(
    group="web", boundary="search_provider", scopes=("public_network",), approval_exempt=True,
    enabled=search_enabled,
)  # fmt: skip
def web_search(query: str, max_results: int = 5, recency_days: int | None = None) -> dict[str, Any]:
    """Search the web. Returns title, url and snippet of each result, not whole pages.

    max_results: how many results to return.
    recency_days: only results of the last days; some providers do not support it.
    """
    if not query.strip():
        raise KsadkError(
            "query is empty", code="query_required", hint="Say what to look for.", query=query, results=[]
        )
    provider = Settings.from_env().web_search_provider
    missing = f"the search provider {provider} is not available" if provider else "no search provider is set"
    raise KsadkError(
        missing,
        code="provider_not_configured",
        hint="This release does not search the web.",
        query=query,
        provider=provider or None,
        results=[],
        max_results=max_results,
        recency_days=recency_days,
    )


def _check_url(url: str) -> None:
    from urllib.parse import urlsplit

    if not url.strip():
        raise KsadkError("url is empty", code="url_required", hint="Pass an http or https URL.")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _not_a_url(url, str(error)) from error
    if parts.scheme not in {"http", "https"}:
        raise KsadkError(
            f"{parts.scheme or 'no scheme'}: only http and https URLs are fetched",
            code="unsupported_scheme",
            url=url,
        )
    if not host:
        raise _not_a_url(url, "it names no host")
    if any(character.isspace() or ord(character) < 32 for character in url.strip()):
        raise _not_a_url(url, "it holds a space or a control character")


def _not_a_url(url: str, reason: str) -> KsadkError:
    return KsadkError(f"not a URL that can be fetched: {reason}", code="invalid_url", url=url)
