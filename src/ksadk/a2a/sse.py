"""Server-Sent Events out of bytes, however the network cuts them."""

from __future__ import annotations

import re

from ksadk.a2a.client_errors import InvalidAnswer

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""How much of one event is kept before it must have ended."""

# Only these end a line; what `str.splitlines` takes for line ends too (U+2028) may stand in JSON.
_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventReader:
    """Reads a stream: `feed` takes the next bytes, and gives the data of the events that they complete.

    Comments, other fields and events without data are passed over. An event that its blank line has not
    ended is not given.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0
        self._begun = False

    def feed(self, data: bytes) -> list[bytes]:
        """The data of each event that is complete now, UTF-8 as it came."""
        self._size += len(data)
        if self._size > MAX_EVENT_BYTES:
            raise InvalidAnswer(f"one event of the stream is longer than {MAX_EVENT_BYTES:,} bytes")
        self._rest.append(data)
        if not _LINE_END.search(data) and not self._rest[0].endswith(b"\r"):
            return []
        *lines, rest = self._lines(b"".join(self._rest))
        self._rest = [rest]
        events = [self._line(line) for line in lines]
        return [event for event in events if event]

    def _lines(self, data: bytes) -> list[bytes]:
        if not self._begun and len(data) >= 3:
            self._begun = True
            data = data.removeprefix(b"\xef\xbb\xbf")
        if data.endswith(b"\r"):  # its line feed may be in the next bytes
            *lines, last = _LINE_END.split(data[:-1])
            return [*lines, last + b"\r"]
        return _LINE_END.split(data)

    def _line(self, line: bytes) -> bytes:
        if not line:
            event, self._data, self._size = b"\n".join(self._data), [], 0
            return event
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        return b""
