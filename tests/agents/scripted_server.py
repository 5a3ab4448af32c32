"""A plain server of chat completions whose replies are a script: the n-th request to a path gets the n-th reply.

Its replies share no code with the package, so that what a client does with it is what it does with any server.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pytest_crucible.features.agents.server import FINAL

LOST = "lost"
"""The name in an address whose requests get the answer of the endpoint to a lost reply."""
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def call(name: str, **arguments: str) -> dict[str, Any]:
    """Return a message that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {**text(None), "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}


def text(content: str | None) -> dict[str, Any]:
    """Return a message with a text alone. A refusal that is null is part of OpenAI's answers, and clients send it back."""
    return {"role": "assistant", "content": content, "refusal": None}


class ScriptedServer(ThreadingHTTPServer):
    """Answers `/NAME/USE/v1/chat/completions` from the script NAME, or the usual one; USE tells apart who sends."""

    daemon_threads = True

    def __init__(self, scripts: Mapping[str, Sequence[dict[str, Any]]], usual: Sequence[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scripts, self.usual = scripts, usual
        self.bodies: dict[str, list[dict[str, Any]]] = defaultdict(list)

    @contextlib.contextmanager
    def serve(self) -> Iterator[ScriptedServer]:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            self.shutdown()
            self.server_close()

    def url(self, name: str, use: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}/{use}/v1"

    def messages(self, name: str, use: str) -> list[Any]:
        """Return the messages of each request."""
        return [body["messages"] for body in self.bodies[f"{name}/{use}"]]


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        _, name, use, _ = self.path.split("/", 3)
        bodies = self.server.bodies[f"{name}/{use}"]
        if name == LOST:
            bodies.append(body)
            self._send(FINAL, "application/json", json.dumps({"type": "error", "error": {"message": "no reply"}}))
            return
        script = self.server.scripts.get(name, self.server.usual)
        if len(bodies) >= len(script):
            self._send(400, "application/json", json.dumps({"error": {"message": "the script has ended"}}))
            return
        message = script[len(bodies)]
        bodies.append(body)
        answer_id = f"plain-{use}-{len(bodies)}"
        if body.get("stream"):
            self._send(200, "text/event-stream", "".join(_stream(message, answer_id)))
        else:
            choice = {"index": 0, "message": message, "finish_reason": _finish(message)}
            answer = {"id": answer_id, "object": "chat.completion", "created": 1, "model": body["model"]}
            self._send(200, "application/json", json.dumps({**answer, "choices": [choice], "usage": USAGE}))

    def _send(self, status: int, kind: str, content: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content.encode())))
        if status == FINAL:
            self.send_header("x-should-retry", "false")
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _finish(message: Mapping[str, Any]) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"


def _stream(message: Mapping[str, Any], answer_id: str) -> Iterator[str]:
    head = {"id": answer_id, "object": "chat.completion.chunk", "created": 1, "model": "m"}
    calls = [{"index": number, **item} for number, item in enumerate(message.get("tool_calls") or ())]
    words = (message["content"] or "").split(" ")
    pieces = [word if number == 0 else f" {word}" for number, word in enumerate(words)]
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": ""},
        *({"content": piece} for piece in pieces if piece),
    ]
    deltas += [{"tool_calls": calls}] if calls else []
    for delta in deltas:
        yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(message)}]})
    yield _event({**head, "choices": [], "usage": USAGE})
    yield "data: [DONE]\n\n"


def _event(content: object) -> str:
    return f"data: {json.dumps(content)}\n\n"
