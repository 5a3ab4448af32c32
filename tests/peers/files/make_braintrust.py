"""Writes braintrust-*.json with Braintrust, which sends nothing, and a task that calls no model: python make_braintrust.py."""

from __future__ import annotations

import json
import re
from pathlib import Path

from braintrust import Eval

HERE = Path(__file__).parent
WRONG = {"v1": 4, "v2": 1}


def exact_match(input, output, expected):
    return float(output == expected)


def brevity(input, output, expected):
    """Fails on one sample, as a judge does whose server went away."""
    if input == "What is 8 + 8?":
        raise RuntimeError("the judge went away")
    return 1 - min(1.0, len(output) / 10)


def even(input, output, expected):
    """Applies only to short replies."""
    return None if len(output) > 2 else float(int(output) % 2 == 0)


def ask(arm: str):
    def task(input: str) -> str:
        k = int(re.findall(r"\d+", input)[0])
        if arm == "v2" and k == 7:
            raise RuntimeError("the model server went away")
        return "a thousand" if k <= WRONG[arm] else str(2 * k)

    return task


def data() -> list[dict]:
    return [
        {"input": f"What is {k} + {k}?", "expected": str(2 * k), "metadata": {"topic": "odd" if k % 2 else "even"}}
        for k in range(1, 9)
    ]


def make() -> None:
    for arm in WRONG:
        result = Eval(
            "sums",
            experiment_name=arm,
            data=data,
            task=ask(arm),
            scores=[exact_match, brevity, even],
            trial_count=2,
            no_send_logs=True,
        )
        # Errors are exceptions, which JSON does not know.
        document = json.loads(result.as_json(default=str))
        for row in document["results"]:
            # The traceback has paths of this machine.
            row["exc_info"] = row["exc_info"] and row["exc_info"].strip().rpartition("\n")[2]
            errors = row["metadata"].get("scorer_errors", {})
            errors.update({name: error.strip().rpartition("\n")[2] for name, error in errors.items()})
        (HERE / f"braintrust-{arm}.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    make()
