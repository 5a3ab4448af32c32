#!/usr/bin/env bash
# DSPy's cache on disk answers a question for one server with the reply of another one.
#
# Stated: `dspy.LM(model, api_base=...)` is a model at an address, and its cache keeps replies to equal requests. Expected: two models
# of one name at two addresses, such as a checkpoint before and after a training, are two models. The second one is not asked.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet dspy==3.4.1
export DSPY_CACHEDIR="$folder/cache"
cat >ask.py <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

import dspy


def serve(text):
    class Handler(BaseHTTPRequestHandler):
        requests = 0

        def do_POST(self):
            type(self).requests += 1
            self.rfile.read(int(self.headers["content-length"]))
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            body = json.dumps({"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage})
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return Handler, f"http://127.0.0.1:{server.server_port}/v1"


print("dspy", version("dspy"))
replies = []
for name in ("before", "after"):
    handler, address = serve(f"I am the model {name} the training")
    model = dspy.LM("openai/m", api_base=address, api_key=f"key-{name}")
    replies.append((model("Who are you?")[0], handler.requests))
    print(f"asked the server {name}: {replies[-1][0]!r}, requests it received: {replies[-1][1]}")
assert replies == [("I am the model before the training", 1), ("I am the model before the training", 0)], replies
PYTHON
venv/bin/python ask.py
echo "seen: the second server received no request, and its model has the reply of the first"
