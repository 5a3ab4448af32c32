#!/usr/bin/env bash
# Codex with another address for its built-in provider tries a WebSocket again and again after 404, and then sends its request by HTTP.
#
# Stated: `openai_base_url` is an address of the Responses API. Expected: 404 to the upgrade is final, and the request follows at once, as it
# does at the same address as a provider of one's own with `wire_api = "responses"`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund @openai/codex@0.171.0
cat >ask.py <<'PYTHON'
import json
import os
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CODEX = os.path.abspath("node_modules/.bin/codex")


class Handler(BaseHTTPRequestHandler):
    requests = []

    def do_GET(self):
        kind = "upgrade" if self.headers.get("upgrade") == "websocket" else "GET"
        self.requests.append((time.monotonic(), kind))
        self.answer(404)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.requests.append((time.monotonic(), f"POST {self.path}"))
        self.answer(400)

    def answer(self, status):
        body = json.dumps({"error": {"message": "not here", "type": "invalid_request_error", "param": None, "code": None}}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def ask(name, *settings):
    """Return what a server of one's own is sent, and the seconds until the request itself."""
    Handler.requests.clear()
    home = os.path.abspath(name)
    os.makedirs(home)
    command = [CODEX, "exec", "--skip-git-repo-check", "--sandbox", "read-only"]
    command += [part for setting in settings for part in ("-c", setting)]
    environment = {**os.environ, "CODEX_HOME": home, "CODEX_API_KEY": "k", "OPENAI_API_KEY": "k"}
    subprocess.run([*command, "Say hello."], env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    kinds = [kind for _, kind in Handler.requests if kind != "GET"]
    first_post = next(moment for moment, kind in Handler.requests if kind.startswith("POST"))
    return kinds.count("upgrade"), first_post - Handler.requests[0][0]


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/v1"
print(subprocess.run([CODEX, "--version"], capture_output=True, text=True).stdout.strip())
built_in = ask("built-in", f'openai_base_url="{address}"')
fields = ('name="own"', f'base_url="{address}"', 'env_key="OPENAI_API_KEY"', 'wire_api="responses"')
own = ask("own", 'model_provider="own"', *(f"model_providers.own.{field}" for field in fields))
print(f"built-in provider at another address: {built_in[0]} upgrades, the request after {built_in[1]:.1f} s")
print(f"a provider of one's own: {own[0]} upgrades, the request after {own[1]:.1f} s")
assert built_in[0] >= 5 and built_in[1] > 2, built_in
assert own[0] == 0, own
PYTHON
python3 ask.py
echo "seen: after 404 the upgrade is tried again with growing pauses, and the request comes seconds later"
