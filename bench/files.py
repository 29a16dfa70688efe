"""What searching and listing 100,000 files cost, against ripgrep and plain calls in the same run.

Each measurement and its reference run in turn; what counts is the median of the ratios of the pairs. At last
it is measured how the times grow with the number of files, and docs/growth.svg drawn from that.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot

from ksadk.runtime_context import workspace_root_scope
from ksadk.toolsets.workspace import list_workspace_files, search_workspace_files

PAIRS = 9
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
FILES = SIZES[-1]
PER_DIRECTORY = 100
LINE = "a common line of text, as long as most lines of programs are\n"
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "growth.svg"
PEAK = """
import resource, sys
from ksadk.runtime_context import workspace_root_scope
from ksadk.toolsets.workspace import search_workspace_files
with workspace_root_scope(sys.argv[1]):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = search_workspace_files(sys.argv[2], max_results=100)["match_count"]
assert found == int(sys.argv[3]), found
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, before)
"""

Call = Callable[[], object]


def main() -> int:
    if shutil.which("rg") is None:
        print("ripgrep is not installed: nothing to measure against")
        return 1
    with tempfile.TemporaryDirectory() as directory:
        os.environ["AGENTENGINE_UI_DIR"] = str(Path(directory) / "sessions")
        root = Path(directory).resolve() / "root"
        make_tree(root)
        with workspace_root_scope(root):
            held = [holds(*measured) for measured in measurements(root)]
            held.append(memory_holds(root))
            draw(growth(root))
    return 0 if all(held) else 1


def make_tree(root: Path) -> None:
    """Files of about 800 bytes: ten with `needle`, one in twenty with `manymatch`, all with `common`.

    The directories of each size are in one called `in`, inside of the next larger size.
    """
    place = root.joinpath(*["in"] * (len(SIZES) - 1))
    for number in range(FILES):
        if number in SIZES:
            place = place.parent
        parent = place / f"d{number // PER_DIRECTORY}"
        if number % PER_DIRECTORY == 0:
            parent.mkdir(parents=True)
        marked = "a needle\n" * (number % (FILES // 10) == 0) + "manymatch\n" * (number % 20 == 0)
        (parent / f"f{number}.txt").write_text(LINE * 12 + marked + f"{number}\n")


def place_of(size: int) -> str:
    """The directory that holds just so many files."""
    return "/".join(["in"] * (len(SIZES) - 1 - SIZES.index(size))) or "."


def measurements(root: Path) -> Iterator[tuple[str, Call, Call, float]]:
    """What is measured: its name, the call, the reference, and how many times as long as that it may take."""
    with_matches = "search, 5,000 matches in 5,000 files"
    yield (
        "search, 10 matches / rg --json",
        lambda: found("needle", 10),
        ripgrep(root, "--json", "needle"),
        1.4,
    )
    yield (
        f"{with_matches} / rg --json", lambda: found("manymatch", 5_000),
        ripgrep(root, "--json", "manymatch"), 1.4,
    )  # fmt: skip
    alone = ripgrep(root, "-j1", "needle")
    for name, sensitive in (("", False), (", case-sensitive", True)):
        yield (
            f"search without ripgrep, 10 matches{name} / rg -j1",
            lambda sensitive=sensitive: without_ripgrep(lambda: found("needle", 10, sensitive)), alone, 4,
        )  # fmt: skip
    for sort_by in ("name", "mtime", "size"):
        yield (
            f"list by {sort_by}, recursive / os.walk and os.stat",
            lambda sort_by=sort_by: listed(sort_by), lambda: walked(root), 1.5,
        )  # fmt: skip


def found(query: str, count: int, case_sensitive: bool = False, path: str = ".") -> None:
    result = search_workspace_files(query, path, case_sensitive=case_sensitive, max_results=5_000)
    assert (result["ok"], result["match_count"]) == (True, count), result


def listed(sort_by: str, path: str = ".") -> None:
    assert list_workspace_files(path, recursive=True, sort_by=sort_by, max_results=5_000)["ok"]


def walked(root: Path) -> None:
    for directory, _, names in os.walk(root):
        for name in names:
            os.stat(os.path.join(directory, name))  # noqa: PTH116, PTH118  # the reference is to be fast


def ripgrep(place: Path, *arguments: str) -> Call:
    return lambda: subprocess.run(["rg", *arguments], cwd=place, check=True, stdout=subprocess.DEVNULL)


def without_ripgrep(call: Call) -> None:
    with hidden_ripgrep():
        call()


@contextmanager
def hidden_ripgrep() -> Iterator[None]:
    path = os.environ["PATH"]
    os.environ["PATH"] = ""
    try:
        yield
    finally:
        os.environ["PATH"] = path


def holds(name: str, call: Call, reference: Call, limit: float) -> bool:
    timed(call)
    timed(reference)
    pairs = [(timed(call), timed(reference)) for _ in range(PAIRS)]
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    ours, theirs = (1000 * statistics.median(times) for times in zip(*pairs, strict=True))
    return report(name, ratio, limit, f"{ours:.0f} ms / {theirs:.0f} ms")


def memory_holds(root: Path) -> bool:
    """A search in which every line of every file matches takes hardly more than one with ten matches."""
    few, many = (peak(root, *query) for query in (("needle", 10), ("common", 100)))
    name = "peak of memory, 1,200,000 lines that match / 10 lines"
    return report(name, many / few, 1.5, f"{many / 1024:.0f} MB / {few / 1024:.0f} MB")


def peak(root: Path, query: str, count: int) -> int:
    """The most memory of a process that searches once, in KiB."""
    command = [sys.executable, "-c", PEAK, str(root), query, str(count)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    grown, before = map(int, ran.stdout.split())
    return grown + before


def report(name: str, ratio: float, limit: float, figures: str) -> bool:
    verdict = "ok" if ratio <= limit else "MISSED"
    print(f"{ratio:5.2f} (at most {limit})  {verdict:6}  {name}  [{figures}]", flush=True)
    return ratio <= limit


def timed(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def growth(root: Path) -> dict[str, list[float]]:
    """The seconds that each call takes, by the number of files."""
    times: dict[str, list[float]] = {}
    for size in SIZES:
        path, matches = place_of(size), -(-size // (FILES // 10))
        calls: dict[str, Call] = {
            "search with ripgrep": lambda path=path, matches=matches: found("needle", matches, path=path),
            "search without ripgrep": lambda path=path, matches=matches: without_ripgrep(
                lambda: found("needle", matches, path=path)
            ),
            "list by time": lambda path=path: listed("mtime", path),
            "list by name": lambda path=path: listed("name", path),
            "rg --json": ripgrep(root / path, "--json", "needle"),
        }
        for name, call in calls.items():
            seconds = statistics.median(timed(call) for _ in range(5))
            times.setdefault(name, []).append(seconds)
            print(f"{size:7,} files: {1000 * seconds:7.1f} ms  {name}", flush=True)
    return times


def draw(times: dict[str, list[float]]) -> None:
    """Draw the picture; the same times give the same bytes."""
    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "growth", "svg.fonttype": "none", "font.family": "sans-serif"})
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for name, seconds in times.items():
        axes.loglog(SIZES, seconds, marker="o", label=name, linestyle="--" if name.startswith("rg") else "-")
    axes.set_xlabel("files")
    axes.set_ylabel("seconds")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(PICTURE, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    sys.exit(main())
