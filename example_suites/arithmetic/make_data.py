"""Writes this suite's questions and two adapters' invented replies. Run once; the files are committed."""

from __future__ import annotations

import json
import random
from pathlib import Path

HERE = Path(__file__).parent
ADAPTERS = {"v1": 0.70, "v2": 0.86}
"""How often each answers right."""


def main() -> None:
    draw = random.Random(7)
    with (HERE / "sums.jsonl").open("w") as questions:
        outputs = {name: (HERE / "answers" / f"{name}.jsonl").open("w") for name in ADAPTERS}
        for number in range(300):
            a, b, luck = draw.randint(10, 99), draw.randint(10, 99), draw.random()
            row = {"id": f"sum-{number:03}", "input": f"What is {a} + {b}?", "expected": str(a + b)}
            questions.write(json.dumps(row) + "\n")
            for name, output in outputs.items():
                right = 0.6 * luck + 0.4 * draw.random() < ADAPTERS[name] * 0.9  # hard questions are hard for both
                text = f"{a} + {b} = {a + b if right else a + b + draw.choice((-10, -1, 1, 10))}"
                output.write(json.dumps({"sample_id": row["id"], "text": text}) + "\n")
        for output in outputs.values():
            output.close()


if __name__ == "__main__":
    main()
