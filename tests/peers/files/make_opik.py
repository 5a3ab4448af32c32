"""Writes opik-*.json with Opik, which sends nothing: python make_opik.py.

`opik-results-*` are results of `evaluate_on_dict_items`. `opik-v*.json` have the shape of `opik export`, whose server is not
here: their items are made with the classes and the function that the export uses.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from pathlib import Path

os.environ |= {
    "OPIK_URL_OVERRIDE": "http://127.0.0.1:9/api",
    "OPIK_TRACK_DISABLE": "true",
    "OPIK_SENTRY_ENABLE": "false",
}

from opik.api_objects.experiment.experiment_item import ExperimentItemContent
from opik.cli.exports.utils import create_experiment_data_structure
from opik.evaluation import evaluate_on_dict_items
from opik.evaluation.metrics import base_metric, score_result

HERE = Path(__file__).resolve().parent
WRONG = {"v1": 4, "v2": 1}


class Right(base_metric.BaseMetric):
    def score(self, output: str, expected: str, **ignored: object) -> score_result.ScoreResult:
        return score_result.ScoreResult(name="right", value=float(output == expected), reason="compared")


class Brief(base_metric.BaseMetric):
    """Fails on one item, as a judge does whose server went away."""

    def score(self, output: str, **ignored: object) -> score_result.ScoreResult:
        failed = output == "16"
        value = 0.0 if failed else max(0.0, 1 - len(output) / 10)
        return score_result.ScoreResult(
            name="brief", value=value, reason="the judge went away" if failed else None, scoring_failed=failed
        )


class Experiment:
    id, dataset_name = "0000", "sums"

    def __init__(self, name: str) -> None:
        self.name = name

    def get_experiment_data(self) -> object:
        return None


def make(arm: str) -> None:
    def ask(item: dict) -> dict:
        k = int(re.findall(r"\d+", item["question"])[0])
        return {"output": "a thousand" if k <= WRONG[arm] else str(2 * k)}

    items = [{"question": f"What is {k} + {k}?", "expected": str(2 * k)} for k in range(1, 9)]
    result = evaluate_on_dict_items(items, ask, [Right(track=False), Brief(track=False)])
    plain = dataclasses.asdict(result)
    plain["test_results"].sort(key=lambda entry: entry["test_case"]["dataset_item_id"])
    for entry in plain["test_results"]:
        entry["test_case"] |= {"trace_id": "", "dataset_item": None}
    text = json.dumps(plain, indent=1, default=str)
    (HERE / f"opik-results-{arm}.json").write_text(text + "\n", encoding="utf-8")
    contents = [
        ExperimentItemContent(
            id=str(number),
            dataset_item_id=entry.test_case.dataset_item_id,
            trace_id="",
            dataset_item_data=entry.test_case.dataset_item_content,
            evaluation_task_output=entry.test_case.task_output,
            feedback_scores=[
                {"name": score.name, "value": score.value, "reason": score.reason}
                for score in entry.score_results
                if not score.scoring_failed
            ],
        )
        for number, entry in enumerate(result.test_results)
    ]
    contents.sort(key=lambda content: content.dataset_item_id)
    document = create_experiment_data_structure(Experiment(arm), contents)
    document["downloaded_at"] = ""
    (HERE / f"opik-{arm}.json").write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")


for name in WRONG:
    make(name)
