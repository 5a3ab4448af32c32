"""Inspect as fast as its options make it: no display, as many connections as asked for."""

from __future__ import annotations

import os
import tempfile

from asking import CONCURRENCY, SAMPLES
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import exact
from inspect_ai.solver import generate

samples = [Sample(id=number, input=f"question {number}", target=f"question {number}") for number in range(SAMPLES)]
task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=exact())
model = get_model("openai/m", base_url=os.environ["PEERS_URL"], api_key="none", responses_api=False)
logs = eval(
    task,
    model=model,
    display="none",
    log_dir=tempfile.mkdtemp(),
    log_realtime=False,
    max_connections=CONCURRENCY,
    max_samples=CONCURRENCY,
)
assert logs[0].status == "success", logs[0].error
(score,) = logs[0].results.scores
assert next(iter(score.metrics.values())).value == 1
