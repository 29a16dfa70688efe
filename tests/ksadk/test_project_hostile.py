"""What a stranger's project can hold to make detection fail or hang; each is told, or simply read."""

from pathlib import Path

import pytest

from ksadk.a2a.project import detect_project
from ksadk.project_files import ProjectFileError


def project(tmp_path: Path, name: str, text: str) -> Path:
    directory = tmp_path / "bot"
    directory.mkdir()
    (directory / "agent.py").write_text("def agent(m): ...", encoding="utf-8")
    (directory / name).write_text(text, encoding="utf-8")
    return directory


def refusal(directory: Path) -> str:
    with pytest.raises(ProjectFileError) as caught:
        detect_project(directory)
    return caught.value.message


def test_a_long_chain_of_elif_is_read_to_its_end(tmp_path: Path) -> None:
    chain = "".join(f"elif mode == {number}: pass\n" for number in range(1500))
    source = f"if mode == 'a': agent = 1\n{chain}else: root_agent = 1\n"
    assert detect_project(project(tmp_path, "agent.py", source)).variable == "root_agent"


def test_of_a_name_bound_again_in_a_branch_the_last_one_counts(tmp_path: Path) -> None:
    source = (
        "try:\n  import fast\n  root_agent = Agent(name='a')\nfinally:\n  root_agent = Agent(name='b')\n"
        "if fast:\n  root_agent = Agent(name='c')\nelse:\n  root_agent = Agent(name='d')\n"
    )
    assert detect_project(project(tmp_path, "agent.py", source)).name == "d"


@pytest.mark.parametrize("expression", ["-" * 200_000 + "1", "a" + ".a" * 200_000, "a" + "()" * 200_000])
def test_an_expression_nested_too_deeply_is_told_in_words(tmp_path: Path, expression: str) -> None:
    directory = project(tmp_path, "agent.py", f"agent={expression}")
    assert refusal(directory) == f"{directory / 'agent.py'}: not Python: nested too deeply"
