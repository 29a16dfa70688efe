"""The further variables that skills are given: by name, and never a key or a token of ours."""

from __future__ import annotations

from ksadk.settings import Settings
from ksadk.skills.errors import SkillRuntimeError


def skill_environment(settings: Settings) -> dict[str, str]:
    """The variables that `KSADK_SKILL_ENV_ALLOWLIST` names, as far as they are set.

    Raises `environment_refused` for one that this program has a secret in, by its name or by its value.
    """
    given = settings.given()
    found = {name: given[name] for name in settings.skill_env_allowlist if name in given}
    for variable in Settings.variables():
        if not variable.secret:
            continue
        secrets = {given[name].strip() for name in variable.names if given.get(name, "").strip()}
        for name in settings.skill_env_allowlist:
            if name in variable.names or any(secret in found.get(name, "") for secret in secrets):
                raise SkillRuntimeError(
                    f"KSADK_SKILL_ENV_ALLOWLIST names {name}, which is or holds {variable.names[0]}",
                    code="environment_refused",
                    hint="No key or token of this program is given to a skill.",
                )
    return found
