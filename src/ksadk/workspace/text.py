"""One idea of text for reading, searching and editing: a known encoding, and lines at LF or CRLF."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import NamedTuple

from ksadk.workspace import charsets
from ksadk.workspace.paths import WorkspaceError

SHOWN_LINE_CHARS = 500
_BLOCK = 1 << 15


class Change(NamedTuple):
    """The characters [start, end) of a text become another text."""

    start: int
    end: int
    text: str

    @classmethod
    def between(cls, before: str, after: str) -> Change:
        """From the first character to the last in which two texts differ."""
        start = common_length(before, after)
        tail = common_tail(before, after, start)
        return cls(start, len(before) - tail, after[start : len(after) - tail])

    def made(self, text: str) -> str:
        return text[: self.start] + self.text + text[self.end :]

    def then(self, text: str, later: Change) -> Change:
        """This change of `text` and a later one of what it makes, as one."""
        made_end = self.start + len(self.text)
        start = min(self.start, later.start)
        end = self.end + max(0, later.end - made_end)
        whole = text[start : self.start] + self.text + text[self.end : end]
        return Change(start, end, Change(later.start - start, later.end - start, later.text).made(whole))


@dataclass(frozen=True)
class Document:
    """The text of a file. A byte order mark at its start is kept apart, and written back."""

    text: str
    charset: charsets.Charset

    @classmethod
    def decode(cls, data: bytes, shown: str, encoding: str | None = None) -> Document:
        """Read a file in the encoding that is named, or that it says itself (`charsets.of_file`).

        Raises `not_utf8` or `wrong_encoding`, with the byte where it stops being that; `lossy_encoding` where
        writing the text would not give the same bytes back; `unsupported_encoding`.
        """
        charset = charsets.of_file(data, shown, encoding)
        body = data.removeprefix(charset.mark)
        try:
            text = _decoded(body, charset.name)
        except UnicodeDecodeError as error:
            raise _undecodable(data, shown, charset, error.start) from None
        if charset.name != charsets.UTF8 and charsets.decoded(body, charset.name) is None:
            raise WorkspaceError(
                f"{shown} has bytes that {charset.name} would not write as they are", code="lossy_encoding",
                hint="Change it with a command, or write the whole file.", path=shown, encoding=charset.name,
            )  # fmt: skip
        return cls(text, charset)

    @property
    def encoding(self) -> str:
        return self.charset.name

    def changed(self, data: bytes, change: Change, shown: str) -> tuple[bytes, int]:
        """The bytes of the file, `data`, with a change made, and how many come before it. All others are
        copied."""
        mark, name = len(self.charset.mark), self.encoding
        if len(self.text) + mark == len(data):  # a byte for each character
            start, end = change.start + mark, change.end + mark
        else:
            start = mark + _size(self.text, 0, change.start, name)
            end = start + _size(self.text, change.start, change.end, name)
        view = memoryview(data)
        return b"".join([view[:start], encode(change.text, shown, name), view[end:]]), start


def encode(text: str, shown: str, encoding: str = charsets.UTF8) -> bytes:
    """The text in an encoding; `invalid_text` for a character that it has not, or half of a surrogate pair,
    which no file can hold."""
    try:
        data = text.encode(encoding)
    except UnicodeEncodeError as error:
        raise _unwritable(text, error.start, shown, encoding) from None
    if encoding != charsets.UTF8:
        back = data.decode(encoding)
        if back != text:  # some encodings write a character as a similar one
            start = next(
                spot for spot, (one, other) in enumerate(zip(text, back, strict=False)) if one != other
            )
            raise _unwritable(text, start, shown, encoding)
    return data


def _decoded(data: bytes, encoding: str) -> str:
    """The same as `data.decode(encoding)`, which takes a wide character for each byte of UTF-8."""
    if encoding != charsets.UTF8 or data.isascii():
        return data.decode(encoding)
    decoder = codecs.getincrementaldecoder(encoding)()
    view = memoryview(data)
    try:
        parts = [decoder.decode(view[spot : spot + _BLOCK]) for spot in range(0, len(data), _BLOCK)]
        return "".join([*parts, decoder.decode(b"", True)])
    except UnicodeDecodeError:
        return data.decode(encoding)  # raises it again, with the place in all of the data


def _size(text: str, start: int, end: int, encoding: str) -> int:
    """How many bytes the characters [start, end) take."""
    spots = range(start, end, _BLOCK)  # no more than needed at a time: memory is slow to get
    return sum(len(text[spot : min(spot + _BLOCK, end)].encode(encoding)) for spot in spots)


def _unwritable(text: str, spot: int, shown: str, encoding: str) -> WorkspaceError:
    character = text[spot]
    what = f"{character!r} (U+{ord(character):04X}), which {encoding} has not,"
    if "\ud800" <= character <= "\udfff":
        what = "half of a surrogate pair"
    return WorkspaceError(
        f"the text for {shown} holds {what} at character {spot}",
        code="invalid_text", path=shown, encoding=encoding,
    )  # fmt: skip


def _undecodable(data: bytes, shown: str, charset: charsets.Charset, start: int) -> WorkspaceError:
    utf8 = charset.name == charsets.UTF8
    name = "UTF-8" if utf8 else charset.name
    return WorkspaceError(
        f"{shown} is not {name} text (byte {start + len(charset.mark)})",
        code="not_utf8" if utf8 else "wrong_encoding",
        hint="If you know its encoding, name it with encoding=; candidates only could be it.",
        path=shown, candidates=charsets.candidates(data),
    )  # fmt: skip


def split_lines(text: str) -> list[str]:
    """The lines without their ends. A carriage return by itself, a form feed and U+2028 end no line."""
    lines = text.split("\n")
    last = lines.pop()
    lines = [line[:-1] if line.endswith("\r") else line for line in lines]
    return [*lines, last] if last else lines


def split_keeping_ends(text: str) -> list[str]:
    """The lines with their ends."""
    lines = text.split("\n")
    last = lines.pop()
    lines = [line + "\n" for line in lines]
    return [*lines, last] if last else lines


def common_length(one: str, other: str) -> int:
    """How many characters two texts have in common at the start: compared in blocks, the last one halved."""
    limit = min(len(one), len(other))
    done = 0
    while done < limit and one[done : done + _BLOCK] == other[done : done + _BLOCK]:
        done += _BLOCK
    step = _BLOCK
    while step and done < limit:
        if one[done : done + step] == other[done : done + step]:
            done += step
        step //= 2
    return min(done, limit)


def common_tail(one: str, other: str, head: int) -> int:
    """How many characters they have in common at the end, behind the first `head`."""
    limit = min(len(one), len(other)) - head
    done, step = 0, _BLOCK
    while step:
        size = min(step, limit - done)
        if size and _back(one, done, size) == _back(other, done, size):
            done += size
        else:
            step //= 2
    return done


def _back(text: str, done: int, size: int) -> str:
    end = len(text) - done
    return text[end - size : end]


def position(text: str, spot: int) -> tuple[int, int]:
    """The line and the column of a place, from 1."""
    return text.count("\n", 0, spot) + 1, spot - text.rfind("\n", 0, spot)


def line_ending(text: str) -> str:
    """`lf`, `crlf`, `mixed`, or `none` for a single line."""
    crlf = text.count("\r\n")
    lf = text.count("\n") - crlf
    if crlf and lf:
        return "mixed"
    return "crlf" if crlf else "lf" if lf else "none"


def readable(text: str) -> str:
    """A name or a line as it can be shown and sent: bytes in it that are not UTF-8 become U+FFFD."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def window(line: str, start: int, end: int, width: int = SHOWN_LINE_CHARS) -> tuple[str, bool]:
    """The part of a line around [start, end), and whether anything was left out. The match stays in."""
    if len(line) <= width:
        return line, False
    end = min(end, start + width)
    left = max(0, min(start - (width - (end - start)) // 2, len(line) - width))
    right = left + width
    shown = ("…" if left else "") + line[left:right] + ("…" if right < len(line) else "")
    return shown, True
