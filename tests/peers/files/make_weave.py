"""Writes weave-*.jsonl with Weave's `Evaluation`, as its calls are exported: python make_weave.py.

Calls are stored by a server that is not here: `predict_and_score` runs without one, and each of its results stands in a call with
the fields of `CallDict`.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import weave
from weave.trace.call import CallDict

HERE = Path(__file__).resolve().parent
WRONG = {"v1": 4, "v2": 1}
EXAMPLES = [{"id": f"sum-{k}", "question": f"What is {k} + {k}?", "expected": str(2 * k)} for k in range(1, 9)]


@weave.op
def match(expected: str, output: str) -> dict:
    return {"right": expected == output, "length": len(output)}


def model_of(arm: str):
    @weave.op
    def ask(question: str) -> str:
        k = int(re.findall(r"\d+", question)[0])
        if arm == "v2" and k == 7:
            raise RuntimeError("the model server went away")
        return "a thousand" if k <= WRONG[arm] else str(2 * k)

    return ask


async def make(arm: str) -> None:
    evaluation = weave.Evaluation(dataset=EXAMPLES, scorers=[match])
    lines = []
    for number, example in enumerate(EXAMPLES):
        output = await evaluation.predict_and_score(model_of(arm), example)
        call = dict.fromkeys(CallDict.__annotations__)
        call |= {
            "id": f"{arm}-{number}",
            "op_name": "weave:///team/sums/op/Evaluation.predict_and_score:1",
            "inputs": {"self": "weave:///team/sums/object/Evaluation:1", "model": arm, "example": example},
            "output": {**output, "model_latency": 0.25},
        }
        lines.append(json.dumps(call, default=str))
    (HERE / f"weave-{arm}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


for name in WRONG:
    asyncio.run(make(name))
