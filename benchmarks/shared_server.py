"""The local Tinker server under many clients: a short reply beside long ones, 16 clients at once, one alone, memory.

`python -m benchmarks.shared_server [CHECKOUT]` also runs the server of another checkout, by turns, and prints the ratios. Clients
are threads that send completions; each server has the packaged model.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.figures import Figure, show
from benchmarks.suite import ROOT

CLIENTS, TOKENS, ROUNDS = 16, 100, 3
LONG = {"n": 64, "max_tokens": 400}
BESIDE_S, FASTER, ALONE, MEMORY = 0.25, 3.0, 1.0, 1.1


@dataclass(frozen=True)
class Server:
    address: str
    key: str
    process: int

    def post(self, endpoint: str, /, **body: object) -> dict[str, object]:
        connection = http.client.HTTPConnection(self.address, timeout=600)
        headers = {"content-type": "application/json", "x-api-key": self.key}
        connection.request("POST", endpoint, json.dumps(body), headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        assert response.status == 200, content
        return dict(json.loads(content))

    def complete(self, **body: object) -> float:
        """Return the seconds of a completion."""
        started = time.perf_counter()
        request = {
            "model": "crucible/tiny",
            "max_tokens": TOKENS,
            "stop": [],
            "seed": 0,
            "prompt": "The number is",
            **body,
        }
        self.post("/oai/api/v1/completions", **request)
        return time.perf_counter() - started

    def save_adapters(self) -> list[str]:
        """Return the paths of new adapters, one for each client."""
        session = self.post("/api/v1/create_session", tags=[], sdk_version="0.38.0")["session_id"]
        paths = []
        for number in range(CLIENTS):
            body = {
                "session_id": session,
                "model_seq_id": number,
                "base_model": "crucible/tiny",
                "lora_config": {"rank": 8},
            }
            model = str(self.post("/api/v1/create_model", **body)["model_id"])
            saving = self.post("/api/v1/save_weights_for_sampler", model_id=model, seq_id=1, path=f"adapter{number}")
            paths.append(str(self.post("/api/v1/retrieve_future", request_id=saving["request_id"])["path"]))
        return paths

    def memory_mib(self) -> float:
        """Return the most memory that the server has had."""
        lines = Path(f"/proc/{self.process}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


@contextmanager
def run_server(checkout: Path) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.json"
        command = [sys.executable, "-m", "pytest_crucible", "tinker", "server", "--directory", folder]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([*command, "--ready-file", str(ready)], cwd=folder, env=environment, **pipes)
        try:
            while not ready.exists():
                assert process.poll() is None, "the server has ended"
                time.sleep(0.05)
            facts = json.loads(ready.read_text())
            yield Server(urlsplit(facts["base_url"]).netloc, facts["api_key"], process.pid)
        finally:
            process.terminate()
            process.wait()


def measure(server: Server) -> Mapping[str, float]:
    server.complete(max_tokens=1)
    adapters = server.save_adapters()
    found = {
        "alone": _median(server.complete),
        "one model": _median(lambda: _at_once(server, ["crucible/tiny"] * CLIENTS)),
        "adapters": _median(lambda: _at_once(server, adapters)),
    }
    with ThreadPoolExecutor(1) as beside:
        started = time.perf_counter()
        long = beside.submit(server.complete, **LONG)
        time.sleep(1.0)
        # The first is among the long ones whatever the server does; later ones may come after them.
        found["short"] = server.complete(max_tokens=2, prompt="What is it?")
        assert found["short"] > BESIDE_S or not long.done(), "the long replies have ended too early"
        long.result()
        found["long"] = time.perf_counter() - started
    return {**found, "memory": server.memory_mib()}


def _at_once(server: Server, models: list[str]) -> float:
    started = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda item: server.complete(model=item[1], prompt=f"Claim {item[0]} is"), enumerate(models)))
    return time.perf_counter() - started


def _median(run: Callable[[], float]) -> float:
    run()
    return statistics.median(run() for _ in range(ROUNDS))


def figures(former: Path | None = None) -> list[Figure]:
    with run_server(ROOT) as server:
        ours = measure(server)
    total = CLIENTS * TOKENS
    shown = [
        Figure(name="2 tokens beside 64 replies of 400", measured=ours["short"], unit="s", limit=BESIDE_S, digits=3),
        Figure(
            name=f"{CLIENTS} clients of {TOKENS} tokens, one model",
            measured=total / ours["one model"],
            unit="tokens/s",
            digits=0,
        ),
        Figure(name="- an adapter for each", measured=total / ours["adapters"], unit="tokens/s", digits=0),
        Figure(name="one client alone", measured=TOKENS / ours["alone"], unit="tokens/s", digits=0),
        Figure(name="most memory of the server", measured=ours["memory"], unit="MiB", digits=0),
    ]
    return shown if former is None else [*shown, *_ratios(ours, former)]


def _ratios(ours: Mapping[str, float], former: Path) -> Iterator[Figure]:
    with run_server(former) as server:
        theirs = measure(server)
    ratios = {name: ours[name] / theirs[name] for name in ours}
    yield Figure(name="time / former build: 2 tokens beside", measured=ratios["short"], unit="x", digits=3)
    yield Figure(name="- 16 clients, one model", measured=ratios["one model"], unit="x", limit=1 / FASTER, digits=2)
    yield Figure(
        name="- 16 clients, an adapter each", measured=ratios["adapters"], unit="x", limit=1 / FASTER, digits=2
    )
    yield Figure(name="- one client alone", measured=ratios["alone"], unit="x", limit=ALONE, digits=2)
    yield Figure(name="- 64 replies of 400 alone", measured=ratios["long"], unit="x", digits=2)
    yield Figure(name="memory / former build", measured=ratios["memory"], unit="x", limit=MEMORY, digits=2)


if __name__ == "__main__":
    raise SystemExit(show(figures(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None)))
