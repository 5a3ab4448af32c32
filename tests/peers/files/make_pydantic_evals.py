"""Writes pydantic-evals-*.json with pydantic-evals and a task that calls no model: python make_pydantic_evals.py."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pydantic_evals import Case, Dataset, increment_eval_metric
from pydantic_evals.evaluators import EqualsExpected, Evaluator, MaxDuration
from pydantic_evals.reporting import EvaluationReportAdapter

HERE = Path(__file__).parent
WRONG = {"v1": 4, "v2": 1}


@dataclass
class Brevity(Evaluator):
    """Scores the length of a reply: it fails on one sample, as a judge does whose server went away."""

    limit: int = 10

    def evaluate(self, ctx):
        if ctx.inputs == "What is 8 + 8?":
            raise RuntimeError("the judge went away")
        return {
            "brevity": 1 - min(1.0, len(ctx.output) / self.limit),
            "shape": "word" if " " in ctx.output else "digits",
        }


def ask(arm: str):
    def sums(question: str) -> str:
        k = int(re.findall(r"\d+", question)[0])
        if arm == "v2" and k == 7:
            raise RuntimeError("the model server went away")
        increment_eval_metric("output_tokens", 2)
        if k == 1:
            increment_eval_metric("retries", 1)
        return "a thousand" if k <= WRONG[arm] else str(2 * k)

    return sums


def make() -> None:
    cases = [
        Case(name=f"sum-{k}", inputs=f"What is {k} + {k}?", expected_output=str(2 * k), metadata={"topic": "sums"})
        for k in range(1, 9)
    ]
    dataset = Dataset(name="sums", cases=cases, evaluators=[EqualsExpected(), Brevity(), MaxDuration(60.0)])
    for arm in WRONG:
        report = dataset.evaluate_sync(ask(arm), name=arm, progress=False, repeat=2)
        text = EvaluationReportAdapter.dump_json(report, indent=1).decode()
        text = re.sub(r'("error_stacktrace": )"(?:[^"\\]|\\.)*"', r'\1""', text)
        (HERE / f"pydantic-evals-{arm}.json").write_text(text + "\n")


if __name__ == "__main__":
    make()
