"""The smallest agent that does everything that streams: it thinks, answers word by word, and can be slow.

A message that begins with "slow" gets a word a second, so that there is time to cancel it.
"""

import asyncio
from collections.abc import AsyncIterator

from ksadk.a2a import Text, Thinking


async def root_agent(text: str) -> AsyncIterator[Text | Thinking]:
    """Say the text again, word by word."""
    words = text.split()
    yield Thinking(f"That is {len(words)} word{'s' if len(words) != 1 else ''}. ")
    yield Thinking("I shall say it again.")
    pause = 1.0 if words[:1] == ["slow"] else 0.0
    for number, word in enumerate(words):
        await asyncio.sleep(pause)
        yield Text(word if number == 0 else f" {word}")
