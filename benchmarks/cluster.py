"""Sessions on a local Ray cluster against an OpenAI-shaped server that answers after 200 ms, 64 samples at a time on each worker.

Two and four workers are to take 1/1.9 and 1/3.6 of the time of one, from the first reply to the last. One worker is
compared with Ray Data: `map_batches` over the same prompts, by an actor with 64 threads that post the same bodies and
keep the answers' texts. All of it shares the machine's cores: on few of them choose fewer samples (`python -m
benchmarks.cluster 2500`). Each time is printed when it was measured, the table at the end. Where Ray does not start,
because the machine reaches no other, give it a network of its own: `unshare -n bash -c "ip link set lo up; python -m
benchmarks.cluster"`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.figures import Figure, show
from tests.openai_server import OpenAIServer

SAMPLES, LATENCY_S, CONCURRENCY = 10_000, 0.2, 64
SHARES = {2: 1.9, 4: 3.6}
MOST_OWN_TIME = 1.1
ROOT = Path(__file__).parent.parent
_TEST = """
import pytest
from pytest_crucible import Sample

SAMPLES = [Sample(id=f"s{k}", input=f"{k} + 1", expected=str(k + 1)) for k in range(%d)]

@pytest.mark.crucible(dataset=SAMPLES, metrics=["exact_match"])
async def test_sums(sample, sampler):
    return await sampler.generate(sample.input)
"""
_RAY_DATA = """
import http.client, json, os, sys, time
from concurrent.futures import ThreadPoolExecutor
from threading import local
import ray

class Ask:
    def __init__(self):
        self.pool, self.own = ThreadPoolExecutor({concurrency}), local()

    def post(self, prompt):
        if not hasattr(self.own, "connection"):
            self.own.connection = http.client.HTTPConnection("{host}")
        body = json.dumps({{"model": "m", "messages": [{{"role": "user", "content": prompt}}]}})
        self.own.connection.request("POST", "/v1/chat/completions", body, {{"content-type": "application/json"}})
        answer = json.loads(self.own.connection.getresponse().read())
        return answer["choices"][0]["message"]["content"], time.time()

    def __call__(self, batch):
        texts, at = zip(*self.pool.map(self.post, batch["item"]))
        return {{"text": list(texts), "at": list(at)}}

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
data = ray.data.from_items([f"{{k}} + 1" for k in range({samples})], override_num_blocks={blocks})
rows = data.map_batches(Ask, batch_size={batch}, concurrency=1).take_all()
at = [row["at"] for row in rows]
print(json.dumps({{"seconds": max(at) - min(at), "rows": len(rows)}}))
"""


def printed(figures: Iterable[Figure]) -> Iterator[Figure]:
    """Yield figures that are printed as they come, on standard error."""
    for figure in figures:
        print(*figure.row(), file=sys.stderr, flush=True)
        yield figure


def figures(samples: int = SAMPLES) -> Iterator[Figure]:
    """Yield the times of one, two and four workers, and that of Ray Data."""
    with tempfile.TemporaryDirectory() as folder, OpenAIServer.start(latency_s=LATENCY_S) as server:
        alone = _seconds(Path(folder), server, samples, 1)
        name = f"cluster, {samples:,} samples of 200 ms, 64 at a time on each worker: first to last reply of one"
        yield Figure(name=name, measured=alone, unit="s", digits=2)
        yield Figure(name="- ideal", measured=samples * LATENCY_S / CONCURRENCY, unit="s", digits=2)
        for workers, share in SHARES.items():
            seconds = _seconds(Path(folder), server, samples, workers)
            yield Figure(name=f"- {workers} workers", measured=seconds, unit="s", limit=alone / share, digits=2)
        peer = _ray_data_seconds(Path(folder), server, samples)
        name = "- one worker / Ray Data's map_batches"
        yield Figure(name=name, measured=alone / peer, unit="times", limit=MOST_OWN_TIME, digits=2)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}


def _seconds(folder: Path, server: OpenAIServer, samples: int, workers: int) -> float:
    """Return the time from the first reply to the last of a session with some workers."""
    (folder / "test_sums.py").write_text(_TEST % samples)
    (folder / "pytest.ini").write_text("[pytest]\n")
    store = folder / f"{workers}.db"
    options = [
        f"--crucible-executor=ray?per_node={workers}&concurrency={CONCURRENCY}",
        f"--crucible-adapter=openai+{server.url}#m",
        "--crucible-cache=off",
        f"--crucible-store={store}",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"pytest exited {done.returncode}:\n{done.stdout}\n{done.stderr}")
    connection = sqlite3.connect(store)
    first, last, count = connection.execute(
        "SELECT MIN(at), MAX(at), COUNT(*) FROM events WHERE name = 'request.stop'"
    ).fetchone()
    connection.close()
    if count != samples:
        raise RuntimeError(f"{count} requests for {samples} samples")
    return float(last - first)


def _ray_data_seconds(folder: Path, server: OpenAIServer, samples: int) -> float:
    """Return the time from the first reply to the last of `map_batches`, in batches in which 64 threads are seldom idle."""
    batch = 16 * CONCURRENCY
    script = folder / "ray_data.py"
    host = server.url.removeprefix("http://").partition("/")[0]
    script.write_text(
        _RAY_DATA.format(
            concurrency=CONCURRENCY, host=host, samples=samples, blocks=max(1, samples // batch), batch=batch
        )
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=folder, env=_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"Ray Data exited {done.returncode}:\n{done.stderr}")
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


if __name__ == "__main__":
    raise SystemExit(show(printed(figures(*map(int, sys.argv[1:])))))
