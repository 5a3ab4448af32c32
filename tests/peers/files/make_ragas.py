"""Writes ragas-* with Ragas and metrics that call no model: python make_ragas.py."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

os.environ["RAGAS_DO_NOT_TRACK"] = "true"

from ragas import EvaluationDataset, RunConfig, SingleTurnSample, evaluate
from ragas.metrics import ExactMatch, NonLLMStringSimilarity
from ragas.metrics.base import MetricType, SingleTurnMetric

HERE = Path(__file__).parent
WRONG = {"v1": 4, "v2": 1}


@dataclass
class Brevity(SingleTurnMetric):
    """Scores the length of a reply: it fails on one sample, as a judge does whose server went away."""

    name: str = "brevity"
    _required_columns: dict = field(default_factory=lambda: {MetricType.SINGLE_TURN: {"user_input", "response"}})

    def init(self, run_config):
        pass

    async def _single_turn_ascore(self, sample, callbacks):
        if sample.user_input == "What is 8 + 8?":
            raise RuntimeError("the judge went away")
        return 1 - min(1.0, len(sample.response) / 10)


def make() -> None:
    for name, wrong in WRONG.items():
        samples = [
            SingleTurnSample(
                user_input=f"What is {k} + {k}?",
                retrieved_contexts=[f"{k} + {k} = {2 * k}", "Sums are commutative."],
                response="a thousand" if k <= wrong else str(2 * k),
                reference=str(2 * k),
            )
            for k in range(1, 9)
        ]
        metrics = [ExactMatch(), NonLLMStringSimilarity(), Brevity()]
        config = RunConfig(max_retries=1)
        result = evaluate(EvaluationDataset(samples=samples), metrics=metrics, run_config=config, show_progress=False)
        frame = result.to_pandas()
        frame.to_json(HERE / f"ragas-{name}.jsonl", orient="records", lines=True)
        if name == "v2":
            frame.to_csv(HERE / f"ragas-{name}.csv", index=False)
            frame.to_parquet(HERE / f"ragas-{name}.parquet")


if __name__ == "__main__":
    make()
