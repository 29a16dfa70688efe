"""`agentengine skills`: the group. Each of its commands has a module of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from agentengine_cli.base import Entry, LazyGroup, new_group


class SkillsGroup(LazyGroup):
    """The commands, in the order of the help."""

    entries: ClassVar[Mapping[str, Entry]] = {
        "serve": Entry("agentengine_cli.skills_serve", "Serve a directory of skills to others."),
    }


app = new_group("Find skills, read them, run them, and make packages of them.", SkillsGroup)


@app.callback()
def skills() -> None:
    """Find skills, read them, run them, and make packages of them."""
