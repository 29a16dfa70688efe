"""Reads the directory of a zip that a stranger made, and what is in it, strictly.

Programs differ in what they make of a zip whose two descriptions of a member differ, whose members overlap,
or that has bytes that belong to none; so a zip is refused unless it can be read in one way only.

Python's `zipfile` looks for what can be read. It takes bytes before, between and behind members, a count of
entries that is wrong, members that another header describes otherwise, and compressed bytes that go on or do
not end; and it tells neither where a member's bytes are nor where the directory ends. To refuse these, the
end, every header beside a member and the expansion would have to be read here all the same: it could only
save the fields of one more struct, for errors of a dozen kinds that broken bytes make it raise.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from itertools import pairwise

from ksadk.skills.errors import SkillPackageError
from ksadk.skills.limits import MAX_EXPANDED_BYTES, MAX_MEMBERS, too_large

STORED, DEFLATED = 0, 8

_END = struct.Struct("<4s4H2IH")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
_MAX_COMMENT = 0xFFFF
_ZIP64 = 0xFFFFFFFF
_NEWEST = 63
"""The last version of the format, 6.3."""
_ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13
_SIZES_FOLLOW = 1 << 3
_PATCH = 1 << 5
_UNICODE_NAME = 0x7075


@dataclass(frozen=True)
class ZipMember:
    """One member, as both of its descriptions have it.

    name: as it stands there, with nothing cleaned.
    mode: the mode of Unix, with the kind of file; 0 where there is none.
    crc: of the expanded bytes. size: expanded. at: where the compressed bytes begin.
    """

    name: str
    mode: int
    is_dos_directory: bool
    method: int
    crc: int
    compressed: int
    size: int
    at: int


def members_of(data: bytes) -> tuple[ZipMember, ...]:
    """The members of a zip, in the order of its directory, none expanded. Raises `SkillPackageError`."""
    end, count, position = _end_of(data)
    found = []
    spans = [(position, [end])]
    for number in range(count):
        if position + _CENTRAL.size > end:
            raise _broken(f"its directory ends before entry {number}")
        member, start, position = _member(data, position, end, number)
        found.append(member)
        spans.append((start, _ends(data, member)))
    if position != end:
        raise _broken("its directory is longer than its entries")
    spans.sort()
    if spans[0][0] != 0:
        raise _broken("bytes stand before its first member")
    for (_, ends), (next_start, _) in pairwise(spans):
        if next_start not in ends:
            shared = ends[0] > next_start
            raise _broken("two members share the same bytes" if shared else "bytes in it belong to no member")
    return tuple(found)


def _ends(data: bytes, member: ZipMember) -> list[int]:
    """Where a member may end: after its bytes, or after the sizes that follow them in one of four forms."""
    end = member.at + member.compressed
    ends = [end]
    for layout in ("<3I", "<I2Q"):
        sizes = struct.pack(layout, member.crc, member.compressed, member.size)
        ends += (end + len(form) for form in (sizes, b"PK\7\x08" + sizes) if data.startswith(form, end))
    return ends


def expand(data: bytes, member: ZipMember) -> bytes:
    """The bytes of a member, never more than its size. Raises `SkillPackageError` where they are others."""
    packed = data[member.at : member.at + member.compressed]
    if member.method == STORED:
        plain = packed
    else:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            plain = inflater.decompress(packed, member.size + 1)  # 0 would be no limit
        except zlib.error as error:
            raise _broken(f"{member.name!r} cannot be expanded ({error})") from error
        if len(plain) > member.size:
            raise too_large(f"{member.name!r} expands to more than the {member.size} bytes that it declares")
        if not inflater.eof or inflater.unused_data:
            raise _broken(f"{member.name!r} is cut short, or has bytes after its end")
    if len(plain) != member.size:
        raise _broken(f"{member.name!r} expands to {len(plain)} bytes instead of {member.size}")
    if zlib.crc32(plain) != member.crc:
        raise _broken(f"{member.name!r} does not have the checksum that it declares")
    return plain


def _end_of(data: bytes) -> tuple[int, int, int]:
    """Where the directory ends, how many entries it has, and where it begins."""
    end = data.rfind(b"PK\5\6", max(0, len(data) - _END.size - _MAX_COMMENT))
    if end < 0 or end + _END.size > len(data):
        raise _broken("its end is missing, so it is cut short or no zip")
    _, disk, first_disk, here, count, size, offset, comment = _END.unpack_from(data, end)
    if end + _END.size + comment != len(data):
        raise _broken("bytes stand after its end")
    if disk or first_disk or here != count:
        raise _broken("it is a part of several")
    if count > MAX_MEMBERS:
        raise too_large(f"it has {count} members, and {MAX_MEMBERS} are the most")
    if offset + size != end:
        raise _broken("its directory is not where its end says")
    return end, count, offset


def _member(data: bytes, position: int, end: int, number: int) -> tuple[ZipMember, int, int]:
    """An entry of the directory, where its member begins, and where the next entry is."""
    (
        mark, _, version, flags, method, _, _, crc, compressed, size,
        name_length, extra_length, comment_length, disk, _, attributes, start,
    ) = _CENTRAL.unpack_from(data, position)  # fmt: skip
    after_name = position + _CENTRAL.size + name_length
    after = after_name + extra_length + comment_length
    if mark != b"PK\1\2" or after > end or disk:
        raise _broken(f"entry {number} of its directory is broken")
    raw = data[after_name - name_length : after_name]
    name = _decoded(raw, number)
    _check_other_name(data[after_name : after_name + extra_length], raw, name)
    if flags & _ENCRYPTED:
        raise SkillPackageError(f"{name!r} is encrypted", code="unsafe_skill_package")
    if version & 0xFF > _NEWEST:
        raise _broken(f"{name!r} needs a newer form of zip")
    if flags & _PATCH or method not in (STORED, DEFLATED):
        raise _broken(f"{name!r} is packed by method {method}; stored (0) and deflated (8) are read")
    if _ZIP64 in (compressed, size, start) or size > MAX_EXPANDED_BYTES:
        raise too_large(f"{name!r} is over {MAX_EXPANDED_BYTES} bytes")
    at = _check_local(data, start, raw, name, (flags, method, crc, compressed, size))
    if at + compressed > end:
        raise _broken(f"{name!r} goes beyond the end")
    mode = attributes >> 16
    return ZipMember(name, mode, bool(attributes & 0x10), method, crc, compressed, size, at), start, after


def _check_local(
    data: bytes, start: int, raw: bytes, name: str, central: tuple[int, int, int, int, int]
) -> int:
    """Where a member's bytes begin. Its other description, right before these, must say the same."""
    if start + _LOCAL.size > len(data):
        raise _broken(f"{name!r} begins beyond the end")
    mark, _, flags, method, _, _, crc, compressed, size, name_length, extra_length = _LOCAL.unpack_from(
        data, start
    )
    after_name = start + _LOCAL.size + name_length
    if mark != b"PK\3\4" or data[after_name - name_length : after_name] != raw:
        raise _broken(f"{name!r} has another name, or none, where its bytes are")
    # Written to a pipe, the sizes come after the bytes; writers put 0 or the mark of the zip64 form here.
    unknown = (0, _ZIP64) if flags & _SIZES_FOLLOW else (_ZIP64,)
    theirs = zip((crc, compressed, size), central[2:], strict=True)
    if (flags, method) != central[:2] or any(one != other and one not in unknown for one, other in theirs):
        raise _broken(f"{name!r} is described in two ways")
    at = int(after_name + extra_length)
    _check_other_name(data[after_name:at], raw, name)
    return at


def _check_other_name(extra: bytes, raw: bytes, name: str) -> None:
    """Raise where extra fields have another name for the member, which some programs take instead."""
    place = 0
    while place + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, place)
        if kind == _UNICODE_NAME and extra[place + 9 : place + 4 + length] != raw:
            raise _broken(f"{name!r} has another name in its extra fields")
        place += 4 + length


def _decoded(raw: bytes, number: int) -> str:
    """A name, which is UTF-8 also where its flag does not say so: the zips of macOS leave it out."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SkillPackageError(
            f"the name of entry {number} is not UTF-8: {raw[:100]!r}", code="unsafe_skill_package"
        ) from error


def _broken(why: str) -> SkillPackageError:
    return SkillPackageError(f"the archive cannot be used: {why}")
