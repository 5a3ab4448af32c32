"""The embedded model on one core: tokens a second, a training step, and the memory of a process that does both.

Weights are random, of the shape of the packaged base: what they say costs nothing. CPU time is taken, which other programs
disturb less than the clock on the wall; everything runs in one thread, so on a quiet machine they are equal. One figure is of two
threads, by the clock: it needs two cores that have nothing else to do.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure, show
from benchmarks.memory import peak_mib
from benchmarks.suite import ROOT

if TYPE_CHECKING:
    from pytest_crucible.features.training.trainer import EmbeddedTrainer

PROMPT, NEW, ROWS, REPEATS = 125, 60, 32, 9
TRAINED = (8, 275)
"""Samples of a training step, and tokens of each."""
CLAIMS, STEPS = ROOT / "example_suites" / "claims" / "train.jsonl", 90
"""Rows of different lengths, of which the completions count: a third of the tokens."""
LIMITS = {"batch": 1e6 / 3500, "alone": 1e6 / 1200, "step": 320.0, "training": 12.0, "threads": 75.0, "resident": 350.0}


def figures() -> list[Figure]:
    found = _run("measure", threads=1) | _run("threads", threads=2)
    asked = f"{PROMPT} + {NEW} tokens"
    sampling = {"batch": f"{ROWS} prompts at once", "alone": "one prompt", "shared": f"one prompt, {ROWS} samples"}
    figures = []
    for name, of in sampling.items():
        cost, limit = found[name], LIMITS.get(name)
        figures.append(Figure(name=f"local model, {of}, {asked}", measured=cost, unit="us/token", limit=limit))
        figures.append(Figure(name="- that is", measured=1e6 / cost, unit="tokens/s", digits=0))
    step = f"local model, LoRA step of {TRAINED[0]} x {TRAINED[1]} tokens, rank 8"
    return [
        *figures,
        Figure(name=step, measured=found["step"], unit="ms", limit=LIMITS["step"]),
        Figure(
            name=f"local model, {STEPS} steps of 8 rows of example_suites/claims, rank 32",
            measured=found["training"],
            unit="s",
            limit=LIMITS["training"],
        ),
        Figure(name="- of which matrix products", measured=found["products"], unit="%", digits=0),
        Figure(
            name="- in two threads, by the clock",
            measured=found["threads"],
            unit="% of one",
            limit=LIMITS["threads"],
            digits=0,
        ),
        Figure(name="- in two threads, CPU time", measured=found["threads_cpu"], unit="% of one", digits=0),
        Figure(name="local model, base training step of 8 x 384 tokens", measured=found["base"], unit="ms"),
        Figure(name="local model, resident at most", measured=found["resident"], unit="MB", limit=LIMITS["resident"]),
    ]


def _run(part: str, *, threads: int) -> dict[str, float]:
    """Return the figures of a part, in a process whose matrix library has so many threads."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "benchmarks.local_model", part]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(run.stdout)
    return figures


def measure() -> dict[str, float]:
    """Microseconds a token, milliseconds a step, megabytes."""
    import numpy as np

    from base_model.gradients import Batch, initial_weights, loss_and_gradients
    from pytest_crucible.local_model.checkpoints import LoraSpec
    from pytest_crucible.local_model.config import Datum, Shape
    from pytest_crucible.local_model.engine import Engine
    from pytest_crucible.local_model.losses import AdamParams
    from pytest_crucible.local_model.sampling import SamplingParams
    from pytest_crucible.local_model.tokens import Tokenizer

    shape = Shape(vocabulary=1024, width=128, layers=4, heads=4, mlp=512, context=512)
    tokenizer = Tokenizer(tuple((first, second) for first in range(3) for second in range(256))[: 1024 - 258])
    engine, random = Engine(tokenizer, shape, initial_weights(shape, 0), "0" * 64), np.random.default_rng(0)
    sampler, trainer = engine.sampler(), engine.trainer(LoraSpec(rank=8))
    prompts = random.integers(0, 1022, (ROWS, PROMPT)).tolist()
    params = SamplingParams(max_tokens=NEW, seed=0, stop=())
    shared = SamplingParams(max_tokens=NEW, seed=0, stop=(), num_samples=ROWS)
    counted = (np.arange(TRAINED[1]) >= TRAINED[1] // 2).astype(np.float32)
    data = [
        Datum(row[:-1].tolist(), {"target_tokens": row[1:], "weights": counted})
        for row in random.integers(0, 1024, (TRAINED[0], TRAINED[1] + 1))
    ]

    def step() -> None:
        trainer.forward_backward(data, "cross_entropy")
        trainer.optim_step(AdamParams())

    found = {
        "batch": _cpu_s(lambda: sampler.sample(prompts, params)) * 1e6 / ROWS / NEW,
        "alone": _cpu_s(lambda: sampler.sample(prompts[:1], params)) * 1e6 / NEW,
        "shared": _cpu_s(lambda: sampler.sample(prompts[:1], shared)) * 1e6 / ROWS / NEW,
        "step": _cpu_s(step) * 1e3,
        "training": _training_s(),
        "products": 100 * _share_of_products(),
        "resident": peak_mib(),
    }
    tokens = random.integers(0, 1024, (2, 8, 384))
    batch = Batch(tokens[0], tokens[1], np.ones((8, 384)))
    return found | {"base": _cpu_s(lambda: loss_and_gradients(engine.weights, shape, batch)) * 1e3}


def compare_threads() -> dict[str, float]:
    """Clock and CPU time of steps in two threads, as a percentage of those in one: medians of steps by turns."""
    from pytest_crucible.local_model import engine

    trainer, data = _open_training()
    times: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for step in range(1, STEPS + 1):
        for threads in (1, 2):
            engine.TRAINING_THREADS = threads
            started = time.perf_counter(), time.process_time()
            trainer.step(trainer.batch(step, data, 8), learning_rate=1e-3)
            times[threads].append((time.perf_counter() - started[0], time.process_time() - started[1]))
    clock, cpu = (
        statistics.median(two[at] / one[at] for one, two in zip(times[1], times[2], strict=True)) for at in (0, 1)
    )
    return {"threads": 100 * clock, "threads_cpu": 100 * cpu}


def _open_training() -> tuple[EmbeddedTrainer, Sequence[Any]]:
    """Return a recipe's trainer with the packaged model, and its data, after a first step."""
    from pytest_crucible.backends.local import open_engine
    from pytest_crucible.features.training.trainer import EmbeddedTrainer
    from pytest_crucible.local_model.checkpoints import LoraSpec

    trainer = EmbeddedTrainer(open_engine(None), LoraSpec(rank=32), folder=ROOT)
    data = trainer.datums(CLAIMS)
    trainer.step(data[:8])
    return trainer, data


def _training_s(array_type: type[Any] | None = None) -> float:
    """CPU seconds of a training through a recipe's trainer, with the packaged model, whose arrays may be of another type."""
    trainer, data = _open_training()
    for arrays in (trainer.engine.weights, trainer.adapter.factors) if array_type else ():
        arrays.update({name: array.view(array_type) for name, array in arrays.items()})
    started = time.process_time()
    for step in range(1, STEPS + 1):
        trainer.step(trainer.batch(step, data, 8), learning_rate=1e-3)
    return time.process_time() - started


def _share_of_products() -> float:
    """The share of matrix products in the CPU seconds of such a training."""
    from benchmarks.matrix_products import TimedArray

    whole = _training_s(TimedArray)
    return TimedArray.seconds / whole


def _cpu_s(work: Callable[[], object]) -> float:
    """Median CPU seconds, after a first time that does not count."""
    work()
    taken = []
    for _ in range(REPEATS):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return statistics.median(taken)


if __name__ == "__main__":
    parts = {"measure": measure, "threads": compare_threads}
    if len(sys.argv) > 1:
        print(json.dumps(parts[sys.argv[1]]()))
    else:
        raise SystemExit(show(figures()))
