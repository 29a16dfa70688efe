"""Files in other encodings than UTF-8: never guessed, and never changed outside of an edit."""

from __future__ import annotations

import encodings.aliases
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksadk.tools.registry import find
from ksadk.toolsets import workspace as w
from ksadk.workspace import charsets
from ksadk.workspace.paths import WorkspaceError
from ksadk.workspace.text import Change, Document

TEXT = "中文\n第二 line\n"
DOS = "中文\r\n第二\r\n"


@pytest.fixture
def root() -> Path:
    return w.workspace_root()


@pytest.mark.parametrize(
    ("name", "data", "encoding", "seen"),
    [
        pytest.param("f", TEXT.encode(), None, "utf-8", id="utf-8"),
        pytest.param("f", TEXT.encode("utf-8-sig"), None, "utf-8", id="utf-8 with its mark"),
        pytest.param("f", b"\xff\xfe" + TEXT.encode("utf-16-le"), None, "utf-16-le", id="utf-16-le mark"),
        pytest.param("f", b"\xfe\xff" + TEXT.encode("utf-16-be"), None, "utf-16-be", id="utf-16-be mark"),
        pytest.param("f", b"\xff\xfe\0\0" + TEXT.encode("utf-32-le"), None, "utf-32-le", id="utf-32-le mark"),
        pytest.param("f", b"\0\0\xfe\xff" + TEXT.encode("utf-32-be"), None, "utf-32-be", id="utf-32-be mark"),
        pytest.param("f", TEXT.encode("gbk"), "gbk", "gbk", id="named"),
        pytest.param("f", TEXT.encode("gbk"), "GB18030", "gb18030", id="named in capitals"),
        pytest.param("f", TEXT.encode("utf-8-sig"), "utf8", "utf-8", id="the same named"),
        pytest.param("f", TEXT.encode("utf-8-sig"), "utf-8-sig", "utf-8", id="named with its mark"),
        pytest.param("f", TEXT.encode("utf-16-le"), "utf-16-le", "utf-16-le", id="named without a mark"),
        pytest.param("f", b"\xfe\xff" + TEXT.encode("utf-16-be"), "utf-16", "utf-16-be", id="utf-16 named"),
        pytest.param("a.py", b"# coding: gbk\n" + TEXT.encode("gbk"), None, "gbk", id="declared"),
        pytest.param("a.PYW", b"# coding: gbk\n" + TEXT.encode("gbk"), None, "gbk", id="declared, pyw"),
        pytest.param(
            "a.pyi",
            b"#!x\r\n# -*- coding: big5 -*-\r\n" + "中".encode("big5"),
            None,
            "big5",
            id="second line",
        ),
        pytest.param(
            "a.py", b"\n# vim: set fileencoding=euc_jp :\n", None, "euc_jp", id="after a blank line"
        ),
        pytest.param("a.py", b"x = 1\n# coding: gbk\n" + TEXT.encode(), None, "utf-8", id="after code"),
        pytest.param("a.py", b"#\n#\n# coding: gbk\n" + TEXT.encode(), None, "utf-8", id="in the third line"),
        pytest.param("a.txt", b"# coding: gbk\n" + TEXT.encode(), None, "utf-8", id="not Python"),
        pytest.param(
            "a.py", b"# coding: utf-8-unix\n" + TEXT.encode(), None, "utf-8", id="as editors write it"
        ),
        pytest.param("a.py", b"# coding: latin-1-dos\n\xe9", None, "iso8859-1", id="latin-1 of an editor"),
        pytest.param("a.py", b"# coding: gbk\n" + TEXT.encode(), "utf-8", "utf-8", id="named above declared"),
    ],
)
def test_the_encoding_is_the_one_named_or_the_one_that_the_file_says(
    root: Path, name: str, data: bytes, encoding: str | None, seen: str
) -> None:
    (root / name).write_bytes(data)
    result = w.read_workspace_file(name, encoding=encoding, include_line_numbers=False)
    assert (result["ok"], result["encoding"]) == (True, seen)
    assert "\ufeff" not in result["content"]
    shown = data.removeprefix(charsets.of_file(data, name, encoding).mark).decode(seen)
    assert result["content"] == shown.replace("\r\n", "\n").removesuffix("\n")


@pytest.mark.parametrize(
    ("name", "data", "encoding", "code", "candidates"),
    [
        ("f", TEXT.encode("gb18030"), None, "not_utf8", ["gb18030"]),
        ("f", "日本語の文".encode("shift_jis"), None, "not_utf8", ["shift_jis"]),
        ("f", "Привет".encode("cp1251"), None, "not_utf8", ["cp1251"]),
        ("f", b"caf\xe9", None, "not_utf8", ["cp1252"]),
        ("f", "aé中".encode("utf-16-le"), None, "not_utf8", ["utf-16-le"]),
        ("f", b"\xef\xbb\xbf\xff", None, "not_utf8", []),
        ("f", TEXT.encode(), "ascii", "wrong_encoding", []),
        ("f", TEXT.encode("gbk"), "utf-8", "not_utf8", ["gb18030"]),
        ("a.py", b"# coding: ascii\n" + TEXT.encode(), None, "wrong_encoding", []),
        ("f", b"\xff\xfea", None, "wrong_encoding", []),
    ],
)
def test_a_file_that_is_not_text_in_its_encoding_is_refused_with_what_it_could_be(
    root: Path, name: str, data: bytes, encoding: str | None, code: str, candidates: list[str]
) -> None:
    (root / name).write_bytes(data)
    result = w.read_workspace_file(name, encoding=encoding)
    assert (result["ok"], result["error_type"]) == (False, code)
    assert set(candidates) <= set(result["candidates"])
    assert "encoding=" in result["hint"]
    for candidate in result["candidates"]:
        assert data.decode(candidate).encode(candidate) == data
    assert w.lint_workspace_file(name, encoding=encoding)["error_type"] == code


@pytest.mark.parametrize(
    "encoding",
    ["", "x", "rot13", "base64", "idna", "punycode", "unicode_escape", "utf-7", "utf-16",
     "iso2022_jp", "iso2022_kr", "hz", "big5hkscs", "euc_jis_2004", "a\0b", "../x", "\ud800", "undefined"],
)  # fmt: skip
def test_an_encoding_that_is_none_or_keeps_a_state_is_refused_and_nothing_written(
    root: Path, encoding: str
) -> None:
    (root / "f").write_bytes(b"abc")
    w.read_workspace_file("f")
    for result in (
        w.read_workspace_file("f", encoding=encoding),
        w.edit_workspace_file("f", "b", "x", encoding=encoding),
        w.multi_edit_workspace_file("f", [{"old_text": "b", "new_text": "x"}], encoding=encoding),
        w.lint_workspace_file("f", encoding=encoding),
    ):
        assert (result["error_type"], bool(result["hint"])) == ("unsupported_encoding", True)
    if encoding != "utf-16":
        assert w.write_workspace_file("f", "x", encoding=encoding)["error_type"] == "unsupported_encoding"
    assert (root / "f").read_bytes() == b"abc"


@pytest.mark.parametrize("name", ["gbk-x", "iso2022_jp", "utf-16", "rot13"])
def test_a_declaration_of_what_is_no_encoding_for_it_is_refused(root: Path, name: str) -> None:
    (root / "a.py").write_bytes(f"# coding: {name}\n".encode())
    assert w.read_workspace_file("a.py")["error_type"] == "unsupported_encoding"
    assert w.read_workspace_file("a.py", encoding="utf-8")["ok"] is True


def test_every_encoding_of_python_is_refused_or_gives_each_character_back_by_itself() -> None:
    sample = [chr(code) for code in range(1, 0x600)] + [chr(code) for code in range(0x600, 0x10000, 41)]
    taken = set()
    for alias in sorted(set(encodings.aliases.aliases.values())):
        try:
            taken.add(charsets.supported(alias, "f"))
        except WorkspaceError as error:
            assert error.code == "unsupported_encoding"
    assert {"utf-8", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp1252", "cp932"} <= taken
    for name in taken - {"utf-16", "utf-32", "utf-8-sig"}:
        known = [one for one in sample if charsets.decoded(one.encode(name, "ignore"), name) == one]
        assert len(known) > 90, name
        apart = b"".join(one.encode(name) for one in known)
        assert "".join(known).encode(name) == apart, name


def test_the_ends_of_lines_match_each_other_in_any_encoding(root: Path) -> None:
    path = root / "f"
    for encoding in ("gbk", "utf-16-le", "utf-16-be", "utf-32-le", "big5", "cp037"):
        text = DOS if encoding != "cp037" else "ab\r\ncd\r\n"
        first, second, *_ = text.split("\r\n")
        path.write_bytes(text.encode(encoding))
        w.read_workspace_file("f", encoding=encoding)
        result = w.edit_workspace_file("f", f"{first}\n{second}", f"{first}\nx", encoding=encoding)
        assert (result["ok"], result["encoding"]) == (True, encoding)
        assert path.read_bytes() == f"{first}\r\nx\r\n".encode(encoding)
        assert w.edit_workspace_file("f", "x", "y", encoding=encoding)["ok"] is True


@pytest.mark.parametrize(
    ("encoding", "new", "named"),
    [
        ("cp1252", "中", "'中' (U+4E2D), which cp1252 has not"),
        ("gbk", "😀", "(U+1F600), which gbk has not"),
        ("shift_jis", "¥", "'¥' (U+00A5), which shift_jis has not"),
        ("utf-16-le", "\ud800", "half of a surrogate pair"),
    ],
)
def test_a_character_that_the_encoding_has_not_is_named_and_nothing_is_written(
    root: Path, encoding: str, new: str, named: str
) -> None:
    (root / "f").write_bytes("abc".encode(encoding))
    w.read_workspace_file("f", encoding=encoding)
    result = w.edit_workspace_file("f", "b", f"x{new}", encoding=encoding)
    assert (result["error_type"], named in result["error_message"]) == ("invalid_text", True)
    result = w.write_workspace_file("f", f"x{new}", encoding=encoding)
    assert (result["error_type"], named in result["error_message"]) == ("invalid_text", True)
    assert (root / "f").read_bytes() == "abc".encode(encoding)


def test_bytes_that_would_not_come_back_the_same_are_refused(root: Path) -> None:
    lossy = next(
        (name, bytes([97, lead, trail]))
        for name in ("big5", "cp950", "cp932", "euc_kr")
        for lead in range(0x81, 0xFF)
        for trail in range(0x40, 0xFF)
        if _reads_otherwise(bytes([97, lead, trail]), name)
    )
    (root / "f").write_bytes(lossy[1])
    assert w.read_workspace_file("f", encoding=lossy[0])["error_type"] == "lossy_encoding"


def _reads_otherwise(data: bytes, name: str) -> bool:
    try:
        return data.decode(name).encode(name) != data
    except UnicodeError:
        return False


@pytest.mark.parametrize(
    ("name", "content", "encoding", "data"),
    [
        ("f", TEXT, None, TEXT.encode()),
        ("f", TEXT, "gbk", TEXT.encode("gbk")),
        ("f", "a", "utf-8-sig", b"\xef\xbb\xbfa"),
        ("f", "a", "utf-16", b"\xff\xfea\0"),
        ("f", "a", "utf-16-be", b"\0a"),
        ("a.py", f"# coding: gbk\n{TEXT}", None, f"# coding: gbk\n{TEXT}".encode("gbk")),
        ("a.py", f"# coding: gbk\n{TEXT}", "utf-8", f"# coding: gbk\n{TEXT}".encode()),
    ],
)
def test_a_write_states_the_whole_content_whatever_the_file_was_in(
    root: Path, name: str, content: str, encoding: str | None, data: bytes
) -> None:
    (root / name).write_bytes(b"\xef\xbb\xbfbefore\r\n")
    assert w.write_workspace_file(name, content, encoding=encoding)["ok"] is True
    assert (root / name).read_bytes() == data
    read = w.read_workspace_file(name, encoding=encoding, include_line_numbers=False)
    if encoding != "utf-16-be":
        assert read["content"] == content.removesuffix("\n")


def test_an_edit_that_makes_the_file_say_another_encoding_is_warned_of(root: Path) -> None:
    (root / "a.py").write_bytes("# coding: gbk\n# 中\n".encode("gbk"))
    w.read_workspace_file("a.py")
    result = w.edit_workspace_file("a.py", "coding: gbk", "coding: utf-8")
    assert "still gbk, but now says that it is utf-8" in result["warning"]
    assert (root / "a.py").read_bytes() == "# coding: utf-8\n# 中\n".encode("gbk")
    w.read_workspace_file("a.py", encoding="gbk")
    result = w.edit_workspace_file("a.py", "utf-8", "gbk", encoding="gbk")
    assert "warning" not in result


def test_a_plan_shows_the_text_and_names_the_encoding(root: Path) -> None:
    (root / "f").write_bytes(TEXT.encode("gbk"))
    w.read_workspace_file("f", encoding="gbk")
    plan = find("edit_workspace_file").plan
    assert plan is not None
    made = plan(path="f", old_text="中文", new_text="英文", encoding="gbk")
    assert "-中文\n+英文\n" in made.diff
    assert ("encoding", "gbk") in made.details
    plan = find("write_workspace_file").plan
    assert plan is not None
    made = plan(path="g", content="中\n", encoding="gbk")
    assert made.diff.endswith("+中\n")
    assert ("encoding", "gbk") in made.details


@pytest.mark.parametrize("tool", ["edit_workspace_file", "multi_edit_workspace_file", "write_workspace_file"])
def test_a_file_with_several_names_is_written_in_place_or_not_at_all(root: Path, tool: str) -> None:
    more: dict[str, Any] = {
        "edit_workspace_file": {"old_text": "b", "new_text": "中"},
        "multi_edit_workspace_file": {"edits": [{"old_text": "b", "new_text": "中"}]},
        "write_workspace_file": {"content": "a中c"},
    }[tool]
    (root / "f").write_bytes(b"abc")
    os.link(root / "f", root / "g")
    w.read_workspace_file("f")
    made = find(tool).plan
    assert made is not None
    with pytest.raises(WorkspaceError) as caught:
        made(path="f", **more)
    assert caught.value.code == "hard_linked_file"
    call = getattr(w, tool)
    assert call(path="f", **more)["error_type"] == "hard_linked_file"
    assert (root / "g").read_bytes() == b"abc"
    assert any("not in one step" in words for _, words in made(path="f", in_place=True, **more).details)
    result = call(path="f", in_place=True, **more)
    assert (result["ok"], result["atomic"]) == (True, False)
    assert (root / "g").read_bytes() == "a中c".encode()
    assert (root / "f").samefile(root / "g")
    assert w.edit_workspace_file("f", "c", "d", in_place=True)["ok"] is True


PIECES = st.lists(
    st.sampled_from(
        ["a", "b", "ab", " ", "\n", "\r\n", "\r", '"', "“", "’", "\x0c", "\ufeff", "中", "é", "😀"]
    ),
    max_size=14,
).map("".join)
NAMES = st.sampled_from(
    ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "gb18030", "big5", "cp1252", "euc_jp"]
)


@given(before=PIECES, middle=PIECES, after=PIECES, new=PIECES, name=NAMES, marked=st.booleans())
def test_only_the_bytes_of_a_change_become_others(
    before: str, middle: str, after: str, new: str, name: str, marked: bool
) -> None:
    before, middle, after, new = (
        part.encode(name, "ignore").decode(name) for part in (before, middle, after, new)
    )
    mark = {each: mark for mark, each in charsets._MARKS}.get(name, b"") if marked else b""
    data = mark + (before + middle + after).encode(name)
    document = Document.decode(data, "f", name)
    start = len(document.text) - len(middle + after)  # where a U+FEFF at the start was taken for a mark
    if start < 0:
        return
    change = Change(start, start + len(middle), new)
    made, _ = document.changed(data, change, "f")
    head, tail = len(data) - len((middle + after).encode(name)), len(after.encode(name))
    assert made == data[:head] + new.encode(name) + data[len(data) - tail :]


@given(data=st.binary(max_size=40), name=st.none() | NAMES)
def test_any_bytes_are_text_that_comes_back_the_same_or_an_error(data: bytes, name: str | None) -> None:
    try:
        document = Document.decode(data, "f.py", name)
    except WorkspaceError as error:
        assert error.code in ("not_utf8", "wrong_encoding", "lossy_encoding", "unsupported_encoding")
    else:
        assert document.charset.mark + document.text.encode(document.encoding) == data


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("broken", [None, 32_767, 32_768, 65_600, 119_999])
def test_a_long_text_is_read_across_the_parts_that_it_is_read_in(shift: int, broken: int | None) -> None:
    data = bytearray(b"a" * shift + "中é😀".encode() * 14_000)
    if broken is None:
        assert Document.decode(bytes(data), "f").text == bytes(data).decode()
        return
    data[broken:] = b"\xff" + data[broken:]
    with pytest.raises(UnicodeDecodeError) as expected:
        bytes(data).decode()
    with pytest.raises(WorkspaceError, match=f"byte {expected.value.start}\\)"):
        Document.decode(bytes(data), "f")
