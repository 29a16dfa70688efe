"""`agentengine skills`: the group. Each of its commands has a module of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from agentengine_cli.base import Entry, LazyGroup, new_group


class SkillsGroup(LazyGroup):
    """The commands, in the order of the help."""

    entries: ClassVar[Mapping[str, Entry]] = {
        "list": Entry("agentengine_cli.skills_read:list_app", "List the skills that can be used here."),
        "search": Entry("agentengine_cli.skills_read:search_app", "Find skills by what they do."),
        "load": Entry("agentengine_cli.skills_read:load_app", "Print a skill's instructions."),
        "execute": Entry(
            "agentengine_cli.skills_execute", "Run a workflow with skills, once it is approved."
        ),
        "lint": Entry("agentengine_cli.skills_lint", "Check skills, and repair what can be."),
        "compat": Entry("agentengine_cli.skills_compat", "Show what other hosts make of a skill."),
        "pack": Entry("agentengine_cli.skills_pack", "Pack a skill into an archive that can be verified."),
        "lock": Entry("agentengine_cli.skills_lock", "Write down which version of each skill is loaded."),
        "serve": Entry("agentengine_cli.skills_serve", "Serve a directory of skills to others."),
    }


app = new_group("Find skills, read them, run them, and make packages of them.", SkillsGroup)


@app.callback()
def skills() -> None:
    """Find skills, read them, run them, and make packages of them."""
