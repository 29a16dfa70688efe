"""A server that speaks the wire of chat completions; what its model says is written down beforehand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

KEY = "sk-test-0123456789abcdef"
MODEL = "scripted"


def says(text: str) -> dict[str, Any]:
    """A turn that ends the conversation."""
    return {"role": "assistant", "content": text}


def calls(*tools: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A turn that calls tools."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)},
            }
            for number, (name, given) in enumerate(tools)
        ],
    }


class ChatServer:
    """The service. `turns` are what the model says, one a request; the last is said for ever.

    `requests` are the bodies that came; `refusal`, a status and a body, is the answer to each request; each
    answer is given after `delay` seconds.
    """

    def __init__(
        self, turns: Sequence[dict[str, Any]], refusal: tuple[int, Any] | None = None, delay: float = 0
    ) -> None:
        self.turns = list(turns)
        self.refusal = refusal
        self.delay = delay
        self.requests: list[dict[str, Any]] = []
        handler = type("Bound", (_Handler,), {"chat": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def environ(self) -> dict[str, str]:
        """What a client is configured with."""
        url = f"http://127.0.0.1:{self._http.server_port}/v1"
        return {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY, "OPENAI_MODEL_NAME": MODEL}

    def results(self, request: int = -1) -> list[Any]:
        """What the tools returned, as a request tells the model."""
        return [json.loads(m["content"]) for m in self.requests[request]["messages"] if m["role"] == "tool"]

    def offered(self) -> list[str]:
        """The names of the tools that the model was offered."""
        return [tool["function"]["name"] for tool in self.requests[0].get("tools", [])]


class _Handler(BaseHTTPRequestHandler):
    chat: ChatServer

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert self.path == "/v1/chat/completions"
        chat = self.chat
        chat.requests.append(request)
        time.sleep(chat.delay)
        if self.headers["authorization"] != f"Bearer {KEY}":
            return self._answer(401, {"error": {"message": f"bad key {self.headers['authorization']}"}})
        if chat.refusal is not None:
            return self._answer(*chat.refusal)
        message = chat.turns.pop(0) if len(chat.turns) > 1 else chat.turns[0]
        reason = "tool_calls" if "tool_calls" in message else "stop"
        return self._answer(200, {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        })  # fmt: skip

    def _answer(self, status: int, document: Any) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            pass  # the client has given up
