"""A plain function that keeps notes: it asks what to call a note, and writes it once a person has approved.

Say `save buy tea`. The note's file is written by a tool of the gateway, so the task waits: look at
`agentengine approvals list`, and approve there. The step before it is finished, and is not run again.
"""

from collections.abc import Iterator
from pathlib import Path

from ksadk.a2a import Text, Thinking, ask
from ksadk.toolsets.workspace import write_workspace_file

STEPS = Path(__file__).parent / ".agentengine" / "steps.log"


def root_agent(text: str) -> Iterator[Text | Thinking]:
    """Keep a note, or say what can be done."""
    if not text.startswith("save "):
        yield Text("Say: save TEXT")
        return
    yield Thinking("A note needs a name.")
    name = ask("What is the note called?")
    STEPS.parent.mkdir(exist_ok=True)
    with STEPS.open("a", encoding="utf-8") as file:
        file.write(f"named {name}\n")
    result = write_workspace_file(f"{name}.txt", text.removeprefix("save "))
    yield Text(f"Saved as {name}." if result["ok"] else f"Not saved: {result['error_message']}.")
