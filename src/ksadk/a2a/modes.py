"""Media types: what a part is of, and what an agent takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from a2a.types import a2a_pb2 as pb

from ksadk.a2a.runners.base import RunnerError

MODES = {"text": "text/plain", "data": "application/json"}
"""The media types of parts that name none; of a file it is application/octet-stream."""


def mode_of(part: pb.Part) -> str:
    """The media type of a part, without its parameters."""
    return _bare(part.media_type) or MODES.get(part.WhichOneof("content") or "", "application/octet-stream")


def takes(patterns: Iterable[str], mode: str) -> bool:
    """Whether one of the patterns (`image/png`, `image/*`, `*/*`) is for a media type."""
    return any(_fits(_bare(pattern), _bare(mode)) for pattern in patterns)


def check_taken(modes: Sequence[str], taken: Sequence[str]) -> None:
    """Raise `RunnerError` where a project says of its agent that it takes what it does not."""
    for mode in modes:
        if not takes(taken, mode):
            raise RunnerError(
                f"input_modes has {mode}, and the agent takes {', '.join(taken)}",
                hint="A function takes anything with a parameter named call; it says what with"
                " @agent(input_modes=[...]).",
            )


def _bare(mode: str) -> str:
    return mode.partition(";")[0].strip().lower()


def _fits(pattern: str, mode: str) -> bool:
    kind, _, rest = pattern.partition("/")
    return pattern in (mode, "*/*", "*") or (rest == "*" and mode.startswith(f"{kind}/"))
