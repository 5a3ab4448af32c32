"""The local Tinker server under many clients: a short reply beside long ones and beside long prompts, 16 clients at once, memory.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.figures import Figure, show
from benchmarks.memory import peak_mib
from benchmarks.suite import ROOT

CLIENTS, TOKENS, ROUNDS = 16, 100, 9
LONG = {"n": 64, "max_tokens": 400}
# It has room for prompts of some 1,800 tokens.
STAND_IN = "Qwen/Qwen3-8B"
LONG_PROMPT = "The number is 7. " * 180
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
        return peak_mib(self.process)


@contextmanager
def run_server(checkout: Path) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.json"
        command = [sys.executable, "-m", "pytest_crucible", "tinker", "server", "--directory", folder, "--as", STAND_IN]
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


def measure(servers: Sequence[Server]) -> list[Mapping[str, float]]:
    """Return the medians of each server: all are measured by turns, since a machine's speed changes."""
    found: list[dict[str, float]] = [{} for _ in servers]
    adapters = [server.save_adapters() for server in servers]
    runs: dict[str, Callable[[int], float]] = {
        "alone": lambda number: servers[number].complete(),
        "one model": lambda number: _at_once(servers[number], ["crucible/tiny"] * CLIENTS),
        "adapters": lambda number: _at_once(servers[number], adapters[number]),
    }
    for name, run in runs.items():
        # The first round, which opens models, does not count.
        rounds = [[run(number) for number in range(len(servers))] for _ in range(ROUNDS + 1)][1:]
        for number, times in enumerate(zip(*rounds, strict=True)):
            found[number][name] = statistics.median(times)
    for server, of_server in zip(servers, found, strict=True):
        of_server.update(_measure_beside(server), prompts=_measure_beside_prompts(server), memory=server.memory_mib())
    return list(found)


def _measure_beside(server: Server) -> dict[str, float]:
    with ThreadPoolExecutor(1) as beside:
        started = time.perf_counter()
        long = beside.submit(server.complete, **LONG)
        time.sleep(1.0)
        short = server.complete(max_tokens=2, prompt="What is it?")
        assert short > BESIDE_S or not long.done(), "the long replies have ended too early"
        long.result()
        return {"short": short, "long": time.perf_counter() - started}


def _measure_beside_prompts(server: Server) -> float:
    def read(number: int) -> float:
        return server.complete(model=STAND_IN, max_tokens=1, prompt=f"{number} {LONG_PROMPT}")

    with ThreadPoolExecutor(CLIENTS) as beside:
        long = [beside.submit(read, number) for number in range(CLIENTS)]
        time.sleep(0.5)
        short = server.complete(model=STAND_IN, max_tokens=2, prompt="What is it?")
        assert short > BESIDE_S or not all(future.done() for future in long), (
            "the long prompts have been read too early"
        )
    return short


def _at_once(server: Server, models: list[str]) -> float:
    started = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda item: server.complete(model=item[1], prompt=f"Claim {item[0]} is"), enumerate(models)))
    return time.perf_counter() - started


def figures(former: Path | None = None) -> list[Figure]:
    with ExitStack() as stack:
        servers = [stack.enter_context(run_server(checkout)) for checkout in (ROOT, former) if checkout is not None]
        ours, *theirs = measure(servers)
    total = CLIENTS * TOKENS
    shown = [
        Figure(name="2 tokens beside 64 replies of 400", measured=ours["short"], unit="s", limit=BESIDE_S, digits=3),
        Figure(name="- beside 16 prompts of 1,800", measured=ours["prompts"], unit="s", limit=BESIDE_S, digits=3),
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
    return [*shown, *(figure for other in theirs for figure in _ratios(ours, other))]


def _ratios(ours: Mapping[str, float], theirs: Mapping[str, float]) -> Iterator[Figure]:
    ratios = {name: ours[name] / theirs[name] for name in ours}
    yield Figure(name="time / former build: 2 tokens beside", measured=ratios["short"], unit="x", digits=3)
    yield Figure(name="- beside 16 prompts", measured=ratios["prompts"], unit="x", digits=3)
    yield Figure(name="- 16 clients, one model", measured=ratios["one model"], unit="x", limit=1 / FASTER, digits=2)
    yield Figure(
        name="- 16 clients, an adapter each", measured=ratios["adapters"], unit="x", limit=1 / FASTER, digits=2
    )
    yield Figure(name="- one client alone", measured=ratios["alone"], unit="x", limit=ALONE, digits=2)
    yield Figure(name="- 64 replies of 400 alone", measured=ratios["long"], unit="x", digits=2)
    yield Figure(name="memory / former build", measured=ratios["memory"], unit="x", limit=MEMORY, digits=2)


if __name__ == "__main__":
    raise SystemExit(show(figures(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None)))
