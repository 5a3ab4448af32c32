#!/usr/bin/env bash
# mini-swe-agent sends a request again after status 403, and not after 401: litellm makes an error of its own of the first.
#
# Stated: the OpenAI client that litellm calls takes 401 and 403 alike as final, and the header `x-should-retry: false` says so too.
# mini-swe-agent retries ten times, but for errors that it lists, `PermissionDeniedError` among them. Expected: one request each.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet mini-swe-agent==2.4.6 litellm==1.110.2
export MSWEA_COST_TRACKING=ignore_errors MSWEA_CONFIGURED=true LITELLM_LOCAL_MODEL_COST_MAP=True
cat >ask.py <<'PYTHON'
import json
import multiprocessing
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version


def ask(address):
    from minisweagent.models.litellm_model import LitellmModel

    model = LitellmModel(model_name="openai/m", model_kwargs={"api_base": address, "api_key": "k"})
    try:
        model.query([{"role": "user", "content": "hello"}])
    except Exception as error:
        print("   ended with", type(error).__name__, flush=True)


def count(status, seconds):
    """Return the requests that a server which always refuses has received within some seconds."""

    class Handler(BaseHTTPRequestHandler):
        requests = 0

        def do_POST(self):
            type(self).requests += 1
            self.rfile.read(int(self.headers["content-length"]))
            body = json.dumps({"error": {"message": "not for you", "type": "invalid_request_error", "param": None, "code": None}})
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.send_header("x-should-retry", "false")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    agent = multiprocessing.Process(target=ask, args=(f"http://127.0.0.1:{server.server_port}/v1",))
    agent.start()
    agent.join(seconds)
    goes_on = agent.is_alive()
    agent.kill()
    return Handler.requests, goes_on


if __name__ == "__main__":
    print("mini-swe-agent", version("mini-swe-agent"), "litellm", version("litellm"))
    results = {}
    for status in (401, 403):
        results[status] = count(status, 60)
        print(f"status {status}: {results[status][0]} requests within 60 s, goes on: {results[status][1]}", flush=True)
    assert results[401] == (1, False), results
    assert results[403][0] >= 3 and results[403][1], results
PYTHON
venv/bin/python ask.py 2>ask.log || { tail -5 ask.log; exit 1; }
echo "seen: after 403 the agent asks again and again, after 401 it ends"
