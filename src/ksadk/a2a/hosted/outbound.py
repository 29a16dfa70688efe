"""The side of a hosted runtime that calls: clients of Spaces that share one dispatcher of events."""

from __future__ import annotations

import httpx

from ksadk.a2a.hosted.errors import needed
from ksadk.a2a.space.backend import SpaceBackend
from ksadk.a2a.space.client import A2ASpaceClient
from ksadk.a2a.space.dispatcher import A2AEventDispatcher
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox
from ksadk.a2a.space.pinned_transport import ExternalTransport


class Outbound:
    """Gives clients, one for each Space. What it is given stays open."""

    def __init__(
        self,
        *,
        control_plane: SpaceBackend | None,
        http: httpx.AsyncClient | None,
        outbox: SQLiteA2AEventOutbox | None,
        transport: ExternalTransport | None,
        public_egress: bool,
        retry_seconds: float,
    ) -> None:
        what = "outbound"
        self._control_plane = needed(control_plane, "control_plane", what)
        self._http = needed(http, "hosted_http_client", what)
        self._outbox = needed(outbox, "event_outbox", what)
        self._transport = transport
        self._public_egress = public_egress
        self.dispatcher = A2AEventDispatcher(
            self._outbox, self._control_plane, retry_interval_seconds=retry_seconds
        )
        self._clients: dict[str, A2ASpaceClient] = {}

    def client(self, space_id: str) -> A2ASpaceClient:
        """The client of a Space."""
        if space_id not in self._clients:
            self._clients[space_id] = A2ASpaceClient(
                space_id,
                self._control_plane,
                egress_enabled=self._public_egress,
                httpx_client=self._http,
                external_transport=self._transport,
                event_outbox=self._outbox,
                event_dispatcher=self.dispatcher,
            )
        return self._clients[space_id]

    async def start(self) -> None:
        """Begin to deliver events, also those that an earlier process left."""
        await self.dispatcher.start()

    async def stop(self, flush_timeout_seconds: float) -> bool:
        """Deliver what waits for so many seconds, and end; whether nothing is left."""
        return await self.dispatcher.stop(flush_timeout_seconds)
