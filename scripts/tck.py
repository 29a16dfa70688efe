"""Runs a checkout of the public A2A conformance kit against examples/tck_agent, and prints the counts.

The kit (github.com/a2aproject/a2a-tck, branch 1.0-dev) brings its own environment:
`python3 -m venv .venv && .venv/bin/pip install -e .` in the checkout.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

KNOWN = {
    "test_response_content_type": "it wants application/json, where section 11.1 says application/a2a+json",
}
"""Tests of the kit that are older than the specification."""


def main() -> int:
    if len(sys.argv) != 2 or not (kit := Path(sys.argv[1]).resolve() / "run_tck.py").is_file():
        print("usage: make tck KIT=DIR, where DIR is a checkout of a2aproject/a2a-tck, branch 1.0-dev")
        return 2
    python = kit.parent / ".venv" / "bin" / "python"
    if not python.exists():
        print(f"the kit has no environment: cd {kit.parent} && python3 -m venv .venv && "
              ".venv/bin/pip install -e .")  # fmt: skip
        return 2
    with tempfile.TemporaryDirectory() as directory:
        command = [
            Path(sys.executable).parent / "agentengine", "a2a", "serve", ROOT / "examples" / "tck_agent",
            "--port", "0", "-o", "json", "--task-store-dsn", f"sqlite:///{directory}/tasks.db",
        ]  # fmt: skip
        with (Path(directory) / "log").open("w") as log:
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            run_kit(kit, python, url)
        finally:
            server.terminate()
            server.wait(30)
    return report(kit.parent / "reports" / "junitreport.xml")


def run_kit(kit: Path, python: Path, url: str) -> None:
    command = [python, kit, "--sut-host", url, "--transport", "jsonrpc,http_json", "--level", "must"]
    subprocess.run(command, cwd=kit.parent, stdout=subprocess.DEVNULL, check=False)


def report(file: Path) -> int:
    cases = list(ET.parse(file).iter("testcase"))
    failed = [case.get("name", "") for case in cases if case.find("failure") is not None]
    failed += [case.get("name", "") for case in cases if case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    print(f"MUST tests: {len(cases) - len(failed) - skipped} passed, {len(failed)} failed, {skipped} skipped")
    for name in failed:
        print(f"failed: {name}: {KNOWN.get(name, 'not expected')}")
    return 1 if set(failed) - set(KNOWN) else 0


if __name__ == "__main__":
    sys.exit(main())
