"""Where a server is reached: its card, the interfaces in that, and paths of a proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from a2a_server import Scripted, ScriptedRun, Served, serving

from ksadk.a2a.runners.base import Call, Text


async def says(call: Call, run: ScriptedRun) -> AsyncIterator[Any]:
    yield Text("hello")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(Scripted(says)) as it:
        yield it


def test_the_card_is_kept_by_clients_and_asked_for_again(served: Served) -> None:
    card = served.http.get("/.well-known/agent-card.json")
    assert card.status_code == 200 and card.headers["cache-control"] == "public, max-age=60"
    etag, at = card.headers["etag"], card.headers["last-modified"]
    for headers in ({"If-None-Match": etag}, {"If-None-Match": f"W/{etag}"}, {"If-Modified-Since": at}):
        again = served.http.get("/.well-known/agent-card.json", headers=headers)
        assert again.status_code == 304 and not again.content and again.headers["etag"] == etag, headers
    other = {"If-None-Match": '"other"', "If-Modified-Since": at}
    assert served.http.get("/.well-known/agent-card.json", headers=other).status_code == 200


def test_each_interface_of_the_card_is_reachable_as_written(served: Served) -> None:
    card = served.http.get("/.well-known/agent-card.json").json()
    urls = {item["protocolBinding"]: item["url"] for item in card["supportedInterfaces"]}
    headers = {"A2A-Version": "1.0"}
    assert httpx.get(urls["HTTP+JSON"] + "/tasks", headers=headers).status_code == 200
    call = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
    assert "result" in httpx.post(urls["JSONRPC"], json=call, headers=headers).json()


def test_a_sub_path_is_served_whether_or_not_the_proxy_strips_it() -> None:
    with serving(Scripted(says), url="https://agents.example.com/sub/") as served:
        for prefix in ("", "/sub"):
            card = served.http.get(f"{prefix}/.well-known/agent-card.json").json()
            assert card["supportedInterfaces"][0]["url"] == "https://agents.example.com/sub/a2a/jsonrpc"
            assert served.http.get(f"{prefix}/a2a/v1/tasks").status_code == 200
            assert served.http.get(f"{prefix}/a2a/v1/acme/tasks").status_code == 200
        assert served.http.get("/other/a2a/v1/tasks").status_code == 404
