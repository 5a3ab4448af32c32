"""DeepEval's evaluate with a metric that asks the server; its display is off, which otherwise is most of the time."""

from __future__ import annotations

from asking import CONCURRENCY, SAMPLES, ask, session
from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase

_open: list = []


class Exact(BaseMetric):
    threshold = 1.0
    async_mode = True

    def measure(self, test_case, *args, **kwargs):
        raise NotImplementedError

    async def a_measure(self, test_case, *args, **kwargs):
        if not _open:
            _open.append(session())
        self.score = float(await ask(_open[0], test_case.input) == test_case.expected_output)
        self.success = self.score >= self.threshold
        self.reason = ""
        return self.score

    def is_successful(self):
        return self.success

    @property
    def __name__(self):
        return "exact"


cases = [
    LLMTestCase(input=f"question {number}", actual_output="", expected_output=f"question {number}")
    for number in range(SAMPLES)
]
result = evaluate(
    cases,
    [Exact()],
    async_config=AsyncConfig(max_concurrent=CONCURRENCY, throttle_value=0),
    display_config=DisplayConfig(show_indicator=False, print_results=False),
    cache_config=CacheConfig(write_cache=False),
)
assert all(one.success for one in result.test_results)
