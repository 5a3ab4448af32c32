"""What the local Tinker server costs the official SDK: samples a second through it, beside a server that answers at once.

The client has one core for itself and the server the other, where there are two. The model is so small, and its replies so
short (one token), that its own time hardly counts. Runs alternate, and the best of each counts. Needs the SDK.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from benchmarks.cores import pin
from benchmarks.figures import Figure, show
from benchmarks.suite import ROOT

SAMPLES, AT_ONCE, PAIRS = 1000, 32, 7
PROMPT = 64
LEAST = 0.9
"""Of the instant server's samples a second."""
KEY = "tml-benchmark"


def figures() -> list[Figure]:
    name = f"Tinker's SDK, {SAMPLES:,} samples, {AT_ONCE} at a time"
    if importlib.util.find_spec("tinker") is None:
        return [Figure(name=name, measured=None, unit="1/s")]
    instant, local = [], []
    with _server("stub") as stub, _server("local") as server:
        for _ in range(PAIRS):
            instant.append(_client(stub))
            local.append(_client(server))
    return [
        Figure(name=f"{name}, from an instant server", measured=max(instant), unit="1/s", digits=0),
        Figure(name="- from the local server", measured=max(local), unit="1/s", digits=0),
        Figure(name="- so many times slower", measured=max(instant) / max(local), unit="", limit=1 / LEAST, digits=3),
    ]


@contextmanager
def _server(kind: str) -> Iterator[str]:
    """A server in a process of its own, on the last core; its address."""
    with tempfile.TemporaryDirectory() as directory:
        ready = Path(directory) / "url"
        command = [sys.executable, "-m", "benchmarks.tinker", kind, directory]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            while not ready.exists():
                time.sleep(0.05)
            yield ready.read_text()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def _client(url: str) -> float:
    """Samples a second, in a process of its own on the first core."""
    command = [sys.executable, "-m", "benchmarks.tinker", "client", url]
    environment = {**os.environ, "TINKER_TELEMETRY": "0", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return float(run.stdout)


def measure(url: str) -> float:
    pin(0)
    tinker: Any = importlib.import_module("tinker")
    service = tinker.ServiceClient(base_url=url, api_key=KEY)
    made = service.create_sampling_client(base_model="crucible/tiny")
    sampler = made.result(timeout=60) if hasattr(made, "result") else made
    prompt, params = tinker.ModelInput.from_ints([65] * PROMPT), tinker.SamplingParams(max_tokens=1, seed=1)

    async def ask(numbers: Iterator[int]) -> None:
        for _ in numbers:
            await asyncio.wrap_future(sampler.sample(prompt, 1, params).future())

    async def ask_all(count: int) -> float:
        numbers = iter(range(count))
        started = time.perf_counter()
        await asyncio.gather(*(ask(numbers) for _ in range(AT_ONCE)))
        return count / (time.perf_counter() - started)

    asyncio.run(ask_all(SAMPLES // 5))
    return asyncio.run(ask_all(SAMPLES))


# -- servers --------------------------------------------------------------------------------------------------------


def serve_local(directory: Path) -> None:
    """The real one, over a model of random weights that costs next to nothing."""
    from base_model.gradients import initial_weights
    from pytest_crucible.local_model.checkpoints import save_base
    from pytest_crucible.local_model.config import Shape
    from pytest_crucible.local_model.server.process import ServerOptions, serve
    from pytest_crucible.local_model.tokens import Tokenizer

    base = directory / "base"
    base.mkdir()
    shape = Shape(vocabulary=258, width=16, layers=1, heads=1, mlp=16, context=128)
    Tokenizer(()).save(base / "tokenizer.json")
    save_base(base / "model.safetensors", initial_weights(shape, 0), shape)
    ready = directory / "ready.json"
    pin(-1)

    def tell() -> None:
        while not ready.exists():
            time.sleep(0.02)
        _announce(directory, json.loads(ready.read_text())["base_url"])

    threading.Thread(target=tell, daemon=True).start()
    serve(ServerOptions(directory=directory / "kept", base=base, key=KEY, ready_file=ready))


def serve_stub(directory: Path) -> None:
    """One that reads requests and answers each with the same bytes."""

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Stub, "127.0.0.1", 0, backlog=512)
        _announce(directory, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await asyncio.Event().wait()

    pin(-1)
    try:
        asyncio.run(serve())
    except KeyboardInterrupt:
        return


class _Stub(asyncio.Protocol):
    """HTTP/1.1 as far as the SDK's requests go: a head, and a body of the length that it says."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._received = cast(asyncio.Transport, transport), b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].lower()
            start = head.find(b"content-length:")
            length = int(head[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
            if len(self._received) < end + 4 + length:
                return
            self._received = self._received[end + 4 + length :]
            path = head.split(b" ", 2)[1].decode()
            self._transport.write(_ANSWERS.get(path.rpartition("/")[2], _answer({})))


def _answer(content: dict[str, Any] | bytes, *, close: bool = False) -> bytes:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    kind = "application/x-protobuf" if isinstance(content, bytes) else "application/json"
    keep = "close" if close else "keep-alive"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: {keep}\r\n\r\n"
    return head.encode() + body


def _answers() -> dict[str, bytes]:
    from pytest_crucible.local_model.sampling import Sampled
    from pytest_crucible.local_model.server.application import CLIENT_CONFIG
    from pytest_crucible.local_model.server.models import Answer
    from pytest_crucible.local_model.server.protobuf import write_sample_response

    reply = write_sample_response(Answer([Sampled([65], [-0.5], "length", "")]))
    return {
        "config": _answer(dict(CLIENT_CONFIG), close=True),
        "create_session": _answer({"type": "create_session", "session_id": "s"}),
        "create_sampling_session": _answer({"type": "create_sampling_session", "sampling_session_id": "s:sample:0"}),
        "asample": _answer({"request_id": "r", "sample_sequence_ids": ["r:0"]}),
        "retrieve_future": _answer(reply),
        "session_heartbeat": _answer({"type": "session_heartbeat"}),
    }


def _announce(directory: Path, url: str) -> None:
    draft = directory / "draft"
    draft.write_text(url)
    draft.rename(directory / "url")


_ANSWERS: dict[str, bytes] = {}

if __name__ == "__main__":
    role, *rest = sys.argv[1:] or ["all"]
    if role == "client":
        print(measure(rest[0]))
    elif role == "local":
        serve_local(Path(rest[0]))
    elif role == "stub":
        _ANSWERS.update(_answers())
        serve_stub(Path(rest[0]))
    else:
        raise SystemExit(show(figures()))
