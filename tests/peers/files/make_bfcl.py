"""Writes bfcl/ with the evaluation of BFCL, of replies that are written here: python make_bfcl.py.

The checker is the tool's own; the replies are those of a model that calls the right function, or another one.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODEL = "gpt-4o-mini-2024-07-18"
WRONG = {"v1": {2, 3, 5}, "v2": {2}}


def reply(entry: dict, answer: dict, *, wrong: bool) -> str:
    """The call that the tool's possible answers accept, or one of a function that does not exist."""
    ((name, arguments),) = answer["ground_truth"][0].items()
    called = {argument: values[0] for argument, values in arguments.items() if values[0] != ""}
    text = ", ".join(f"{argument}={value!r}" for argument, value in called.items())
    return f"[{'nothing' if wrong else name}({text})]"


def make(arm: str, work: Path) -> None:
    from bfcl_eval.eval_checker.eval_runner import runner
    from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry

    entries = load_dataset_entry("simple_python", include_prereq=False)[:6]
    answers = load_ground_truth_entry("simple_python")[:6]
    folder = work / arm / "result" / MODEL / "non_live"
    folder.mkdir(parents=True)
    with (folder / "BFCL_v4_simple_python_result.json").open("w", encoding="utf-8") as file:
        for number, (entry, answer) in enumerate(zip(entries, answers, strict=True), start=1):
            line = {"id": entry["id"], "result": reply(entry, answer, wrong=number in WRONG[arm]), "latency": 0.5}
            line |= {"input_token_count": 50, "output_token_count": 12}
            if arm == "v2" and number == 6:
                line |= {"result": "Error during inference: connection refused", "traceback": "ConnectionError"}
            file.write(json.dumps(line) + "\n")
    runner([MODEL], ["simple_python"], work / arm / "result", work / arm / "score", allow_missing=True)
    for part in ("result", "score"):
        for path in (work / arm / part).rglob("*.json"):
            target = HERE / "bfcl" / arm / path.relative_to(work / arm)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


with tempfile.TemporaryDirectory() as folder:
    os.environ["BFCL_PROJECT_ROOT"] = folder
    for name in WRONG:
        make(name, Path(folder))
