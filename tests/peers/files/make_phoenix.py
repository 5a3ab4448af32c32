"""Writes phoenix-* with a local Phoenix server and a task that calls no model: python make_phoenix.py."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from phoenix.client import Client

HERE = Path(__file__).parent
WRONG = {"v1": 4, "v2": 1}


def exact_match(output, expected) -> bool:
    return output == expected["answer"]


def brevity(input, output) -> float:
    """Fails on one sample, as a judge does whose server went away."""
    if input["question"] == "What is 8 + 8?":
        raise RuntimeError("the judge went away")
    return 1 - min(1.0, len(output) / 10)


def tone(output) -> str:
    return "wordy" if " " in output else "terse"


def ask(arm: str):
    def task(input) -> str:
        k = int(re.findall(r"\d+", input["question"])[0])
        if arm == "v2" and k == 7:
            raise RuntimeError("the model server went away")
        return "a thousand" if k <= WRONG[arm] else str(2 * k)

    return task


def make(url: str) -> None:
    client = Client(base_url=url)
    dataset = client.datasets.create_dataset(
        name="sums",
        inputs=[{"question": f"What is {k} + {k}?"} for k in range(1, 9)],
        outputs=[{"answer": str(2 * k)} for k in range(1, 9)],
        metadata=[{"topic": "odd" if k % 2 else "even"} for k in range(1, 9)],
    )
    for arm in WRONG:
        experiment = client.experiments.run_experiment(
            dataset=dataset,
            task=ask(arm),
            evaluators=[exact_match, brevity, tone],
            experiment_name=arm,
            repetitions=2,
            retries=0,
            print_summary=False,
        )
        for kind in ("json",) if arm == "v1" else ("json", "csv"):
            text = httpx.get(f"{url}/v1/experiments/{experiment['experiment_id']}/{kind}").raise_for_status().text
            (HERE / f"phoenix-{arm}.{kind}").write_text(text, newline="")


def wait_for(url: str) -> None:
    for _ in range(240):
        try:
            httpx.get(f"{url}/healthz").raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.5)
    raise SystemExit("phoenix did not start")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


if __name__ == "__main__":
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        settings = {"PHOENIX_WORKING_DIR": folder, "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port)}
        settings |= {"PHOENIX_GRPC_PORT": str(free_port()), "PHOENIX_TELEMETRY_ENABLED": "false"}
        server = subprocess.Popen(
            [sys.executable, "-m", "phoenix.server.main", "serve"], env={**os.environ, **settings}
        )
        try:
            wait_for(f"http://127.0.0.1:{port}")
            make(f"http://127.0.0.1:{port}")
        finally:
            server.terminate()
            server.wait()
