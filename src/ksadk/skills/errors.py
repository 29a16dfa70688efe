"""What goes wrong with skills; each has a stable code."""

from __future__ import annotations

from ksadk.errors import KsadkError


class SkillError(KsadkError, ValueError):
    """A skill, or what is said of one, cannot be used."""

    code = "invalid_skill"


class SkillPackageError(SkillError):
    """A package is not what it must be, so nothing of it was written."""

    code = "invalid_skill_package"


class SkillServiceError(SkillError):
    """The Skill Service cannot be asked, or its answer cannot be used."""

    code = "skill_service_unavailable"


class SkillRuntimeError(SkillError, RuntimeError):
    """There is no runtime for skills, or it failed. That a skill's script failed is a result, not this."""

    code = "skill_runtime_disabled"
