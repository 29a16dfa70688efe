"""One idea of text for reading, searching and editing: UTF-8, and lines that end at LF or CRLF only."""

from __future__ import annotations

from dataclasses import dataclass

from ksadk.workspace.paths import WorkspaceError

BOM = b"\xef\xbb\xbf"
SHOWN_LINE_CHARS = 500


@dataclass(frozen=True)
class Document:
    """The text of a file. A byte order mark at its start is kept apart, and written back."""

    text: str
    bom: bool = False

    @classmethod
    def decode(cls, data: bytes, shown: str) -> Document:
        """Read UTF-8; `not_utf8` says at which byte it stops being that."""
        bom = data.startswith(BOM)
        try:
            return cls(data[len(BOM) * bom :].decode(), bom)
        except UnicodeDecodeError as error:
            raise WorkspaceError(
                f"{shown} is not UTF-8 text (byte {error.start + len(BOM) * bom})",
                code="not_utf8", hint="Other files are read and changed with commands.", path=shown,
            ) from None  # fmt: skip

    def encode(self, shown: str) -> bytes:
        return BOM * self.bom + encode(self.text, shown)


def encode(text: str, shown: str) -> bytes:
    """The text as UTF-8; `invalid_text` for half of a surrogate pair, which no file can hold."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise WorkspaceError(
            f"the text for {shown} holds half of a surrogate pair at character {error.start}",
            code="invalid_text", path=shown,
        ) from None  # fmt: skip


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


def line_ending(text: str) -> str:
    """`lf`, `crlf`, `mixed`, or `none` for a single line."""
    crlf = text.count("\r\n")
    lf = text.count("\n") - crlf
    if crlf and lf:
        return "mixed"
    return "crlf" if crlf else "lf" if lf else "none"


def window(line: str, start: int, end: int, width: int = SHOWN_LINE_CHARS) -> tuple[str, bool]:
    """The part of a line around [start, end), and whether anything was left out. The match stays in."""
    if len(line) <= width:
        return line, False
    end = min(end, start + width)
    left = max(0, min(start - (width - (end - start)) // 2, len(line) - width))
    right = left + width
    shown = ("…" if left else "") + line[left:right] + ("…" if right < len(line) else "")
    return shown, True
