"""Which Space is meant, and whether the environment knows it."""

from __future__ import annotations

from ksadk.a2a.space.errors import A2ASpaceError, SpaceNotConfigured
from ksadk.a2a.space.ids import checked_id
from ksadk.settings import Settings

_HINT = (
    "The platform sets KSADK_A2A_SPACE_IDS and KSADK_A2A_CONTROL_PLANE_URL in what it deploys; "
    "`agentengine a2a center demo` prints both for a center on this machine."
)


def configured_space(settings: Settings, space_id: str = "") -> str:
    """The Space that is named, else the only one there is.

    `space_not_configured` where it, or the control plane, is not configured; `space_id_required` where one of
    several must be named.
    """
    known = tuple(dict.fromkeys(settings.a2a_space_ids))
    missing = ""
    if not settings.a2a_control_plane_url and not public_service_configured(settings):
        missing = "no control plane is set"
    elif not known:
        missing = "KSADK_A2A_SPACE_IDS is not set"
    elif space_id and space_id not in known:
        missing = f"KSADK_A2A_SPACE_IDS does not name it, but {', '.join(known)}"
    if missing:
        named = f"the Space {checked_id(space_id, 'a Space')} is not" if space_id else "no Space is"
        raise SpaceNotConfigured(f"{named} configured: {missing}", hint=_HINT)
    if not space_id and len(known) > 1:
        raise A2ASpaceError(
            f"several Spaces are configured, and none is named: {', '.join(known)}",
            code="space_id_required",
            hint=f"Name one: --space-id {known[0]}.",
        )
    return space_id or checked_id(known[0], "a Space")


def public_service_configured(settings: Settings) -> bool:
    """Whether the public Space service is named, which serves where no control plane does."""
    return bool(settings.a2a_service_url or settings.a2a_service_endpoint)
