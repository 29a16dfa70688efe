"""A client that calls an agent of a Space again and again, and goes on where one before it was killed.

`python space_load.py LOG COUNT START` sends COUNT messages, some at a time, each under a token of its own,
and again where nobody was there to take it. A line of LOG says of one what came of it:
`NUMBER done TASK STATUS EVENTS`, or `NUMBER failed CODE`. At the end it waits until the center has been told
of everything. START counts the processes: to each the turns that the one before it held are long over.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from ksadk.a2a import A2ASpaceClient
from ksadk.a2a.space.control_plane import A2AControlPlaneClient
from ksadk.a2a.space.outbox import SQLiteA2AEventOutbox
from ksadk.errors import KsadkError
from ksadk.settings import Settings

OUTBOX = Path("outbox.sqlite3")
AT_ONCE = 4
AWAY = ("A2A_CONTROL_PLANE_UNAVAILABLE", "A2ACLI_ERR_UNREACHABLE")


async def main(log: Path, count: int, start: int) -> None:
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    over = {int(line.split()[0]) for line in log.read_text().splitlines()}
    waiting = [number for number in range(count) if number not in over]
    settings = Settings.from_env()
    backend = A2AControlPlaneClient.from_settings(settings)
    outbox = SQLiteA2AEventOutbox(OUTBOX, clock=lambda: time.time() + start * 60)
    async with A2ASpaceClient(settings.a2a_space_ids[0], backend, event_outbox=outbox) as client:

        async def send() -> None:
            while waiting:
                number = waiting.pop(0)
                try:
                    (agent,) = await client.discover()
                    text = f"message {number} of many words"
                    task = await client.send_message(
                        agent.agent_id, text, idempotency_token=f"token-{number}"
                    )
                    said = f"done {task.task_id} {task.status} {len(task.events)}"
                except KsadkError as error:
                    if error.error_type in AWAY or error.details.get("a2a_code") == 502:
                        waiting.append(number)
                        await asyncio.sleep(0.05)
                        continue
                    said = f"failed {error.error_type}"
                os.write(written, f"{number} {said}\n".encode())

        await asyncio.gather(*(send() for _ in range(AT_ONCE)))
        while not await client.flush_pending_events():
            pass


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
