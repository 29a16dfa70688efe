"""Codes are public: each that is raised has a row in the table, and each row is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from agentengine_cli.output import EXIT_STATUS
from ksadk.errors import CODES, Kind, KsadkError
from ksadk.tools.approvals import Outcome

SRC = Path(__file__).resolve().parents[2] / "src"
FILES = sorted(SRC.rglob("*.py"))


def texts(node: ast.AST) -> Iterator[str]:
    """The texts that an expression may be: a literal, or the arms of a choice between literals."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*texts(node.body), *texts(node.orelse))


def raised(tree: ast.AST) -> Iterator[str]:
    """The codes that a file names: `code=...` of a call, `code = ...` of a class, `error_type` of a dict."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "code":
            yield from texts(node.value)
        elif isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, (ast.Assign, ast.AnnAssign)) and item.value is not None:
                    targets = item.targets if isinstance(item, ast.Assign) else [item.target]
                    if any(isinstance(target, ast.Name) and target.id == "code" for target in targets):
                        yield from texts(item.value)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "error_type":
                    yield from texts(value)


def table_free(file: Path) -> ast.AST:
    """A file's tree without the table itself."""
    tree = ast.parse(file.read_text("utf-8"))
    if file.name == "errors.py":
        tree.body = [node for node in tree.body if not (isinstance(node, ast.AnnAssign) and is_table(node))]
    return tree


def is_table(node: ast.AnnAssign) -> bool:
    return isinstance(node.target, ast.Name) and node.target.id == "CODES"


def subclasses(kind: type[KsadkError]) -> Iterator[type[KsadkError]]:
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def test_every_code_that_is_raised_has_a_row() -> None:
    missing = {code: file.name for file in FILES for code in raised(table_free(file)) if code not in CODES}
    assert missing == {}


def test_every_row_is_used() -> None:
    named = {
        node.value
        for file in FILES
        for node in ast.walk(table_free(file))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    built_in = {"usage"}  # the command line's own
    assert set(CODES) - named - built_in == set()


def test_the_outcomes_of_a_call_that_was_not_let_through_have_rows() -> None:
    outcomes = get_args(Outcome)
    assert len(outcomes) == 3
    assert set(outcomes) <= set(CODES)


def test_every_kind_has_an_exit_status_of_its_own() -> None:
    assert set(EXIT_STATUS) == set(get_args(Kind))
    assert len(set(EXIT_STATUS.values())) == len(EXIT_STATUS)
    assert {0, 130} & set(EXIT_STATUS.values()) == set()


@pytest.mark.parametrize("code", CODES)
def test_a_row_has_a_kind_and_a_sentence(code: str) -> None:
    kind, meaning = CODES[code]
    assert kind in EXIT_STATUS
    assert meaning[0].isupper()
    assert meaning.endswith(".")


def test_an_error_with_a_code_that_has_no_row_is_a_bug() -> None:
    with pytest.raises(KeyError):
        _ = KsadkError("x", code="no_such_code").kind


def test_errors_are_what_python_programs_expect_of_their_kind() -> None:
    for error in subclasses(KsadkError):
        assert error.code in CODES
    assert KsadkError("m", code="usage", hint="h", path="p").to_result() == {
        "ok": False, "error_type": "usage", "error_message": "m", "hint": "h", "path": "p",
    }  # fmt: skip
    assert "hint" not in KsadkError("m").to_result()
