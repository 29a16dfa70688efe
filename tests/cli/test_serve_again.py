"""What is said of a project's Python that this program is not installed for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentengine_cli.serve_again import installed_from


@pytest.mark.parametrize(
    ("url", "given"),
    [
        ("file://{here}/a%20checkout", "{here}/a checkout"),
        ("file://{here}/gone", "agentengine-cli"),
        ("https://example.com/agentengine_cli-9-py3-none-any.whl", "agentengine-cli"),
        ("", "agentengine-cli"),
    ],
    ids=["a directory", "a directory that is gone", "an address", "an index"],
)
def test_pip_is_given_what_the_program_was_installed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, given: str
) -> None:
    (tmp_path / "a checkout").mkdir()
    about = tmp_path / "agentengine_cli-9.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: agentengine-cli\nVersion: 9\n")
    if url:
        (about / "direct_url.json").write_text(json.dumps({"url": url.format(here=tmp_path)}))
    monkeypatch.syspath_prepend(tmp_path)
    assert installed_from() == given.format(here=tmp_path)
