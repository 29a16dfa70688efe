"""The second reading of a line, by tree-sitter's grammar of bash, and whether it agrees with the first.

The grammar alone is no proof: it reads some lines cleanly and still hides a command that bash runs. What it
is good for is to be another author's reading, so that a mistake of ours shows as a difference.
"""

from __future__ import annotations

import functools

import tree_sitter_bash
from tree_sitter import Language, Node, Parser, Query, QueryCursor

from ksadk.tools.commands.words import NotProven, Script

_COMMANDS = """
(command) @command
(declaration_command) @other
(unset_command) @other
(test_command) @other
(ERROR) @error
(MISSING) @error
"""


@functools.cache
def _grammar() -> tuple[Parser, Query]:
    language = Language(tree_sitter_bash.language())
    return Parser(language), Query(language, _COMMANDS)


def check_agreement(script: Script) -> None:
    """Raise `NotProven` where the grammar finds other commands, or other words in them."""
    captures = _captures(script.source)
    if "error" in captures:
        raise NotProven("the grammar of bash does not take it")
    named = {each.words[0].start: each for each in script.commands if each.words}
    found = set()
    for node in captures.get("other", ()):
        found.add(node.start_byte)
    for node in captures.get("command", ()):
        name = node.child_by_field_name("name")
        if name is None:
            raise NotProven("the grammar of bash finds a command without a name")
        found.add(name.start_byte)
        ours = named.get(name.start_byte)
        if ours is None:
            continue
        ends = {word.start: word.end for word in ours.words}
        for word in (name, *node.children_by_field_name("argument")):
            if ends.get(word.start_byte) != word.end_byte:
                raise NotProven("two readings of it differ in a word")
    if found != named.keys():
        raise NotProven("two readings of it differ in a command")


def likely_commands(source: str) -> list[str]:
    """The text of each command that the grammar finds, also in a line that it takes only in part."""
    return [_text(source, node) for node in _captures(source).get("command", ())]


def _captures(source: str) -> dict[str, list[Node]]:
    parser, query = _grammar()
    tree = parser.parse(source.encode("latin-1"))
    return QueryCursor(query).captures(tree.root_node)


def _text(source: str, node: Node) -> str:
    return source[node.start_byte : node.end_byte]
