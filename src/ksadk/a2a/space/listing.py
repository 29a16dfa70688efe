"""All pages of a Space's agents, as one listing that was never two."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ksadk.a2a.space import answers
from ksadk.a2a.space.errors import A2AControlPlaneError
from ksadk.a2a.space.models import AgentListing, SpaceAgent

PAGE_SIZE = 50
"""What a page holds where no size is asked for."""
MAX_PAGES = 400
_READINGS = 3

Page = Callable[[str, str], Awaitable[AgentListing]]
"""Asks for the page at a cursor (empty: the first), unless it is as it was under an ETag (empty: always)."""


async def read_all(page: Page, action: str, if_none_match: str = "") -> AgentListing:
    """The whole listing. It is read anew where its ETag changes while it is read, since agents could then be
    missing or doubled."""
    for _ in range(_READINGS):
        listing = await _reading(page, action, if_none_match)
        if listing is not None:
            return listing
    raise answers.unavailable(action, f"the Space's agents changed {_READINGS} times while they were read")


async def _reading(page: Page, action: str, if_none_match: str) -> AgentListing | None:
    first = await page("", if_none_match)
    if first.not_modified:
        if not if_none_match:
            raise _not_asked(action)
        return first
    agents: dict[str, SpaceAgent] = {}
    cursors = {""}
    at = first
    while True:
        for agent in at.agents:
            agents.setdefault(agent.agent_id, agent)
        if not at.next_cursor:
            return AgentListing(first.space_id, tuple(agents.values()), first.etag)
        if at.next_cursor in cursors or len(cursors) >= MAX_PAGES:
            raise answers.invalid(action, "pages that do not end")
        cursors.add(at.next_cursor)
        at = await page(at.next_cursor, "")
        if at.not_modified:
            raise _not_asked(action)
        if at.etag != first.etag:
            return None


def _not_asked(action: str) -> A2AControlPlaneError:
    return answers.invalid(action, "that nothing has changed, which was not asked")
