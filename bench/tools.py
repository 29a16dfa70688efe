"""What the gateway, the dispatcher and tool search cost, against the bare function in the same run."""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from ksadk.tools.gateway import current_gateway
from ksadk.tools.registry import builtin, find
from ksadk.toolsets import clear_external_tools, register_external_tools, tool_dispatcher, tool_search

ROUNDS = 31
TOOLS = 5_000
QUERIES = (
    "read file",
    "读取文件",
    "create invoice for a customer",
    "查询订单",
    "delete branch",
    "send",
    "owner and time of change",
)


@builtin(group="platform", boundary="none")
def bench_echo(path: str, limit: int = 10, glob: str | None = None) -> dict[str, Any]:
    """Give the arguments back."""
    return {"ok": True, "path": path, "limit": limit, "glob": glob}


def main() -> int:
    raw = find("bench_echo").func
    gateway = current_gateway()
    arguments = {"path": "a/b.txt", "limit": 3}
    validate = find("bench_echo").parameters.check
    bare, checked, through, dispatched, listed = together(
        (lambda: raw(**arguments), 2_000),
        (lambda: validate(arguments), 2_000),
        (lambda: gateway.invoke("bench_echo", raw, **arguments), 2_000),
        (lambda: tool_dispatcher("call", "bench_echo", arguments), 500),
        (lambda: tool_dispatcher("list"), 50),
    )
    print(f"python -c pass: {1000 * start_up():.1f} ms")
    print(f"the bare function: {bare:.2f} us; checking its arguments alone: {checked:.2f} us")
    missed = [
        report("a call through the gateway, above the function", through - bare, 20, "us"),
        report("a call through tool_dispatcher, above the function", dispatched - bare, 60, "us"),
        report('tool_dispatcher("list")', listed, 200, "us"),
        *search(),
    ]
    return 1 if any(missed) else 0


def search() -> list[bool]:
    register_external_tools(many_tools(), group="mcp:bench")
    built = time.perf_counter()
    tool_search("invoice")  # the first query builds the index
    built = 1000 * (time.perf_counter() - built)
    missed = [report(f"the index of {TOOLS} tools", built, 300, "ms")]
    for query in QUERIES:
        (took,) = together((lambda query=query: tool_search(query), 5))
        missed.append(report(f"tool_search({query!r}) over {TOOLS} tools", took / 1000, 2, "ms"))
    clear_external_tools()
    return missed


def many_tools() -> list[dict[str, Any]]:
    """Tools as MCP servers describe them: a verb, a thing, a service, and a sentence or two."""
    verbs = words("create read update delete list search send archive approve export import assign merge")
    things = words(
        "invoice customer order ticket branch commit issue file folder message channel calendar event "
        "contact report payment refund shipment product price user group role policy"
    )
    services = [
        f"{name}{number}" for name in ("billing", "crm", "git", "mail", "store") for number in range(5)
    ]
    chinese = {"invoice": "发票", "order": "订单", "file": "文件", "customer": "客户", "message": "消息"}
    combined = itertools.islice(itertools.product(services, verbs, things), TOOLS)
    return [
        {
            "name": f"{service}_{verb}_{thing}",
            "description": f"{verb.title()} a {thing} in {service}. Returns the {thing} with its id, owner "
            f"and time of change, or an error that says what to try. {chinese.get(thing, '')}",
            "inputSchema": {"properties": {f"{thing}_id": {}, "dry_run": {}, "max_results": {}}},
        }
        for service, verb, thing in combined
    ]


def words(text: str) -> list[str]:
    return text.split()


def together(*measured: tuple[Callable[[], Any], int]) -> list[float]:
    """The median time of each call in microseconds, taken in turn so that all share the machine's moods."""
    times: list[list[float]] = [[] for _ in measured]
    for call, _ in measured:
        call()
    for _ in range(ROUNDS):
        for taken, (call, count) in zip(times, measured, strict=True):
            begun = time.perf_counter()
            for _ in range(count):
                call()
            taken.append(1e6 * (time.perf_counter() - begun) / count)
    return [statistics.median(taken) for taken in times]


def start_up() -> float:
    taken = []
    for _ in range(5):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def report(what: str, value: float, limit: float, unit: str) -> bool:
    """Print one figure; returns whether it misses its limit."""
    missed = value > limit
    print(f"{what}: {value:.2f} {unit} (limit {limit} {unit}){'  MISSED' if missed else ''}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
