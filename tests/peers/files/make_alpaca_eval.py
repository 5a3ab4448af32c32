"""Writes alpaca-eval-*.json with AlpacaEval, whose judge is a function here: python make_alpaca_eval.py."""

from __future__ import annotations

import tempfile
from pathlib import Path

from alpaca_eval import evaluate
from alpaca_eval.annotators import PairwiseAnnotator

HERE = Path(__file__).resolve().parent
WINS = {"v1": {1, 2, 3}, "v2": {1, 2, 3, 4, 5, 6}}


class Judge(PairwiseAnnotator):
    """Prefers the longer reply, has no opinion on one pair, and cannot be read on another one."""

    def __init__(self, annotators_config: object, **options: object) -> None:
        self.primary_keys_ = options

    def __call__(self, to_annotate, **options: object) -> list[dict]:
        rows = to_annotate.to_dict("records")
        for row in rows:
            longer = len(row["output_2"]) - len(row["output_1"])
            lost = row["generator_2"] == "v2" and row["instruction"] == "What is 8 + 8?"
            row["annotator"] = "length"
            row["preference"] = None if lost else 1.5 if longer == 0 else 2.0 if longer > 0 else 1.0
        return rows

    @property
    def input_keys(self) -> tuple[str, ...]:
        return ("instruction",)


def outputs(arm: str) -> list[dict]:
    rows = []
    for k in range(1, 9):
        text = f"{2 * k}" if arm == "reference" or k == 7 else f"It is {2 * k}." if k in WINS[arm] else ""
        rows.append({"instruction": f"What is {k} + {k}?", "output": text, "generator": arm, "dataset": "sums"})
    return rows


for name in WINS:
    with tempfile.TemporaryDirectory() as folder:
        evaluate(
            model_outputs=outputs(name),
            reference_outputs=outputs("reference"),
            annotators_config="judge",
            Annotator=Judge,
            name=name,
            output_path=folder,
            precomputed_leaderboard=None,
            fn_metric="get_winrate",
            sort_by="win_rate",
        )
        (written,) = Path(folder).rglob("annotations.json")
        (HERE / f"alpaca-eval-{name}.json").write_text(written.read_text(encoding="utf-8") + "\n", encoding="utf-8")
