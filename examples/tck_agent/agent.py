"""The agent that the public conformance kit drives: the prefix of a message's id says what it must do.

Serve it with `agentengine a2a serve examples/tck_agent`, and measure it with `make tck KIT=DIR`.
"""

from collections.abc import AsyncGenerator
from typing import Any

from ksadk.a2a import (
    Artifact,
    Call,
    Completed,
    DataPart,
    Event,
    InputRequired,
    RawPart,
    Reply,
    Status,
    TextPart,
    UrlPart,
    agent,
)

TEXT = Artifact((TextPart("Generated text content"),), name="text")
FILE = Artifact((RawPart(b"Generated file content", "output.txt", "text/plain"),), name="file")
FILE_URL = Artifact((UrlPart("https://example.com/output.txt", "output.txt", "text/plain"),), name="file-url")
DATA = Artifact((DataPart({"key": "value", "count": 42}),), name="data")

ANSWERS: dict[str, tuple[Event, ...]] = {
    "tck-complete-task": (Completed("Hello from TCK"),),
    "tck-artifact-text": (TEXT,),
    "tck-artifact-file": (FILE,),
    "tck-artifact-file-url": (FILE_URL,),
    "tck-artifact-data": (DATA,),
    "tck-message-response": (Reply((TextPart("Direct message response"),)),),
    "tck-stream-001": (Status("Working"), TEXT),
    "tck-stream-002": (Completed(),),
    "tck-stream-003": (Status("Working"), TEXT),
    "tck-stream-ordering-001": (Status("Working"), TEXT),
}
"""What to say, by the prefix of the message's id; the longest that fits counts."""


@agent(messages=True)
async def root_agent(call: Call) -> AsyncGenerator[Event, Any]:
    """Do what the message's id asks for; any other is answered with its own text."""
    if call.message_id.startswith("tck-input-required"):
        answer = yield InputRequired((TextPart("Please say more"),))
        yield Completed(f"You said: {answer}")
        return
    fitting = [prefix for prefix in ANSWERS if call.message_id.startswith(prefix)]
    for event in ANSWERS[max(fitting, key=len)] if fitting else (Completed(f"You said: {call.text}"),):
        yield event
