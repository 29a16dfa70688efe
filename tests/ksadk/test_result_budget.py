"""Large results are trimmed, kept in private files, and never fail a call that has finished."""

from __future__ import annotations

import json
import resource
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksadk.errors import SettingsError
from ksadk.tools.result_budget import (
    ToolResultBudget,
    budget_text_fields,
    budget_tool_output,
    default_tool_result_budget,
    result_path,
)


def small(directory: Path, **limits: int) -> ToolResultBudget:
    return ToolResultBudget(
        **{"max_chars": 10, "preview_chars": 4, "persist_threshold_chars": 10, **limits},
        persist_dir=directory,
    )


def trim(value: Any, budget: ToolResultBudget, **metadata: Any) -> dict[str, Any]:
    return budget_tool_output(
        tool_name="run_command", field_name="stdout", value=value, metadata=metadata, budget=budget
    )


def test_a_short_text_is_left_alone(tmp_path: Path) -> None:
    assert trim("0123456789", small(tmp_path / "kept")) == {
        "stdout": "0123456789",
        "truncated": False,
        "original_chars": 10,
        "preview_chars": 10,
    }
    assert not (tmp_path / "kept").exists()


def test_a_long_text_is_cut_and_kept_whole_in_a_private_file(tmp_path: Path) -> None:
    kept = tmp_path / "made" / "here"
    output = trim("0123456789a", small(kept), tool_use_id="toolu_1")
    path = Path(output["persisted"]["path"])
    assert (output["stdout"], output["truncated"]) == ("0123", True)
    assert (output["original_chars"], output["preview_chars"]) == (11, 4)
    assert output["persisted"]["mime_type"] == "text/plain"
    assert path.parent == kept
    assert path.name.startswith("toolu_1.stdout-")
    assert path.suffix == ".txt"
    assert path.read_text() == "0123456789a"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700


def test_a_preview_is_never_longer_than_the_limit(tmp_path: Path) -> None:
    assert trim("0123456789a", small(tmp_path, max_chars=3))["stdout"] == "012"


def test_a_text_between_the_threshold_and_the_limit_is_kept_and_not_cut(tmp_path: Path) -> None:
    output = trim("0123456", small(tmp_path, persist_threshold_chars=5))
    assert (output["stdout"], output["truncated"]) == ("0123456", False)
    assert Path(output["persisted"]["path"]).read_text() == "0123456"


def test_other_values_are_measured_and_kept_as_sorted_json(tmp_path: Path) -> None:
    output = trim({"b": ["读", 2], "a": 1}, small(tmp_path))
    path = Path(output["persisted"]["path"])
    assert path.suffix == ".json"
    assert output["persisted"]["mime_type"] == "application/json"
    assert path.read_text(encoding="utf-8") == '{\n  "a": 1,\n  "b": [\n    "读",\n    2\n  ]\n}'
    assert output["stdout"] == "{\n  "


def test_two_results_of_one_call_never_share_a_file(tmp_path: Path) -> None:
    first = trim("first result!", small(tmp_path), id="same")
    second = trim("second result!", small(tmp_path), id="same")
    assert Path(first["persisted"]["path"]).read_text() == "first result!"
    assert Path(second["persisted"]["path"]).read_text() == "second result!"


@pytest.mark.parametrize(
    "identifier",
    ["x" * 400, "../../etc/passwd", "/etc/passwd", "..", "a\0b", "a/b\\c", "读" * 300, "\ud800", 7, "-rf"],
    ids=repr,
)
def test_any_id_gives_a_file_inside_the_directory(tmp_path: Path, identifier: Any) -> None:
    output = trim("0123456789a", small(tmp_path), tool_call_id=identifier)
    assert Path(output["persisted"]["path"]).parent == tmp_path
    assert Path(output["persisted"]["path"]).is_file()


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def endless() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    ["ok \ud800 and more text", {1, 2, 3, 4, 5}, {1: 2, "a": 3, (4,): 5}, object(), b"bytes\xff" * 5,
     Rude(), endless(), deep(), float("nan"), {"\ud800": "\ud800" * 20}, {Rude(), Rude()}],
    ids=["surrogate", "set", "mixed keys", "object", "bytes", "rude", "cycle", "deep", "nan", "surrogates",
         "rude set"],
)  # fmt: skip
def test_a_value_that_json_has_no_words_for_does_not_fail_the_call(tmp_path: Path, value: Any) -> None:
    output = trim(value, small(tmp_path, max_chars=2))
    assert Path(output["persisted"]["path"]).stat().st_size > 0


def test_a_result_that_cannot_be_kept_says_so_and_keeps_its_preview(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    output = trim("0123456789a", small(in_the_way / "below"))
    assert output["stdout"] == "0123"
    assert "persisted" not in output
    assert str(in_the_way / "below") in output["persist_error"]


def test_a_file_that_could_not_be_written_to_its_end_is_not_left_behind(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        output = trim("0123456789a", small(tmp_path / "kept"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "persist_error" in output
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "..", "."])
def test_a_name_that_leaves_the_directory_is_a_value_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="inside"):
        result_path(tmp_path, name)


def test_fields_of_a_result_are_trimmed_one_by_one(tmp_path: Path) -> None:
    payload = {"ok": True, "stdout": "0123456789a", "stderr": "short", "other": "0123456789a", "none": None}
    result = budget_text_fields(
        payload,
        tool_name="run_command",
        fields=["stdout", "stderr", "absent", "none"],
        budget=small(tmp_path),
    )
    persisted = result.pop("persisted_outputs")
    assert result == {
        "ok": True, "other": "0123456789a", "none": None,
        "stdout": "0123", "stdout_truncated": True, "stdout_original_chars": 11, "stdout_preview_chars": 4,
        "stderr": "short", "stderr_truncated": False, "stderr_original_chars": 5, "stderr_preview_chars": 5,
    }  # fmt: skip
    assert list(persisted) == ["stdout"]
    assert Path(persisted["stdout"]["path"]).read_text() == "0123456789a"
    assert payload["stdout"] == "0123456789a"


def test_fields_that_cannot_be_kept_are_listed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = budget_text_fields(
        {"stdout": "0123456789a"}, tool_name="t", fields=["stdout"], budget=small(tmp_path / "file")
    )
    assert list(result["persist_errors"]) == ["stdout"]
    assert "persisted_outputs" not in result


def test_the_environment_beats_the_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usual = default_tool_result_budget()
    assert (usual.max_chars, usual.preview_chars, usual.persist_threshold_chars) == (50_000, 8_000, 50_000)
    assert default_tool_result_budget(max_chars=7, preview_chars=-1).max_chars == 7
    assert default_tool_result_budget(preview_chars=-1).preview_chars == 0
    monkeypatch.setenv("KSADK_TOOL_RESULT_MAX_CHARS", "5")
    monkeypatch.setenv("KSADK_TOOL_RESULT_PREVIEW_CHARS", "-3")
    monkeypatch.setenv("KSADK_TOOL_RESULT_DIR", str(tmp_path / "results"))
    budget = default_tool_result_budget(max_chars=7, preview_chars=9)
    assert (budget.max_chars, budget.preview_chars) == (5, 0)
    assert budget.resolved_persist_dir == tmp_path / "results"


def test_a_number_that_is_none_is_an_error_that_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSADK_TOOL_RESULT_MAX_CHARS", "many")
    with pytest.raises(SettingsError, match="KSADK_TOOL_RESULT_MAX_CHARS"):
        default_tool_result_budget()


@pytest.mark.parametrize("variable", ["KSADK_TOOL_RESULT_DIR", "AGENTENGINE_UI_DIR", "KSADK_PROJECT_DIR"])
def test_a_variable_that_names_no_directory_loses_no_result(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "~no-such-user/results")
    output = trim("0123456789a", ToolResultBudget(10, 4, 10))
    assert output["stdout"] == "0123"
    assert f"{variable} is '~no-such-user/results'" in output["persist_error"]


def test_results_are_kept_in_the_session_directory_by_default(tmp_path: Path) -> None:
    expected = tmp_path / "work" / ".agentengine" / "ui" / "tool-results"
    assert ToolResultBudget().resolved_persist_dir == expected


@given(st.text(alphabet=st.characters(codec=None), max_size=60), st.integers(0, 40), st.integers(0, 40))
def test_a_trimmed_text_is_the_beginning_of_the_text(text: str, limit: int, preview: int) -> None:
    budget = ToolResultBudget(limit, preview, persist_threshold_chars=10**6, persist_dir=Path("/dev/null/no"))
    output = trim(text, budget)
    assert text.startswith(output["stdout"])
    assert output["truncated"] == (len(text) > limit)
    assert len(output["stdout"]) == output["preview_chars"] <= max(limit, 0)
    json.dumps(output)
