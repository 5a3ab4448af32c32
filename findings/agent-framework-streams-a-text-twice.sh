#!/usr/bin/env bash
# Agent Framework's stream of a reply over /responses gives its text in pieces, and then once more whole.
#
# Stated: the example in the docstring of `Agent` prints `update.text` of each update of `run(..., stream=True)`, with `end=""`. Expected:
# joined, the pieces are the text of the final response, as with its client of chat completions.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet agent-framework-openai==1.17.0 agent-framework-core==1.23.0 openai==3.57.0
cat >stream.py <<'PYTHON'
import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient

PIECES = ("It is ", "sunny.")
TEXT = "".join(PIECES)
PART = {"type": "output_text", "text": TEXT, "annotations": []}
ITEM = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [PART]}
PLACE = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
USAGE = {"input_tokens": 3, "output_tokens": 3, "total_tokens": 6}
USAGE |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
RESPONSE = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "error": None, "incomplete_details": None}
RESPONSE |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "metadata": {}, "usage": None, "output": []}


def response_events():
    """Yield the events that OpenAI documents for one message."""
    yield {"type": "response.created", "response": {**RESPONSE, "status": "in_progress"}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "status": "in_progress", "content": []}}
    yield {"type": "response.content_part.added", **PLACE, "part": {**PART, "text": ""}}
    for piece in PIECES:
        yield {"type": "response.output_text.delta", **PLACE, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **PLACE, "text": TEXT, "logprobs": []}
    yield {"type": "response.content_part.done", **PLACE, "part": PART}
    yield {"type": "response.output_item.done", "output_index": 0, "item": ITEM}
    yield {"type": "response.completed", "response": {**RESPONSE, "status": "completed", "output": [ITEM], "usage": USAGE}}


def chat_chunks():
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    for delta, finish in (*(({"content": piece}, None) for piece in PIECES), ({}, "stop")):
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        if self.path.endswith("/responses"):
            lines = [f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': n})}\n\n" for n, event in enumerate(response_events())]
        else:
            lines = [*(f"data: {json.dumps(chunk)}\n\n" for chunk in chat_chunks()), "data: [DONE]\n\n"]
        body = "".join(lines).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


async def read(client):
    stream = client.as_agent().run("What is the weather?", stream=True)
    pieces = [update.text async for update in stream if update.text]
    return pieces, (await stream.get_final_response()).text


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/v1"
print("agent-framework-openai", version("agent-framework-openai"), "agent-framework-core", version("agent-framework-core"))
seen = {}
for kind in (OpenAIChatCompletionClient, OpenAIChatClient):
    pieces, final = seen[kind] = asyncio.run(read(kind(model="m", base_url=address, api_key="k")))
    print(f"{kind.__name__}: pieces {pieces}, final response {final!r}")
assert seen[OpenAIChatCompletionClient] == (list(PIECES), TEXT), seen
assert seen[OpenAIChatClient] == ([*PIECES, TEXT], TEXT), seen
PYTHON
venv/bin/python stream.py 2>stream.log || { tail -5 stream.log; exit 1; }
echo "seen: over /responses the pieces, joined, have the text twice; the final response has it once"
