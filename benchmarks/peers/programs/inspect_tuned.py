"""Inspect as fast as its options make it: no display, as many connections as asked for."""

from __future__ import annotations

import tempfile

from asking import CONCURRENCY, SAMPLES, URL
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import exact
from inspect_ai.solver import generate, solver


@solver
def answer_at_once():
    async def solve(state, generate):
        state.output = ModelOutput.from_content("m", state.input_text)
        return state

    return solve


samples = [Sample(id=number, input=f"question {number}", target=f"question {number}") for number in range(SAMPLES)]
task = Task(dataset=MemoryDataset(samples), solver=generate() if URL else answer_at_once(), scorer=exact())
model = get_model("openai/m", base_url=URL, api_key="none", responses_api=False) if URL else get_model("mockllm/m")
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
