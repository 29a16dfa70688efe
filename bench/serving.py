"""A served agent, against the SDK's own server with the same agent: throughput, streams, and the start.

Every server is a process of its own, and all requests come from this one, over connections that are kept
alive. In each round every server is asked in turn; what counts is the median of the rounds. The SDK's
OpenTelemetry is off on all sides.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from _serving import CHUNKS

from ksadk.a2a.card import JSONRPC_PATH

ROUNDS = 4
SLICES = 8
SECONDS = 0.5
"""How often, and how long, a server is asked in each round."""
CLIENTS = (1, 2, 4, 8, 16, 32, 64)
STREAMS = 300
FIRST_CHUNKS = 100
STARTS = 5
KB = 1024
NO_TRACES = {"OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false"}
SERVERS = Path(__file__).with_name("_serving.py")
SERVE = [str(Path(sys.executable).with_name("agentengine")), "a2a", "serve"]
AGENT = f"import sys\nsys.path.append({str(SERVERS.parent)!r})\nfrom _serving import echo as root_agent\n"
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "a2a-throughput.svg"
NAMES = {"ours": "durable", "memory": "SDK, in memory", "database": "SDK, SQLite"}


class Server:
    """One kind of server in a process of its own."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        place = Path(tempfile.mkdtemp(dir=directory))
        command = [sys.executable, str(SERVERS), kind, str(place)]
        if kind == "ours":
            (place / "agent.py").write_text(AGENT)
            command = [*SERVE, str(place), "--port", "0", "-o", "json"]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | NO_TRACES,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.port = int(json.loads(line)["url"].rpartition(":")[2] if kind == "ours" else line)

    def rss(self) -> int:
        """What the process holds in memory, in bytes."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGESIZE"
        )

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class Client:
    """One connection that is kept alive."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def connect(self) -> Client:
        for _ in range(2000):
            with contextlib.suppress(ConnectionRefusedError):
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
                return self
            await asyncio.sleep(0.005)
        raise RuntimeError("the server does not listen")

    def close(self) -> None:
        self._writer.close()

    def _post(self, method: str, text: str) -> None:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
        body = json.dumps(request).encode()
        head = f"POST {JSONRPC_PATH} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nA2A-Version: 1.0\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)

    async def send(self, text: str) -> dict[str, Any]:
        """SendMessage; returns its result."""
        self._post("SendMessage", text)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        result: dict[str, Any] = json.loads(await self._reader.readexactly(length))["result"]
        return result

    async def stream(self, text: str) -> AsyncIterator[dict[str, Any]]:
        """SendStreamingMessage; yields the result of each event, at once."""
        self._post("SendStreamingMessage", text)
        await self._reader.readuntil(b"\r\n\r\n")
        rest = b""
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            rest += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
            *events, rest = rest.replace(b"\r\n", b"\n").split(b"\n\n")
            for event in events:
                for line in event.split(b"\n"):
                    if line.startswith(b"data: "):
                        yield json.loads(line[6:])["result"]
        await self._reader.readexactly(2)


def text_of(parts: list[dict[str, Any]]) -> str:
    return "".join(part.get("text", "") for part in parts)


async def throughput(server: Server, clients: int, seconds: float) -> float:
    """Tasks a second: each client sends one message after the other, and checks each answer."""
    connected = [await Client(server.port).connect() for _ in range(clients)]
    until = time.perf_counter() + seconds

    async def ask(client: Client, number: int) -> int:
        done = 0
        while time.perf_counter() < until:
            said = f"echo {number} {done}"
            task = (await client.send(said))["task"]
            assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
            assert text_of(task["artifacts"][0]["parts"]) == said, task
            done += 1
        return done

    start = time.perf_counter()
    done = await asyncio.gather(*(ask(client, number) for number, client in enumerate(connected)))
    taken = time.perf_counter() - start
    for client in connected:
        client.close()
    return sum(done) / taken


async def first_chunk(server: Server) -> float:
    """Seconds from a message to the first chunk of the answer: the median of many, one after the other."""
    client = await Client(server.port).connect()
    taken = []
    for number in range(FIRST_CHUNKS):
        start, first = time.perf_counter(), None
        async for event in client.stream(f"stream {number}"):
            if first is None and "artifactUpdate" in event:
                first = time.perf_counter() - start
        assert first is not None
        taken.append(first)
    client.close()
    return statistics.median(taken)


async def streams(server: Server) -> tuple[float, float]:
    """Seconds that many streams at once take, each checked for chunks lost, reordered and doubled, and by how
    many bytes for each stream the server grew."""
    before, most, over = server.rss(), 0, asyncio.Event()

    async def watch() -> None:
        nonlocal most
        while not over.is_set():
            most = max(most, server.rss())
            await asyncio.sleep(0.02)

    async def read(client: Client, name: str) -> None:
        said, whole, state = [], "", ""
        async for event in client.stream(f"stream {name}"):
            if "artifactUpdate" in event:
                update = event["artifactUpdate"]
                text = text_of(update["artifact"]["parts"])
                if update.get("lastChunk"):
                    whole = text
                else:
                    said.append(text)
            elif "statusUpdate" in event:
                state = event["statusUpdate"]["status"]["state"]
        expected = [f"{name}:{number} " for number in range(CHUNKS)]
        assert said == expected, (expected, said)
        assert whole in ("", "".join(expected)), whole  # what closes an artifact repeats all of it
        assert state == "TASK_STATE_COMPLETED", state

    connected = [await Client(server.port).connect() for _ in range(STREAMS)]
    watching = asyncio.ensure_future(watch())
    start = time.perf_counter()
    await asyncio.gather(*(read(client, f"s{number}") for number, client in enumerate(connected)))
    taken = time.perf_counter() - start
    over.set()
    await watching
    for client in connected:
        client.close()
    return taken, (most - before) / STREAMS


@contextlib.contextmanager
def running(*kinds: str) -> Iterator[list[Server]]:
    """Servers of these kinds, fresh ones, each warmed up."""
    with tempfile.TemporaryDirectory() as directory:
        servers = [Server(kind, Path(directory)) for kind in kinds]
        try:
            for server in servers:
                asyncio.run(throughput(server, 1, 0.5))
            yield servers
        finally:
            for server in servers:
                server.stop()


def main() -> int:
    missed = 0
    with running("ours", "memory", "database") as servers:
        missed += compare_throughput(servers)
        draw(grown(servers))
    with running("ours", "memory") as servers:
        missed += compare_first_chunk(servers)
    missed += compare_streams()
    compare_start()
    return 1 if missed else 0


def rates(servers: list[Server], clients: int) -> dict[str, float]:
    """Tasks a second of each server in one round."""
    sums = dict.fromkeys((server.kind for server in servers), 0.0)
    for _ in range(SLICES):
        for server in servers:
            sums[server.kind] += asyncio.run(throughput(server, clients, SECONDS)) / SLICES
    return sums


def compare_throughput(servers: list[Server]) -> int:
    missed = 0
    for clients, durable in ((8, 0.85), (32, 0.9)):
        rounds = [rates(servers, clients) for _ in range(ROUNDS)]
        for theirs, limit in (("memory", durable), ("database", 7)):
            ratio = statistics.median(found["ours"] / found[theirs] for found in rounds)
            mine, other = (statistics.median(found[kind] for found in rounds) for kind in ("ours", theirs))
            what = f"SendMessage, {clients} clients: durable / {NAMES[theirs]}"
            what += f"  [{mine:.0f} / {other:.0f} tasks/s]"
            missed += told(ratio, limit, ratio >= limit, "at least", what)
    return missed


def grown(servers: list[Server]) -> dict[str, list[float]]:
    """Tasks a second of each server for each number of clients."""
    rounds = [rates(servers, clients) for clients in CLIENTS]
    return {server.kind: [found[server.kind] for found in rounds] for server in servers}


def draw(found: dict[str, list[float]]) -> None:
    """Draw the picture; the same figures give the same bytes."""
    import matplotlib as mpl
    from matplotlib import pyplot

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "a2a", "svg.fonttype": "none", "font.family": "sans-serif"})
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for kind, figures in found.items():
        axes.plot(CLIENTS, figures, marker="o", label=NAMES[kind], linestyle="-" if kind == "ours" else "--")
    axes.set_xscale("log", base=2)
    axes.set_xticks(CLIENTS, [str(clients) for clients in CLIENTS])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("clients at once")
    axes.set_ylabel("tasks a second")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(PICTURE, metadata={"Date": None, "Creator": None})


def compare_first_chunk(servers: list[Server]) -> int:
    times: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for server in servers:
            times.setdefault(server.kind, []).append(1000 * asyncio.run(first_chunk(server)))
    mine, other = (statistics.median(times[kind]) for kind in ("ours", "memory"))
    what = f"time to the first chunk: durable / {NAMES['memory']}  [{mine:.2f} / {other:.2f} ms]"
    return told(mine / other, 1.1, mine / other <= 1.1, "at most", what)


def compare_streams() -> int:
    measured: dict[str, list[tuple[float, float]]] = {}
    for _ in range(ROUNDS):
        with running("ours", "memory") as servers:  # fresh: what they hold in memory is to grow
            for server in servers:
                measured.setdefault(server.kind, []).append(asyncio.run(streams(server)))
    mine, other = (statistics.median(taken for taken, _ in measured[kind]) for kind in ("ours", "memory"))
    held, theirs = (statistics.median(size for _, size in measured[kind]) / KB for kind in ("ours", "memory"))
    what = f"{STREAMS} streams of {CHUNKS} chunks: durable / {NAMES['memory']}  [{mine:.2f} / {other:.2f} s]"
    missed = told(mine / other, 1.5, mine / other <= 1.5, "at most", what)
    what = f"KB that the server grew for each of these streams  [{NAMES['memory']}: {theirs:.0f}]"
    return missed + told(held, 200, held <= 200, "at most", what)


def compare_start() -> None:
    """Print how long it takes from the start of a process to its first answer; there is no limit."""
    pairs = [(started("ours"), started("memory")) for _ in range(STARTS)]
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    mine, other = (statistics.median(taken) for taken in zip(*pairs, strict=True))
    print(f"{ratio:6.2f}  start to first answer: a2a serve / {NAMES['memory']}  [{mine:.2f} / {other:.2f} s]")


def started(kind: str) -> float:
    """Seconds from the start of a server to its first answer."""

    async def first(server: Server) -> None:
        await (await Client(server.port).connect()).send("hello")

    with tempfile.TemporaryDirectory() as directory:
        start = time.perf_counter()
        server = Server(kind, Path(directory))
        asyncio.run(first(server))
        taken = time.perf_counter() - start
        server.stop()
    return taken


def told(value: float, limit: float, holds: bool, bound: str, what: str) -> int:
    """Print one figure; 1 when it misses its limit."""
    print(f"{value:6.2f} ({bound} {limit})  {'ok' if holds else 'MISSED':6}  {what}", flush=True)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
