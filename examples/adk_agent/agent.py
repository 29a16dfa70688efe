"""An agent of Google ADK that thinks, calls tools, and pauses for approval, also over a restart.

`save TEXT` notes a line in a file, then writes another by a tool of the gateway, which a person must approve.
The model is a scripted one. ADK finds the sessions of the module under the name `session_service`.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.sessions import DatabaseSessionService
from google.genai import types

from ksadk.toolsets.workspace import write_workspace_file

STATE = Path(__file__).parent / ".agentengine"
STATE.mkdir(exist_ok=True)


def note_step() -> dict[str, str]:
    """Append a line to a file."""
    with (STATE / "steps.log").open("a", encoding="utf-8") as file:
        file.write("noted\n")
    return {"status": "noted"}


def save(text: str) -> dict[str, Any]:
    """Write a note."""
    return write_workspace_file("note.txt", text)


class Scripted(BaseLlm):
    """Thinks, and then calls both tools or answers."""

    model: str = "scripted"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncIterator[LlmResponse]:
        """One answer, in pieces where it is text."""
        last = llm_request.contents[-1].parts or []
        text = last[-1].text or ""
        if results := [part.function_response for part in last if part.function_response]:
            name, result = results[-1].name, results[-1].response or {}
            if name == "note_step":
                said = next(
                    part.text for content in reversed(llm_request.contents) for part in content.parts or []
                    if part.text and part.text.startswith("save ")
                )  # fmt: skip
                yield self._calls("save", text=said.removeprefix("save "))
            else:
                yield self._says("Saved." if result["ok"] else f"Not saved: {result['error_message']}.")
        elif text.startswith("save "):
            yield self._calls("note_step")
        else:
            yield self._says("Let me see. ", thought=True, partial=True)
            for piece in ("You said: ", text):
                yield self._says(piece, partial=True)
            thought = types.Part(text="Let me see. ", thought=True)
            parts = [thought, types.Part(text=f"You said: {text}")]
            yield LlmResponse(content=types.Content(role="model", parts=parts))

    def _says(self, text: str, thought: bool | None = None, partial: bool | None = None) -> LlmResponse:
        part = types.Part(text=text, thought=thought)
        return LlmResponse(content=types.Content(role="model", parts=[part]), partial=partial)

    def _calls(self, name: str, **arguments: Any) -> LlmResponse:
        part = types.Part(function_call=types.FunctionCall(name=name, args=arguments))
        return LlmResponse(content=types.Content(role="model", parts=[part]))


session_service = DatabaseSessionService(f"sqlite+aiosqlite:///{STATE / 'sessions.db'}")
root_agent = LlmAgent(name="adk_agent", model=Scripted(), tools=[note_step, save])
