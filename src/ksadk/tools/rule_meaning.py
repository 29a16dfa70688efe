"""What a rule that is broken was meant to say: a slip must not open what it was to close."""

from __future__ import annotations

import difflib
import re
from typing import Any

from ksadk.tools.rules import VERDICTS, Verdict

KEYS = (*VERDICTS, "argv", "where", "reason", "expires", "project", "match", "not_match")
"""Of a rule in a file."""

TOOL = re.compile(r"[\w.:/*?-]{1,200}")

_MEAN_DENY = ("disallow", "forbid", "block", "refuse", "reject", "denied")
_MAX_NEAR = 12
"""Characters of a key that may be a verdict with a slip in it."""
_MAX_DEPTH = 200
"""Lists and mappings of a bad rule that are looked through for what it means."""


def meant(node: Any) -> tuple[Verdict | None, str]:
    """What a bad rule seems to be: the strictest verdict in it or near, and the one tool that it would have
    tightened; no tool, which then stands for all, where there are several or none."""
    found = _seeming(node, set())
    verdict = min((verdict for verdict, _ in found), key=VERDICTS.index, default=None)
    tools = {tool for each, tool in found if verdict == "allow" or each != "allow"}
    return verdict, tools.pop() if len(tools) == 1 else ""


def _seeming(node: Any, seen: set[int]) -> list[tuple[Verdict, str]]:
    """Verdicts, each with its tool, in a node of any shape: `- deny x`, `- [deny, x]`, `- DENY: x`."""
    if id(node) in seen or len(seen) > _MAX_DEPTH:
        return []
    seen.add(id(node))
    if node.id == "scalar":
        return _in_words(node.value.replace(":", " ").split())
    if node.id == "sequence":
        words = [item.value for item in node.value if item.id == "scalar"]
        spread = [pair for item in node.value if item.id != "scalar" for pair in _seeming(item, seen)]
        return _in_words(" ".join(words).replace(":", " ").split()) + spread
    found = []
    for key, value in node.value:
        words = key.value.split() if key.id == "scalar" else []
        verdict = verdict_near(words[0]) if words else None
        if verdict is not None:
            found.append((verdict, _tool_in(value) if len(words) == 1 else ""))
    inner = [value for key, value in node.value if key.id != "scalar" or key.value not in KEYS]
    return found or [pair for value in inner if value.id != "scalar" for pair in _seeming(value, seen)]


def _in_words(words: list[str]) -> list[tuple[Verdict, str]]:
    verdict = verdict_near(words[0]) if words else None
    if verdict is None:
        return []
    return [(verdict, words[1] if len(words) == 2 and TOOL.fullmatch(words[1]) else "")]


def verdict_near(word: str) -> Verdict | None:
    """The verdict that a key is, in letters of any size, or nearly is."""
    word = word.strip().lower()
    if word in KEYS:
        return next((verdict for verdict in VERDICTS if verdict == word), None)
    if word in _MEAN_DENY:
        return "deny"
    near = difflib.get_close_matches(word, VERDICTS, 1) if len(word) <= _MAX_NEAR else []
    return next((verdict for verdict in VERDICTS if verdict in near), None)


def _tool_in(node: Any) -> str:
    """The tool that a node names; empty where it names none, which then stands for all."""
    is_text = node.id == "scalar" and node.tag.endswith(":str")
    return node.value if is_text and TOOL.fullmatch(node.value) else ""
