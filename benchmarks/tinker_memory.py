"""The memory of a local Tinker server with 20 clients: each trains an adapter of its own, and samples from it.

The packaged model; a batch of 8 x 200 tokens and rank 32 for each client, all at the same time, through the official SDK. Taken is
the most memory that the server's process ever had (`VmHWM`). Needs the SDK.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, show
from benchmarks.memory import peak_mib
from pytest_crucible.local_model.server.process import LocalServer

CLIENTS, STEPS, ROWS, LENGTH, REPLIES = 20, 3, 8, 200, 8
LIMIT_MB = 500.0
WAIT_S = 600


def figures() -> list[Figure]:
    name = f"local Tinker server, {CLIENTS} clients that train and sample, memory at most"
    if importlib.util.find_spec("tinker") is None:
        return [Figure(name=name, measured=None, unit="MB", limit=LIMIT_MB)]
    with tempfile.TemporaryDirectory() as directory, LocalServer.start(Path(directory)) as server:
        started = peak_mib(server.process.pid)
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda number: _use(server, number), range(CLIENTS)))
        measured = peak_mib(server.process.pid)
    return [
        Figure(name=name, measured=measured, unit="MB", limit=LIMIT_MB),
        Figure(name="- before the first client", measured=started, unit="MB"),
    ]


def _use(server: LocalServer, number: int) -> None:
    """Train an adapter for some steps, and sample from it."""
    tinker: Any = importlib.import_module("tinker")
    service = tinker.ServiceClient(base_url=server.url, api_key=server.key)
    client = service.create_lora_training_client(base_model="crucible/tiny", rank=32, seed=number)
    client = client.result(timeout=WAIT_S) if hasattr(client, "result") else client
    tokens = [(token * 7 + number) % 1000 for token in range(LENGTH + 1)]
    inputs = {"target_tokens": tokens[1:], "weights": [1.0] * LENGTH}
    data = [tinker.Datum(model_input=tinker.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs)] * ROWS
    for _ in range(STEPS):
        gradients = client.forward_backward(data, "cross_entropy")
        client.optim_step(tinker.AdamParams(learning_rate=1e-3)).result(timeout=WAIT_S)
        gradients.result(timeout=WAIT_S)
    sampler = client.save_weights_and_get_sampling_client()
    sampler = sampler.result(timeout=WAIT_S) if hasattr(sampler, "result") else sampler
    params = tinker.SamplingParams(max_tokens=60, stop=[], seed=number)
    sampler.sample(tinker.ModelInput.from_ints(tokens[:100]), REPLIES, params).result(timeout=WAIT_S)
    # The session stays open: twenty clients have their adapters at the same time.


if __name__ == "__main__":
    raise SystemExit(show(figures()))
