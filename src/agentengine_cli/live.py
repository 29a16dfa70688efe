"""Output of a command that is shown while the command runs."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager

from agentengine_cli import output


@contextmanager
def shown_live(*, all_on_stderr: bool = False) -> Iterator[None]:
    """Show what commands that run in the block print: each stream where it belongs, or all of it on stderr.

    When the block ends, all of it has been shown, however slow the reader is.
    """
    from ksadk.sandbox.observing import Observer
    from ksadk.toolsets.sandbox_scope import output_scope

    with Observer(_Streams(all_on_stderr), seconds=None) as observer, output_scope(observer.offer):
        yield


class _Streams:
    def __init__(self, all_on_stderr: bool) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {stream: decoder("replace") for stream in ("stdout", "stderr")}
        self._all_on_stderr = all_on_stderr

    def __call__(self, stream: str, data: bytes) -> None:
        text = self._decoders[stream].decode(data)
        if stream == "stdout" and not self._all_on_stderr:
            output.write(text)
        else:
            output.write_to_stderr(text)
