"""Writes evalplus-*_eval_results.json with EvalPlus, problems of our own and no model: python make_evalplus.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
WRONG = {"v1": 4, "v2": 1}


def problem(k: int) -> dict:
    name = f"add_{k}"
    prompt = f'def {name}(x):\n    """Return x plus {k}."""\n'
    return {
        "task_id": f"HumanEval/{k}",
        "prompt": prompt,
        "entry_point": name,
        "canonical_solution": f"    return x + {k}\n",
        "contract": "",
        "test": "",
        "base_input": [[1], [2]],
        "plus_input": [[-k], [10**6]],
        "atol": 0,
    }


def body(k: int, wrong: int) -> str:
    """Return a completion: one that is wrong, one that the further tests alone find wrong, one that never ends, or a right one."""
    if k <= wrong:
        return "    return 0\n"
    if k == 6:
        return f"    return abs(x) + {k}\n"
    return "    while True: pass\n" if k == 7 and wrong == 1 else f"    return x + {k}\n"


def make() -> None:
    folder = Path(tempfile.mkdtemp())
    problems = [problem(k) for k in range(1, 9)]
    (folder / "problems.jsonl").write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    settings = {**os.environ, "HUMANEVAL_OVERRIDE_PATH": str(folder / "problems.jsonl"), "HOME": str(folder)}
    program = [sys.executable, "-m", "evalplus.evaluate", "--dataset", "humaneval", "--parallel", "1", "--samples"]
    for name, wrong in WRONG.items():
        samples = [{"task_id": f"HumanEval/{k}", "completion": body(k, wrong)} for k in range(1, 9) for _ in range(2)]
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
        subprocess.run([*program, str(path)], check=True, env=settings)
        written = path.with_name(f"{name}_eval_results.json").read_text()
        (HERE / f"evalplus-{name}_eval_results.json").write_text(json.dumps(json.loads(written), indent=1) + "\n")


if __name__ == "__main__":
    make()
