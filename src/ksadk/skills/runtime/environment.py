"""The further variables that skills are given: by name, and never a key or a token of ours."""

from __future__ import annotations

from collections.abc import Mapping

from ksadk.settings import Settings
from ksadk.skills.errors import SkillRuntimeError


def skill_environment(settings: Settings, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that `KSADK_SKILL_ENV_ALLOWLIST` names, as far as they are set, and `more`.

    Raises `environment_refused` for one that this program has a secret in, by its name or by its value.
    """
    given = settings.given()
    listed = settings.skill_env_allowlist
    found = {name: given[name] for name in listed if name in given} | dict(more or {})
    for variable in Settings.variables():
        if not variable.secret:
            continue
        secrets = {given[name].strip() for name in variable.names if given.get(name, "").strip()}
        for name in (*listed, *found):
            if name in variable.names or any(secret in found.get(name, "") for secret in secrets):
                raise SkillRuntimeError(
                    f"{name} is or holds {variable.names[0]}, so it is not given to a skill",
                    code="environment_refused",
                    hint="Leave it out: no key or token of this program goes to a skill.",
                    variable=name,
                )
    return found
