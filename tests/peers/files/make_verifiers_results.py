"""Writes verifiers-results/ARM/ in the shape of `vf-eval --save-results` of verifiers 0.1.9: python make_verifiers_results.py.

That version cannot be installed beside current packages: the fields are those of its `make_dataset`.
"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
WRONG = {"v1": 4, "v2": 1}


def make(arm: str) -> None:
    lines = []
    for k in range(1, 9):
        for rollout in range(2):
            failed, wrong = arm == "v2" and k == 7 and rollout == 1, k <= WRONG[arm]
            text = "" if failed else "a thousand" if wrong else str(2 * k)
            right = float(text == str(2 * k))
            lines.append(
                {
                    "example_id": k,
                    "prompt": [{"role": "user", "content": f"What is {k} + {k}?"}],
                    "completion": [{"role": "assistant", "content": text}],
                    "task": "sums",
                    "reward": right + 0.5 * (len(text) < 5),
                    "error": "ModelError('connection refused')" if failed else None,
                    "generation_ms": 12.0,
                    "scoring_ms": 1.0,
                    "total_ms": 13.0,
                    "answer": str(2 * k),
                    "right": right,
                    "short": float(len(text) < 5),
                }
            )
    folder = HERE / "verifiers-results" / arm
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    about = {"env_id": "sums", "model": arm, "num_examples": 8, "rollouts_per_example": 2}
    (folder / "metadata.json").write_text(json.dumps(about) + "\n", encoding="utf-8")


for name in WRONG:
    make(name)
