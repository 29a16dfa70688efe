"""SKILL.md by the Agent Skills specification; what cannot be read of permissions allows nothing."""

from __future__ import annotations

import os
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ksadk.skills.allowed_tools import AllowedTools, Grant, is_permission_key
from ksadk.skills.errors import SkillError
from ksadk.skills.loader import load_local_skill
from ksadk.skills.parsing import MAX_BYTES, Document, parse_skill_md
from ksadk.skills.repairs import apply

HEAD = "name: demo\ndescription: Does it.\n"


def parsed(fields: str, body: str = "Do it.\n") -> Document:
    return parse_skill_md(f"---\n{fields}---\n{body}".encode(), directory="demo")


def told(document: Document) -> list[str]:
    """Each finding as `line:column code`."""
    return [f"{found.line}:{found.column} {found.code}" for found in document.findings]


def written(document: Document) -> dict[str, Any]:
    """The fields that have a value, permissions as text."""
    fields = {key: value for key, value in vars(document.fields).items() if value}
    if document.fields.allowed_tools is not None:
        fields["allowed_tools"] = str(document.fields.allowed_tools)
    return fields


PLAIN = {"name": "demo", "description": "Does it."}

TAKEN: dict[str, tuple[bytes, dict[str, Any]]] = {
    "the smallest": (b"---\nname: demo\ndescription: Does it.\n---\n", PLAIN),
    "carriage returns": (b"---\r\nname: demo\r\ndescription: Does it.\r\n---\r\nDo it.\r\n", PLAIN),
    "old line ends": (b"---\rname: demo\rdescription: Does it.\r---\rDo it.\r", PLAIN),
    "a fence at the end, with no line end": (b"---\nname: demo\ndescription: Does it.\n---", PLAIN),
    "carriage returns, and a fence at the end": (
        b"---\r\nname: demo\r\ndescription: Does it.\r\n---", PLAIN
    ),
    "blanks after a fence": (b"--- \nname: demo\ndescription: Does it.\n---\t\nDo it.", PLAIN),
    "hyphens in a line": (
        b"---\nname: demo\ndescription: Turns a --- rule into ---\n---\nDo it.",
        PLAIN | {"description": "Turns a --- rule into ---"},
    ),
    "hyphens that begin a longer line": (
        b"---\nname: demo\ndescription: Does it.\nlicense: |\n  ---\n  x\n---\nDo it.",
        PLAIN | {"license": "---\nx"},
    ),
    "a folded text": (
        b"---\nname: demo\ndescription: >\n  Does\n  it.\n---\n", PLAIN
    ),
    "a literal text": (
        b"---\nname: demo\ndescription: |-\n  Does\n  it.\n---\n", PLAIN | {"description": "Does\nit."}
    ),
    "a text over lines": (b"---\nname: demo\ndescription: Does\n  it.\n---\n", PLAIN),
    "a name below metadata": (
        b"---\nname: demo\ndescription: Does it.\nmetadata:\n  name: evil\n---\n",
        PLAIN | {"metadata": {"name": "evil"}},
    ),
    "metadata first": (
        b"---\nmetadata:\n  name: evil\n  description: evil\nname: demo\ndescription: Does it.\n---\n",
        PLAIN | {"metadata": {"name": "evil", "description": "evil"}},
    ),
    "what looks like numbers, dates and truth": (
        b"---\nname: demo\ndescription: Does it.\nlicense: 0o17\ncompatibility: null\nmetadata:\n"
        b"  version: 1.10\n  on: yes\n  date: 2024-01-02\n---\n",
        PLAIN | {
            "license": "0o17", "compatibility": "null",
            "metadata": {"version": "1.10", "on": "yes", "date": "2024-01-02"},
        },
    ),
    "fields in braces": (b'---\n{name: demo, description: "Does it."}\n---\n', PLAIN),
    "every field": (
        b"---\nname: demo\ndescription: Does it.\nlicense: MIT\ncompatibility: Needs git\n"
        b"allowed-tools: Read\nmetadata: {a: b}\n---\n",
        PLAIN | {
            "license": "MIT", "compatibility": "Needs git", "allowed_tools": "Read", "metadata": {"a": "b"}
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_what_the_specification_allows_is_taken_without_a_word(name: str) -> None:
    data, fields = TAKEN[name]
    document = parse_skill_md(data, directory="demo")
    assert (written(document), told(document), document.edits) == (fields, [], ())


SAID: dict[str, tuple[bytes, dict[str, Any], list[str]]] = {
    "a byte order mark": (
        b"\xef\xbb\xbf---\nname: demo\ndescription: Does it.\n---\n", PLAIN, ["1:1 byte_order_mark"]
    ),
    "blank lines first": (
        b"\n \r\n---\nname: demo\ndescription: Does it.\n---\n", PLAIN, ["1:1 blank_lines_first"]
    ),
    "no name": (b"---\ndescription: Does it.\n---\n", {"description": "Does it."}, ["2:1 name_missing"]),
    "no name but one below metadata": (
        b"---\ndescription: Does it.\nmetadata:\n  name: evil\n---\n",
        {"description": "Does it.", "metadata": {"name": "evil"}}, ["2:1 name_missing"],
    ),
    "all that readers of a few lines fall over": (
        b"\xef\xbb\xbf---\r\nname: demo # comment\r\ndescription: >\r\n  Does\r\n  it.\r\n"
        b"metadata:\r\n  name: evil\r\n---",
        PLAIN | {"metadata": {"name": "evil"}}, ["1:1 byte_order_mark", "2:12 comment"],
    ),
    "an empty name": (
        b"---\nname:\ndescription: Does it.\n---\n", {"description": "Does it."}, ["2:6 name_missing"]
    ),
    "a comment": (
        b"---\nname: demo\ndescription: Handles C# and issue #12\n---\n",
        PLAIN | {"description": "Handles C# and issue"}, ["3:35 comment"],
    ),
    "a comment after a name": (
        b"---\nname: demo # comment\ndescription: Does it.\n---\n", PLAIN, ["2:12 comment"]
    ),
    "a comment in metadata": (
        b"---\nname: demo\ndescription: Does it.\nmetadata:\n  a: b #c\n---\n",
        PLAIN | {"metadata": {"a": "b"}}, ["5:8 comment"],
    ),
    "an unknown field": (
        b"---\nname: demo\ndescription: Does it.\nversion: 1.10\n---\n",
        PLAIN | {"others": {"version": "1.10"}}, ["4:1 unknown_field"],
    ),
    "another name than its directory's": (
        b"---\nname: other\ndescription: Does it.\n---\n",
        PLAIN | {"name": "other"}, ["2:7 name_is_not_the_directorys"],
    ),
    "metadata that is a text": (
        b"---\nname: demo\ndescription: Does it.\nmetadata: x\n---\n", PLAIN, ["4:11 metadata_is_no_mapping"]
    ),
    "metadata that is not text": (
        b"---\nname: demo\ndescription: Does it.\nmetadata:\n  tags: [a, b]\n  deep: {x: [1]}\n---\n",
        PLAIN | {"metadata": {"tags": "a, b", "deep": '{"x": ["1"]}'}, "lists": {"tags": ("a", "b")}},
        ["5:9 metadata_is_not_text", "6:9 metadata_is_not_text"],
    ),
    "an empty compatibility": (
        b"---\nname: demo\ndescription: Does it.\ncompatibility: ''\n---\n",
        PLAIN, ["4:16 compatibility_empty"],
    ),
    "a compatibility that is too long": (
        b"---\nname: demo\ndescription: Does it.\ncompatibility: " + b"x" * 501 + b"\n---\n",
        PLAIN | {"compatibility": "x" * 501}, ["4:16 compatibility_too_long"],
    ),
    "a description that is too long": (
        b"---\nname: demo\ndescription: " + b"x" * 1025 + b"\n---\n",
        PLAIN | {"description": "x" * 1025}, ["3:14 description_too_long"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_what_is_taken_though_it_is_not_right_is_said_with_its_place(name: str) -> None:
    data, fields, found = SAID[name]
    document = parse_skill_md(data, directory="demo")
    assert (written(document), told(document)) == (fields, found)
    assert document.refusal is None


def test_hyphens_inside_of_a_line_end_no_fields_and_hyphens_further_down_no_instructions() -> None:
    body = "Do it.\n\n---\n\nThen --- more."
    document = parsed("name: demo\ndescription: Turns a --- rule into ---\n", body)
    assert (document.fields.description, document.body) == ("Turns a --- rule into ---", body)


def test_what_a_comment_takes_of_a_text_is_said_with_what_to_do() -> None:
    [finding] = parsed("name: demo\ndescription: Handles C# and issue #12\n").findings
    assert (finding.severity, finding.message, finding.fix) == (
        "warning",
        "text after # is a YAML comment, and no part of description",
        "if it belongs to description, put all of it in quotes",
    )


REPAIRED = {
    "description: Use when: x\n": "Use when: x",
    "description: ends with a colon:\n": "ends with a colon:",
    "description: [WIP] does things\n": "[WIP] does things",
    "description: [a, b]\n": "[a, b]",
    "description: {name} is replaced\n": "{name} is replaced",
    "description: {a}\n": "{a}",
    "description: @mentions people\n": "@mentions people",
    "description: `code` first\n": "`code` first",
    "description: *bold* first\n": "*bold* first",
    "description: *\n": "*",
    "description: &anchor and more\n": "&anchor and more",
    "description: !important thing\n": "!important thing",
    "description: %d of them\n": "%d of them",
    "description: > 5 GB files\n": "> 5 GB files",
    "description: - a list?\n": "- a list?",
    'description: "Quoted" at first: it goes on\n': '"Quoted" at first: it goes on',
    "description: 'Tis great\n": "'Tis great",
    'description: a \\ and a "quote": it\'s\n': 'a \\ and a "quote": it\'s',
    "description: 中文: 说明\n": "中文: 说明",
    "description: Use when: x\n  and also when: y\n": "Use when: x and also when: y",
    "description: Use when: x\n# a comment\n": "Use when: x",
    "description: Use when: x # a comment\n": "Use when: x",
}


@pytest.mark.parametrize("line", REPAIRED)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_a_value_that_needs_quotes_is_taken_as_it_was_meant(line: str, end: str) -> None:
    text = f"---\nname: demo\n{line}allowed-tools: Read\nmetadata:\n  a: b\n---\nDo it.\n".replace("\n", end)
    document = parse_skill_md(text.encode(), directory="demo")
    assert written(document) == {
        "name": "demo", "description": REPAIRED[line], "allowed_tools": "Read", "metadata": {"a": "b"},
    }  # fmt: skip
    repaired = [found for found in document.findings if found.repaired]
    assert [(found.line, found.column, found.severity) for found in repaired] == [(3, 14, "warning")]
    mended = apply(text, list(document.edits))
    again = parse_skill_md(mended.encode(), directory="demo")
    assert (again.fields, again.edits) == (document.fields, ())
    assert yaml.safe_load(mended.split("---")[1])["description"].strip() == REPAIRED[line]
    assert mended.count(end) == text.count(end)


def test_several_values_are_repaired_at_once_also_below_metadata() -> None:
    fields = "name: demo\ndescription: a: b\nlicense: @x\nmetadata:\n  author: Foo: bar\n  v: `1`\n"
    document = parsed(fields)
    assert told(document) == [f"{place} quotes_missing" for place in ("3:14", "4:10", "6:11", "7:6")]
    assert document.fields.metadata == {"author": "Foo: bar", "v": "`1`"}


REFUSED = {
    "nothing": (b"", "1:1 no_frontmatter"),
    "no fields": (b"# Only text\n", "1:1 no_frontmatter"),
    "a blank before the fence": (b" ---\nname: demo\ndescription: d\n---\n", "1:1 no_frontmatter"),
    "two byte order marks": (b"\xef\xbb\xbf" * 2 + b"---\ndescription: d\n---\n", "1:1 no_frontmatter"),
    "no end of the fields": (b"---\nname: demo\ndescription: d\n", "1:1 frontmatter_not_closed"),
    "an end that is indented": (b"---\nname: demo\ndescription: d\n ---\n", "1:1 frontmatter_not_closed"),
    "empty fields": (b"---\n---\n", "2:1 not_yaml"),
    "a list": (b"---\n- name: demo\n---\n", "2:1 not_yaml"),
    "a text": (b"---\nname\n---\n", "2:1 not_yaml"),
    "no description": (b"---\nname: demo\n---\n", "2:1 description_missing"),
    "an empty description": (b"---\nname: demo\ndescription: ''\n---\n", "3:14 description_missing"),
    "a description that is a list": (b"---\ndescription:\n- a\n- b\n---\n", "3:1 field_is_not_text"),
    "a key twice": (b"---\nname: demo\ndescription: d\nname: other\n---\n", "4:1 not_yaml"),
    "a key twice in metadata": (b"---\ndescription: d\nmetadata:\n  a: b\n  a: c\n---\n", "5:3 not_yaml"),
    "permissions twice": (
        b"---\ndescription: d\nallowed-tools: Read\nallowed-tools: Bash\n---\n", "4:1 not_yaml"
    ),
    "a key that is a list": (b"---\n? [a]\n: b\ndescription: d\n---\n", "2:3 not_yaml"),
    "a tab as indentation": (b"---\nname: demo\ndescription: d\nmetadata:\n\ta: b\n---\n", "5:1 not_yaml"),
    "fields behind a tab": (b"---\nname: demo\ndescription: d\n\tlicense: MIT\n---\n", "4:1 not_yaml"),
    "aliases": (
        b"---\ndescription: d\nmetadata:\n  a: &a [x, x]\n  b: [*a, *a]\n---\n", "5:7 not_yaml"
    ),
    "a second document": (b"---\ndescription: d\n...\nallowed-tools: Read\n---\n", "4:1 not_yaml"),
    "deep nesting": (b"---\ndescription: d\nmetadata: " + b"[" * 500 + b"\n---\n", "3:26 not_yaml"),
    "deep blocks": (b"---\ndescription: d\nmetadata: \n" + b"- " * 5000 + b"x\n---\n", "4:31 not_yaml"),
    "a NUL": (b"---\ndescription: d\x00\n---\n", "2:15 not_yaml"),
    "a control character": (b"---\ndescription: d\x07\n---\n", "2:15 not_yaml"),
    "other bytes than UTF-8": (b"---\ndescription: caf\xe9\n---\n", "2:17 not_utf8"),
    "UTF-16": ("---\ndescription: d\n---\n".encode("utf-16"), "1:1 not_utf8"),
    "a name that leads elsewhere": (b"---\nname: ../x\ndescription: d\n---\n", "2:7 invalid_name"),
    "a name of dots": (b"---\nname: ..\ndescription: d\n---\n", "2:7 invalid_name"),
    "a name with a control character": (b'---\nname: "a\\eb"\ndescription: d\n---\n', "2:7 invalid_name"),
    "a name that looks like another": (
        '---\nname: de\u200bmo\ndescription: d\n---\n'.encode(), "2:7 invalid_name"
    ),
    "a name that is read from both sides": (
        '---\nname: a\u202eb\ndescription: d\n---\n'.encode(), "2:7 invalid_name"
    ),
    "a name without end": (b"---\nname: " + b"x" * 257 + b"\ndescription: d\n---\n", "2:7 invalid_name"),
    "more than 1 MiB": (b"---\ndescription: d\n---\n" + b"x" * MAX_BYTES, "1:1 too_large"),
    "endless fields": (b"---\ndescription: " + b"x" * 65536 + b"\n---\n", "2:1 frontmatter_too_large"),
    "thousands of values": (
        b"---\ndescription: d\nmetadata: [" + b"x," * 12_000 + b"]\n---\n", "3:20006 not_yaml"
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "directory", ["a,b", "a ", " a", "a\nb", "a\x1b[2J", "a\udcff", "x" * 257, "a\u2028b"]
)
def test_a_directory_that_cannot_give_a_name_gives_none(directory: str) -> None:
    unnamed, named = (
        parse_skill_md(f"---\n{name}description: Does it.\n---\n".encode(), directory=directory)
        for name in ("", "name: demo\n")
    )
    assert unnamed.refusal is not None
    assert (unnamed.refusal.code, named.refusal) == ("invalid_name", None)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_a_skill_is_refused_with_its_place(name: str) -> None:
    data, found = REFUSED[name]
    refusal = parse_skill_md(data).refusal
    assert refusal is not None
    assert f"{refusal.line}:{refusal.column} {refusal.code}" == found


HOSTILE = {
    "blank lines": b"\r\n" * 100_000 + b"x",
    "blanks": b" " * 1_000_000,
    "fences": b"---\n" * 200_000,
    "a key of blanks": b"---\nx: [\na" + b" " * 60_000 + b"\n---\n",
    "a value of blanks": b"---\ndescription: a: b" + b" \t" * 30_000 + b"x\n---\n",
    "unknown keys": b"---\ndescription: d\n" + b"".join(b"tool%d: x\n" % n for n in range(4_000)) + b"---\n",
    "broken keys": b"---\n" + b"".join(b"k%d: a: b\n" % n for n in range(4_000)) + b"---\n",
    "grants": b"---\ndescription: d\nallowed-tools: " + b"Bash( " * 10_000 + b"\n---\n",
    "permissions": b"---\ndescription: d\nlicense: " + b"allowed-tools " * 4_000 + b"\n---\n",
    "comments": b"---\ndescription: a: b" + b"\n #" * 20_000 + b"\n---\n",
    "marks": b"---\ndescription: d\nlicense: a" + "\u0316\u0301".encode() * 32_000 + b"\n---\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_reading_takes_no_longer_than_the_file_is_long(name: str) -> None:
    begun = time.process_time()
    document = parse_skill_md(HOSTILE[name])
    assert time.process_time() - begun < 3
    assert len(document.findings) <= 101


def test_of_very_many_findings_the_worst_are_told() -> None:
    findings = parsed("".join(f"x{n}: y\n" for n in range(500))).findings
    codes = [found.code for found in findings]
    assert {"name_missing", "description_missing"} <= set(codes)
    assert codes.count("unknown_field") == 98
    assert "402 more findings are not told" in [found.message for found in findings]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_nesting_without_end_breaks_nothing(opening: str) -> None:
    refusal = parsed(f"{HEAD}metadata:\n  {opening * 10_000}\n").refusal
    assert refusal is not None
    assert "nested too deeply" in refusal.message


NAMES = {
    "demo": None, "pdf-processing": None, "a": None, "1": None, "x" * 64: None,
    "café": "name_not_portable", "数据-分析": "name_not_portable", "cafe\u0301": "name_not_portable",
    "x" * 65: "invalid_name", "PDF": "invalid_name", "-pdf": "invalid_name", "pdf-": "invalid_name",
    "a--b": "invalid_name", "a_b": "invalid_name", "a b": "invalid_name", "a.b": "invalid_name",
    "É": "invalid_name", "~": "invalid_name", "emoji😀": "invalid_name",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_held_against_the_specification(name: str) -> None:
    document = parse_skill_md(f"---\nname: {name}\ndescription: d\n---\n".encode())
    assert [found.code for found in document.findings] == [code for code in [NAMES[name]] if code]
    assert document.fields.name == name


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("PDF Tools", "name: pdf-tools"), ("-a__b.", "name: a-b"), ("../x", "name: x"),
        ("d\u00e9j\u00e0 vu", "name: deja-vu"),
        ("\u6570\u636e", "name: pdf-processing"), ("x" * 65, f"name: {'x' * 64}"),
    ],
)  # fmt: skip
def test_the_fix_of_a_name_is_one_that_can_be_used(name: str, fix: str) -> None:
    [finding] = parse_skill_md(f"---\nname: {name}\ndescription: d\n---\n".encode()).findings
    assert finding.fix == fix
    assert parse_skill_md(f"---\n{fix}\ndescription: d\n---\n".encode()).findings == ()


def test_a_name_that_is_not_the_directorys_can_be_put_right_on_either_side() -> None:
    [finding] = parse_skill_md(b"---\nname: other\ndescription: d\n---\n", directory="demo").findings
    assert finding.fix == "name: demo, or rename the directory"


def test_two_spellings_of_a_name_are_the_same_name() -> None:
    data = "---\nname: café\ndescription: d\n---\n".encode()
    decomposed = unicodedata.normalize("NFD", "café")
    assert [found.code for found in parse_skill_md(data, directory=decomposed).findings] == [
        "name_not_portable"
    ]


TOOLS: dict[str, list[str] | None] = {
    "Read": ["Read"],
    "Read Write": ["Read", "Write"],
    "Read, Write,Edit": ["Read", "Write", "Edit"],
    "Bash(git:*) Bash(jq:*) Read": ["Bash(git:*)", "Bash(jq:*)", "Read"],
    "Bash(npm run *), Read": ["Bash(npm run *)", "Read"],
    "Bash(a, b) Read": ["Bash(a, b)", "Read"],
    "Bash(echo (x) y)": ["Bash(echo (x) y)"],
    "mcp__github__* *": ["mcp__github__*", "*"],
    "Read Read": ["Read"],
    "Read\n  Write": ["Read", "Write"],
    "[Read, 'Bash(npm run *)']": ["Read", "Bash(npm run *)"],
    "\n- Read\n- Bash(npm run *)": ["Read", "Bash(npm run *)"],
    "\n- Bash(git:*)\n- Read, Write": ["Bash(git:*)", "Read", "Write"],
    "''": [],
    "[]": [],
    "Bash(git": None,
    "Bash git)": None,
    "Bash()": None,
    "Bash(x)y": None,
    "Bash(x)(y)": None,
    "Bash(((x)))": None,
    "(x)": None,
    "- Read": None,
    "'\"Read\"'": None,
    "'[Read'": None,
    "Read; Write": None,
    "{Read: yes}": None,
    "[[Read]]": None,
    "\n- Bash: git": None,
    "!!set {Read}": None,
    "!x Read": None,
    "&x Read": None,
    "[&x Read]": None,
    "Bash(git: *)": None,
    "@Read": None,
    "[Read] Write": None,
    "Bash(git # x)": None,
}
"""By what is written: the grants, or None where it cannot be read for sure, so that nothing is allowed."""


@pytest.mark.parametrize("text", TOOLS)
def test_permissions_are_read_whole_or_allow_nothing(text: str) -> None:
    document = parsed(f"{HEAD}allowed-tools: {text}\n")
    allowed = document.fields.allowed_tools
    assert allowed is not None
    assert list(map(str, allowed.grants)) == (TOOLS[text] or [])
    assert allowed.valid == (TOOLS[text] is not None)
    errors = [found.code for found in document.findings if found.severity == "error"]
    assert errors == ([] if allowed.valid else ["allowed_tools_unreadable"])
    assert not document.edits


def test_a_grant_knows_its_tool_and_its_pattern() -> None:
    assert AllowedTools.parse("Read Bash( git:* )").grants == (Grant("Read"), Grant("Bash", "git:*"))


NEARLY = (
    "Allowed-Tools: Read\n", "allowed_tools: Read\n", "allowedTools: Read\n", "allowed tools: Read\n",
    "allowed-tool: Read\n", "alowed-tools: Read\n", "disallowed-tools: Bash\n",
    "allowed\u2011tools: Read\n", "\u200ballowed-tools: Read\n", "\u0430llowed-tools: Read\n",
    "metadata:\n  allowed-tools: Read\n", "allowed-tools:\n", "allowed-tools: null\n",
    "license: 'it\nallowed-tools: Read\ncompatibility: is'\n",
    "license: |\n  x\n  allowed-tools: Read\n",
    "compatibility: Use when: x allowed-tools: Read\n",
    "license: a: b\n allowed-tools: Read\n",
    "allowed-tools\uff1aRead\n", "allowed-tools = Read\n", "allowed-tools Read\n", "  allowed_tools Read\n",
    "allowedTools Read\n", "allowed-tools # why\n: Read\n",
    "\uff41\uff4c\uff4c\uff4f\uff57\uff45\uff44-tools: Read\n",
    "license: |\n  x\n  allow-tools: Read\n", "license: |\n  x\n  allowed-tools\u200b: Read\n",
    "license: a: b\n  allowed\u2013tools: Read\n", "license: a: b\n? 'allowed-tools'\n: Read\n",
    'metadata:\n  x:\n    "allowed\\x2dtools": Read\n',
    "allowed-tools: Bash\ndisallowed-tools: Bash(rm *)\n", "allowed_tools: Read\nallowed-tools: '*'\n",
)  # fmt: skip
"""Frontmatter whose author meant a restriction that cannot be read for sure."""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\u2028"], ids=["LF", "CRLF", "CR", "LS"])
@pytest.mark.parametrize("line", NEARLY)
def test_a_restriction_that_was_meant_is_never_lost(line: str, end: str) -> None:
    document = parsed(HEAD + line[:-1].replace("\n", end) + "\n")
    allowed = document.fields.allowed_tools
    assert document.refusal is not None or (allowed is not None and not allowed.grants)


@pytest.mark.parametrize(
    "line", ["allowed-tools Read\n", "  allowed_tools = Read\n", "allowed-tools\uff1aRead\n"]
)
def test_no_repair_makes_a_restriction_a_part_of_what_is_above_it(line: str) -> None:
    document = parsed("name: demo\ndescription: Use when: x\n" + line)
    assert document.refusal is not None
    assert (document.refusal.code, document.edits) == ("not_yaml", ())


@pytest.mark.parametrize("between", ["---\n", "---\n\n", "---\nlicense: MIT\n"])
def test_a_restriction_right_below_the_fields_is_not_lost_either(between: str) -> None:
    document = parse_skill_md(f"---\n{HEAD}{between}allowed-tools: Read\n---\nDo it.\n".encode())
    assert document.fields.allowed_tools == AllowedTools.nothing()
    line = between.count("\n") + 4
    assert f"{line}:1 allowed_tools_unreadable" in told(document)


UNRESTRICTED = (
    "# allowed-tools: Read\n", "license: MIT\n", "metadata:\n  tool: x\n",
    "license: of the allowed tools\n", "license: |\n  says which\n  allowed tools there are\n",
)  # fmt: skip


def test_what_instructions_say_of_permissions_further_down_restricts_nothing() -> None:
    body = "# Writing skills\n\nallowed-tools: Read\n"
    assert parsed(HEAD, body).fields.allowed_tools is None


@pytest.mark.parametrize("line", UNRESTRICTED)
def test_a_skill_whose_author_restricts_nothing_is_not_restricted(line: str) -> None:
    assert parsed(HEAD + line).fields.allowed_tools is None


@pytest.mark.parametrize("key", ["tools", "name", "metadata", "all", "license", "version", "alias"])
def test_other_keys_are_no_permissions(key: str) -> None:
    assert not is_permission_key(key)


KEYS = st.sampled_from(["name", "description", "license", "compatibility", "metadata", "x", "allowed-tools"])
VALUES = st.one_of(
    st.text("abAB :#-[]{}&*!|>'\"%@`,()\\?~0.\t", max_size=12),
    st.sampled_from(["Use when: x", "'Tis", '"a', "|", ">", "[a", "a\n  b: c", "a\n b", "\n  a: b", "&a *a"]),
)
LINES = st.lists(st.tuples(KEYS, VALUES).map(lambda pair: f"{pair[0]}: {pair[1]}\n"), max_size=6)
FRONTMATTERS = LINES.map("".join)


def fails_open(read: Any, fields: str) -> bool:
    """Whether a skill whose text has a line of permissions is loaded without any restriction."""
    loaded, allowed = read(fields)
    return bool(loaded and allowed is None)


def ours(fields: str) -> tuple[bool, Any]:
    document = parsed(fields)
    return document.refusal is None, document.fields.allowed_tools


def naive(fields: str) -> tuple[bool, Any]:
    """A host that gives a skill whose frontmatter is broken no fields at all, and loads it all the same."""
    try:
        loaded = yaml.load(fields, Loader=yaml.BaseLoader) or {}
    except yaml.YAMLError:
        loaded = {}
    return True, loaded.get("allowed-tools") if isinstance(loaded, dict) else None


@settings(max_examples=300)
@given(FRONTMATTERS, FRONTMATTERS, VALUES)
@example("description: Use when: x\n", "", "Read")
@example("description: 'Tis\n", "license: don't\n", "Read")
@example("description: 'Tis\n", "license: dont'\n", "Read")
@example("description: d\nlicense: |\n", "", "Read")
@example("description: [a\n", "license: b]\n", "Read")
@example("description: d\nx: a: b\n", "", "[a")
def test_permissions_fail_closed_whatever_is_around_them(before: str, after: str, tools: str) -> None:
    assert not fails_open(ours, f"{before}allowed-tools: {tools}\n{after}")


def test_that_property_catches_a_host_that_drops_broken_fields() -> None:
    assert fails_open(naive, "description: Use when: x\nallowed-tools: Read\n")


@settings(max_examples=300)
@given(st.one_of(st.binary(max_size=200), FRONTMATTERS.map(lambda text: f"---\n{text}---\n".encode())))
def test_whatever_the_bytes_are_they_are_read_or_refused(data: bytes) -> None:
    document = parse_skill_md(data, directory="demo")
    assert document.refusal is not None or document.fields.description
    for found in document.findings:
        assert found.line >= 1
        assert found.column >= 1
    if document.edits:
        mended = parse_skill_md(apply(data.decode(), list(document.edits)).encode(), directory="demo")
        assert mended.edits == ()
        assert mended.fields == document.fields


def test_the_loader_raises_nothing_but_what_it_says(tmp_path: Path) -> None:
    @given(st.one_of(st.binary(max_size=80), FRONTMATTERS.map(lambda text: f"---\n{text}---\n".encode())))
    def load(data: bytes) -> None:
        (tmp_path / "SKILL.md").write_bytes(data)
        try:
            assert load_local_skill(tmp_path).description
        except SkillError as error:
            assert error.details["findings"]

    load()


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20)


@settings(max_examples=200)
@given(
    st.dictionaries(st.sampled_from(["license", "compatibility"]), WORDS),
    WORDS,
    st.dictionaries(WORDS, WORDS),
)
def test_what_yaml_writes_is_read_as_other_readers_read_it(
    texts: dict[str, str], description: str, metadata: dict[str, str]
) -> None:
    fields = texts | {"name": "demo", "description": description, "metadata": metadata}
    text = yaml.safe_dump(fields, allow_unicode=True, width=60)
    theirs = yaml.load(text, Loader=yaml.BaseLoader)
    document = parsed(text)
    if not description.strip():
        assert document.refusal is not None
        return
    assert document.fields.description == theirs["description"].strip()
    assert dict(document.fields.metadata) == {key: value.strip() for key, value in theirs["metadata"].items()}
    for key in texts:
        assert getattr(document.fields, key) == theirs[key].strip()


SIMPLE = (
    st.text("abcxyz ABC.,éü中", min_size=1, max_size=30)
    .map(str.strip)
    .filter(lambda text: text and text[0] not in ",.")
)


def test_the_specifications_own_reader_agrees_about_valid_skills(tmp_path: Path) -> None:
    from skills_ref.parser import parse_frontmatter

    @settings(max_examples=50)
    @given(SIMPLE, st.lists(st.sampled_from(["Read", "Bash(git:*)", "mcp__a__b"]), min_size=1), SIMPLE)
    def agree(description: str, tools: list[str], body: str) -> None:
        text = f"---\nname: demo\ndescription: {description}\nallowed-tools: {' '.join(tools)}\n"
        text += f"metadata:\n  author: {description}\n---\n\n{body}\n"
        theirs, their_body = parse_frontmatter(text)
        document = parse_skill_md(text.encode(), directory="demo")
        assert not document.findings
        assert (theirs["name"], theirs["description"]) == ("demo", document.fields.description)
        assert theirs["metadata"] == document.fields.metadata
        assert theirs["allowed-tools"].split() == [*dict.fromkeys(tools)] or len(tools) != len(set(tools))
        assert their_body == document.body

    agree()


def test_a_skill_is_loaded_with_all_that_its_file_says(tmp_path: Path) -> None:
    skill = tmp_path / "demo"
    (skill / "scripts").mkdir(parents=True)
    (skill / "scripts" / "run-workflow.sh").touch()
    (skill / "scripts" / "a.py").touch()
    (skill / "scripts" / "link").symlink_to("/etc/passwd")
    os.mkfifo(skill / "scripts" / "pipe")
    (skill / "SKILL.md").write_text(
        "---\ndescription: d\nversion: 1.10\nmetadata:\n  aliases: a, b\n  examples: |\n    Draw x, y\n"
        "    Fill z\n  tags: [t, u]\n---\n\nDo it.\n"
    )
    loaded = load_local_skill(skill)
    assert (loaded.name, loaded.description, loaded.body, loaded.version) == ("demo", "d", "Do it.", "1.10")
    assert (loaded.aliases, loaded.tags, loaded.examples) == (("a", "b"), ("t", "u"), ("Draw x, y", "Fill z"))
    assert (loaded.root_dir, loaded.skill_md) == (skill, skill / "SKILL.md")
    assert loaded.script_files == ("scripts/a.py", "scripts/run-workflow.sh")
    assert loaded.entry_point == "scripts/run-workflow.sh"
    assert load_local_skill(skill, default_name="given").name == "given"


def test_a_directory_without_a_skill_is_not_found(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "absent"):
        with pytest.raises(FileNotFoundError, match=r"SKILL\.md"):
            load_local_skill(directory)


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "below a file"])
def test_only_a_regular_file_is_read_and_nothing_is_waited_for(tmp_path: Path, kind: str) -> None:
    directory, path = tmp_path, tmp_path / "SKILL.md"
    if kind == "link":
        (tmp_path / "other").write_text("---\ndescription: d\n---\n")
        path.symlink_to("other")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        directory = tmp_path / "file"
        directory.touch()
    with pytest.raises(SkillError):
        load_local_skill(directory)
