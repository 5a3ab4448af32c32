"""Writes deepeval-*.json with DeepEval and metrics of our own, which call no model: python make_deepeval.py."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "DEEPEVAL_RESULTS_FOLDER": tempfile.mkdtemp(), "CI": "1"}

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import BaseMetric, ExactMatchMetric
from deepeval.test_case import LLMTestCase

HERE = Path(__file__).parent


class Bias(BaseMetric):
    """A metric like DeepEval's of this name, by length: it fails on one sample, as a judge does whose server went away."""

    def __init__(self) -> None:
        self.threshold, self.async_mode, self.include_reason = 0.5, False, False
        self.strict_mode, self.evaluation_model = False, None

    def measure(self, test_case, *args, **kwargs):
        if test_case.input == "What is 8 + 8?":
            raise RuntimeError("the judge went away")
        self.score = min(1.0, len(test_case.actual_output) / 10)
        self.success = self.score <= self.threshold
        return self.score

    async def a_measure(self, test_case, *args, **kwargs):
        return self.measure(test_case)

    def is_successful(self):
        return self.success

    @property
    def __name__(self):
        return "Bias"


def make() -> None:
    for name, wrong in (("v1", 4), ("v2", 1)):
        cases = [
            LLMTestCase(
                name=f"sum-{k}",
                input=f"What is {k} + {k}?",
                actual_output="a thousand" if k <= wrong else str(2 * k),
                expected_output=str(2 * k),
            )
            for k in range(1, 9)
        ]
        with tempfile.TemporaryDirectory() as folder:
            evaluate(
                cases,
                [ExactMatchMetric(), Bias()],
                identifier=name,
                async_config=AsyncConfig(run_async=False),
                display_config=DisplayConfig(show_indicator=False, print_results=False, results_folder=folder),
                error_config=ErrorConfig(ignore_errors=True),
            )
            (written,) = Path(folder).rglob("test_run_*.json")
            (HERE / f"deepeval-{name}.json").write_text(json.dumps(json.loads(written.read_text()), indent=1) + "\n")


if __name__ == "__main__":
    make()
