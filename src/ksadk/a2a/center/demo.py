"""A center to try: with a Space of two agents that need no key, all of it gone when it ends."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ksadk.a2a.callers import trusted_networks
from ksadk.a2a.card import build_agent_card
from ksadk.a2a.center.app import Center
from ksadk.a2a.center.registry import Registration
from ksadk.a2a.center.running import GRACE, MAX_CONNECTIONS
from ksadk.a2a.options import ServerOptions
from ksadk.a2a.runners.asking import ask
from ksadk.a2a.runners.base import Text, Thinking
from ksadk.a2a.runners.callable import CallableRunner
from ksadk.a2a.server import A2AServer
from ksadk.a2a.stores.opening import open_stores
from ksadk.listening import listen, own_url, serve_until_signal

SPACE = "space-demo"


def echo(text: str) -> Iterator[Text | Thinking]:
    """Say the text again, word by word."""
    words = text.split()
    yield Thinking(f"That is {len(words)} word{'s' if len(words) != 1 else ''}.")
    for number, word in enumerate(words):
        yield Text(word if number == 0 else f" {word}")


def research(text: str) -> Iterator[Text]:
    """Answer with three findings, and wait to be told whether to go on: so there is a task to look after."""
    yield Text(f"关于“{text}”的三条结论:\n1. 协议先行\n2. 权限最小\n3. 事件不丢\n")
    more = ask("要我继续写成完整报告吗?")
    yield Text(f"完整报告（{more}）：以上三条，逐条展开。")


class DemoAgent(NamedTuple):
    """An agent of the demonstration, and what its card says."""

    name: str
    run: Callable[[str], Any]
    description: str
    skill: str


AGENTS = (
    DemoAgent("research-agent", research, "Answers questions, and asks whether to go on.", "research"),
    DemoAgent("echo-agent", echo, "Says again what it is told.", "echo"),
)


async def serve_demo(
    center: Center, listening: socket.socket, directory: Path, ready: Callable[[], None]
) -> None:
    """Serve a center and its agents until SIGINT or SIGTERM; `ready` is called once all of them answer."""
    apps: dict[socket.socket, Any] = {listening: center.app}
    for agent in AGENTS:
        sock = listen("127.0.0.1", 0)
        card = build_agent_card(
            name=agent.name,
            base_url=own_url("127.0.0.1", sock.getsockname()[1]),
            description=agent.description,
            skills=[agent.skill],
        )
        await center.registry.register(Registration(SPACE, card, "hosted_gateway"))
        stores = open_stores(f"sqlite:///{agent.name}.db", directory=directory)
        options = ServerOptions(trusted_edge=trusted_networks(("127.0.0.1",)), grace=GRACE)
        apps[sock] = A2AServer(CallableRunner(agent.run), card, stores, options).app
    await serve_until_signal(apps, ready, grace=GRACE, max_connections=MAX_CONNECTIONS)
