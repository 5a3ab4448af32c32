"""Writes bfcl/ARM/{result,score}/... in the layout of `bfcl generate` and `bfcl evaluate`: python make_bfcl.py.

The package pulls in every provider's client and a model of sentences. So the lines are written here as its `save_eval_results`
and `_evaluate_single_ast_entry` write them (bfcl-eval 2026.3.23).
"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
CATEGORY = "simple_python"
WRONG = {"v1": {2, 3, 5}, "v2": {2}}


def write_lines(path: Path, lines: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def make(arm: str) -> None:
    results, failures = [], []
    for number in range(8):
        name, wrong = f"{CATEGORY}_{number}", number in WRONG[arm]
        reply = f"[{'nothing' if wrong else 'add'}(a={number}, b={number})]"
        result = {"id": name, "result": reply, "input_token_count": 50, "output_token_count": 12, "latency": 0.5}
        about = {"id": name, "model_name": arm, "test_category": CATEGORY, "valid": False}
        if arm == "v2" and number == 7:
            result = {"id": name, "result": "Error during inference: connection refused", "traceback": "Traceback ..."}
            failures.append({**about, "error": ["Invalid syntax. Failed to decode AST."], "error_type": "ast_decoder"})
        elif wrong:
            failures.append({**about, "error": ["Function name not found"], "error_type": "simple_function_checker"})
        results.append(result)
    correct = len(results) - len(failures)
    header = {"accuracy": correct / len(results), "correct_count": correct, "total_count": len(results)}
    folder = HERE / "bfcl" / arm
    write_lines(folder / "result" / arm / "non_live" / f"BFCL_v4_{CATEGORY}_result.json", results)
    write_lines(folder / "score" / arm / "non_live" / f"BFCL_v4_{CATEGORY}_score.json", [header, *failures])


for model in WRONG:
    make(model)
