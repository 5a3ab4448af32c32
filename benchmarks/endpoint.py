"""Calls over the endpoint of agents: CPU time a call beside a plain proxy, and 64 agents of 10 calls on a server of 20 ms.

The client is a process of its own, which has conversations of 10 turns, one after the other, over the endpoints of samples in a
session, and over a proxy of uvicorn and httpx that passes bytes on; both ask one server. CPU time is that of the session's
process, or of the proxy's, while the client sends. The session parses, stores, limits and counts each call besides, and begins
and ends samples.

The floor are two asyncio protocols: one that passes bytes on unread, with a connection to the server for each of the client's, and
one that answers with bytes that are always the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure, show
from tests.openai_server import OpenAIServer

CONVERSATIONS, AGENTS, TURNS, LATENCY_S = 200, 64, 10, 0.02
CALLS = CONVERSATIONS * TURNS
MOST_CPU_MS, MOST_OF_PROXY, MOST_OF_IDEAL = 1.0, 0.2, 1.1
ROOT = Path(__file__).parent.parent
_CLIENT = """
import http.client, json, sys
for line in sys.stdin:
    host, path, name = line.split()
    connection = http.client.HTTPConnection(host)
    messages = []
    for turn in range(%d):
        messages.append({"role": "user", "content": f"turn {turn} of {name}: " + "what is in the box on the left? " * 4})
        body = json.dumps({"model": "m", "messages": messages})
        connection.request("POST", path + "/chat/completions", body, {"content-type": "application/json"})
        messages.append(json.loads(connection.getresponse().read())["choices"][0]["message"])
    connection.close()
    print("done", flush=True)
"""
_PROXY = """
import sys, time
import httpx, uvicorn

client = httpx.AsyncClient(timeout=60)

async def application(scope, receive, send):
    if scope["type"] != "http":
        return
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            break
    if scope["path"] == "/cpu":
        status, content = 200, str(time.process_time()).encode()
    else:
        answer = await client.post(sys.argv[1] + scope["path"], content=body, headers={"content-type": "application/json"})
        status, content = answer.status_code, answer.content
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": content})

uvicorn.run(application, port=int(sys.argv[2]), log_level="error")
"""
_PROTOCOLS = """
import asyncio, json, sys, time

server, port, mode = sys.argv[1].removeprefix("http://").split(":"), int(sys.argv[2]), sys.argv[3]
message = {"role": "assistant", "content": "the same words for each question"}
reply = json.dumps({"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}).encode()

def answer(body):
    return b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n%b" % (len(body), body)

class FromServer(asyncio.Protocol):
    def __init__(self, client):
        self.client = client

    def data_received(self, data):
        self.client.write(data)

class FromClient(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.server, self.waiting = transport, None, []
        if mode == "pass":
            self.opening = asyncio.ensure_future(self.open())

    async def open(self):
        connect = asyncio.get_running_loop().create_connection
        self.server, _ = await connect(lambda: FromServer(self.transport), server[0], int(server[1]))
        for data in self.waiting:
            self.server.write(data)

    def data_received(self, data):
        if data.startswith(b"GET /cpu"):
            self.transport.write(answer(str(time.process_time()).encode()))
        elif mode == "answer":
            self.transport.write(answer(reply))
        elif self.server is None:
            self.waiting.append(data)
        else:
            self.server.write(data)

    def connection_lost(self, error):
        if self.server is not None:
            self.server.close()

async def main():
    listening = await asyncio.get_running_loop().create_server(FromClient, "127.0.0.1", port)
    await listening.serve_forever()

asyncio.run(main())
"""
_TEST = """
import subprocess, sys, time
from urllib.parse import urlsplit
import pytest
from pytest_crucible import Sample

SAMPLES = [Sample(id=f"s{k}", input=f"question {k}") for k in range(%d)]
client = subprocess.Popen([sys.executable, "client.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
begun = []

@pytest.mark.crucible(dataset=SAMPLES, metrics=["calls"], timeout=0)
def test_calls(sample, endpoint):
    begun.append(time.process_time())
    address = urlsplit(endpoint.base_url)
    print(address.netloc, address.path, sample.id, file=client.stdin, flush=True)
    client.stdout.readline()
    with open("cpu.txt", "w") as file:
        print(time.process_time() - begun[0], file=file)
    return "done"
"""
_AGENTS = """
import json, time
from http.client import HTTPConnection
from urllib.parse import urlsplit
import pytest
from pytest_crucible import Sample

SAMPLES = [Sample(id=f"s{k}", input=f"question {k}") for k in range(%d)]
begun = []

@pytest.mark.crucible(dataset=SAMPLES, metrics=["calls"])
def test_agents(sample, endpoint):
    begun.append(time.perf_counter())
    address = urlsplit(%r or endpoint.base_url)
    connection = HTTPConnection(address.netloc)
    for turn in range(%d):
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": f"{sample.input}, turn {turn}"}]})
        connection.request("POST", address.path + "/chat/completions", body, {"content-type": "application/json"})
        json.loads(connection.getresponse().read())
    connection.close()
    with open("seconds.txt", "w") as file:
        print(time.perf_counter() - begun[0], file=file)
    return "done"
"""


def figures() -> Iterator[Figure]:
    """Yield CPU time a call of the endpoint and of the proxy, and the time of many agents beside the ideal."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "client.py").write_text(_CLIENT % TURNS)
        with OpenAIServer.start() as server:
            ours, proxy = _endpoint_cpu(folder, server), _proxy_cpu(folder, server, _PROXY)
            passed, bare = (_proxy_cpu(folder, server, _PROTOCOLS, mode) for mode in ("pass", "answer"))
        yield Figure(name="endpoint, CPU time a call", measured=ours, unit="ms", limit=MOST_CPU_MS, digits=2)
        yield Figure(name="- uvicorn and httpx, which pass bytes on", measured=proxy, unit="ms", digits=2)
        yield Figure(name="- endpoint / proxy", measured=ours / proxy, unit="times", limit=MOST_OF_PROXY, digits=2)
        yield Figure(
            name="- floor: an asyncio protocol that passes bytes on unread", measured=passed, unit="ms", digits=2
        )
        yield Figure(name="- floor: one that answers the same bytes", measured=bare, unit="ms", digits=2)
        with OpenAIServer.start(latency_s=LATENCY_S) as server:
            seconds, alone = (_agents_seconds(folder, server, direct) for direct in ("", server.url))
        what = f"{AGENTS} agents of {TURNS} calls on a server of 20 ms, first call to last reply"
        yield Figure(name=what, measured=seconds, unit="s", digits=3)
        yield Figure(name="- the same clients without the endpoint", measured=alone, unit="s", digits=3)
        ideal = TURNS * LATENCY_S
        yield Figure(name="- / ideal", measured=seconds / ideal, unit="times", limit=MOST_OF_IDEAL, digits=2)


def _run_session(folder: Path, server: OpenAIServer, test: str, concurrency: int = AGENTS) -> None:
    (folder / "test_it.py").write_text(test)
    (folder / "pytest.ini").write_text("[pytest]\n")
    store = folder / "store.db"
    store.unlink(missing_ok=True)
    options = [f"--crucible-adapter=openai+{server.url}#m", "--crucible-cache=off", f"--crucible-store={store}"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--crucible-concurrency={concurrency}",
        *options,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"pytest exited {done.returncode}:\n{done.stdout}\n{done.stderr}")


def _endpoint_cpu(folder: Path, server: OpenAIServer) -> float:
    """Return the milliseconds of CPU time that a session takes for each call of a client."""
    _run_session(folder, server, _TEST % CONVERSATIONS, concurrency=1)
    return float((folder / "cpu.txt").read_text()) * 1000 / CALLS


def _proxy_cpu(folder: Path, server: OpenAIServer, program: str, *arguments: str) -> float:
    """Return the milliseconds of CPU time that a proxy takes for each call of a client."""
    import socket
    import time
    from http.client import HTTPConnection

    (folder / "proxy.py").write_text(program)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    base = server.url.removesuffix("/v1")
    proxy = subprocess.Popen([sys.executable, "proxy.py", base, str(port), *arguments], cwd=folder)

    def read_cpu() -> float:
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/cpu")
        return float(connection.getresponse().read())

    try:
        for _ in range(100):
            try:
                begun = read_cpu()
                break
            except OSError:
                time.sleep(0.1)
        lines = "".join(f"127.0.0.1:{port} /v1 s{number}\n" for number in range(CONVERSATIONS))
        subprocess.run(
            [sys.executable, "client.py"], cwd=folder, input=lines, text=True, capture_output=True, check=True
        )
        return (read_cpu() - begun) * 1000 / CALLS
    finally:
        proxy.kill()
        proxy.wait()


def _agents_seconds(folder: Path, server: OpenAIServer, direct: str) -> float:
    """Return the seconds of all agents; with a URL, of clients that call the server and not the endpoint."""
    _run_session(folder, server, _AGENTS % (AGENTS, direct, TURNS))
    return float((folder / "seconds.txt").read_text())


if __name__ == "__main__":
    raise SystemExit(show(list(figures())))
