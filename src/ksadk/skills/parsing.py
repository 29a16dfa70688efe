"""SKILL.md: frontmatter in YAML between two lines `---`, and the instructions below.

By the Agent Skills specification. What its hosts disagree about is taken where it can be told what the author
meant, and said; permissions that cannot be read allow nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ksadk.skills.allowed_tools import is_permission_key
from ksadk.skills.findings import Edit, Finding, Findings
from ksadk.skills.frontmatter import TEXT_FIELDS, Frontmatter, read_fields, tell_comment
from ksadk.skills.repairs import Repair, apply, is_text, place_before, quotings
from ksadk.skills.yaml_nodes import Node, NotYaml, read_nodes

MAX_BYTES = 1024 * 1024
MAX_FRONTMATTER_CHARS = 64 * 1024

_BOM = "\ufeff"
_BLANK_LINES = re.compile(r"(?:[ \t]*+(?:\r\n|\n|\r))++(?=---[ \t]*[\r\n])")
_OPENING = re.compile(r"---[ \t]*(?:\r\n|\n|\r|\Z)")
_FENCE = re.compile(rf"(?<=[\r\n]){_OPENING.pattern}")
"""Blanks may follow the hyphens, as the specification's own validator takes them; none may precede them."""
_PERMISSIONS_BELOW = re.compile(
    r"(?:[ \t]*+(?:\r\n|\n|\r))*+"
    r"(?:[a-z][\w-]*+[ \t]*+:[^\r\n]*+(?:\r\n|\n|\r))*?(?=allowed[-_]?tools[ \t]*+:)",
    re.IGNORECASE,
)
"""Where the instructions begin with further fields, which were to be above the fence."""


@dataclass(frozen=True)
class Document:
    """What a SKILL.md says. With a finding that refuses, the fields are those that could be read.

    body: the instructions, without blank lines around them, and with LF as the line end.
    edits: what repairs the file itself, as places in its text; empty where nothing can be.
    """

    fields: Frontmatter
    body: str
    findings: tuple[Finding, ...]
    edits: tuple[Edit, ...] = ()

    @property
    def refusal(self) -> Finding | None:
        """Why it cannot be loaded, or None."""
        return next((finding for finding in self.findings if finding.refuses), None)


def parse_skill_md(data: bytes, *, directory: str = "") -> Document:
    """Read the bytes of a SKILL.md of at most 1 MiB. Whatever they are, nothing is raised.

    directory: the name that its directory has, which the specification wants to be the skill's; any if empty.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = Findings(data[: error.start].decode())
        before.error(len(before.text), "not_utf8", "not UTF-8 text", "save it as UTF-8", refuses=True)
        return Document(Frontmatter(), "", tuple(before.found))
    findings = Findings(text)
    if len(data) > MAX_BYTES:
        findings.error(0, "too_large", "larger than 1 MiB", "move what is long to other files", refuses=True)
        return Document(Frontmatter(), "", tuple(findings.found))
    return _Parser(text, findings, directory).document()


class _Parser:
    def __init__(self, text: str, findings: Findings, directory: str) -> None:
        self.text = text
        self.findings = findings
        self.directory = directory
        self.edits: list[Edit] = []

    def document(self) -> Document:
        start = self._start()
        opening = _OPENING.match(self.text, start)
        closing = opening and _FENCE.search(self.text, opening.end())
        fields, body = Frontmatter(), ""
        if opening is None:
            message = "it does not begin with a line --- and fields in YAML"
            self.findings.error(
                start, "no_frontmatter", message, "---, name: ..., description: ..., ---", refuses=True
            )
        elif closing is None:
            message = "no line --- ends the fields"
            self.findings.error(
                start, "frontmatter_not_closed", message, "write --- below them", refuses=True
            )
        else:
            body = self.text[closing.end() :].replace("\r\n", "\n").replace("\r", "\n").strip()
            below = _PERMISSIONS_BELOW.match(self.text, closing.end())
            fields = self._fields(opening.end(), closing.start(), below and below.end())
        return Document(fields, body, self.findings.in_order(), tuple(self.edits))

    def _start(self) -> int:
        """Where the first fence should be, after what editors put before it."""
        start = len(_BOM) if self.text.startswith(_BOM) else 0
        if start:
            self._repaired(
                0,
                "byte_order_mark",
                "a byte order mark, with which most hosts do not take the file",
                Edit(0, start, ""),
            )
        blank = _BLANK_LINES.match(self.text, start)
        if blank:
            self._repaired(
                start, "blank_lines_first", "blank lines before the first ---", Edit(start, blank.end(), "")
            )
            return blank.end()
        return start

    def _repaired(self, index: int, code: str, message: str, edit: Edit) -> None:
        self.findings.warning(index, code, message, "take it out", repaired=True)
        self.edits.append(edit)

    def _fields(self, start: int, end: int, below: int | None) -> Frontmatter:
        if end - start > MAX_FRONTMATTER_CHARS:
            message = f"the fields have more than {MAX_FRONTMATTER_CHARS:,} characters"
            self.findings.error(start, "frontmatter_too_large", message, refuses=True)
            return Frontmatter()
        text = self.text[start:end]
        root, problem = _read(text)
        repairs: list[Repair] = []
        if (root is None or not _has_texts(root)) and not (problem and problem.meant):
            repairs = quotings(text, texts=TEXT_FIELDS)
            repaired = apply(text, [repair.edit for repair in repairs])
            root, _ = _read(repaired)
            for repair in repairs if root else ():
                self._tell(repair, start)
            text = repaired
        if root is None:
            index, message = (problem.index, problem.message) if problem else (0, "they are not key: value")
            self.findings.error(
                start + index,
                "not_yaml",
                f"the fields are not YAML: {message}",
                "see to that line",
                refuses=True,
            )
            return Frontmatter()
        edits = [repair.edit for repair in repairs]
        return read_fields(
            root, text, lambda index: start + place_before(index, edits), self.findings,
            unsure=frozenset(repair.key for repair in repairs), directory=self.directory, below=below,
        )  # fmt: skip

    def _tell(self, repair: Repair, base: int) -> None:
        """What was repaired. Permissions are no guess: read_fields says that they cannot be read."""
        if is_permission_key(repair.key):
            return
        start, end, value = repair.edit
        first = value.splitlines()[0]
        fix = (
            f"{repair.key}: {value[:200]}" if first == value else f"put all of it in quotes: {first[:80]} ..."
        )
        message = f"the value of {repair.key} is not YAML without quotes"
        self.findings.warning(base + start, "quotes_missing", message, fix, repaired=True)
        self.edits.append(Edit(base + start, base + end, value))
        tell_comment(self.findings, base + end, repair.key)


def _has_texts(root: Node) -> bool:
    """Whether the fields that are text can be taken as they are."""
    return isinstance(root.value, dict) and all(
        is_text(node) for key, node in root.value.items() if key in TEXT_FIELDS
    )


def _read(text: str) -> tuple[Node | None, NotYaml | None]:
    """The mapping in a text, or what is wrong with it."""
    try:
        root = read_nodes(text)
    except NotYaml as error:
        return None, error
    return (root if root is not None and isinstance(root.value, dict) else None), None
