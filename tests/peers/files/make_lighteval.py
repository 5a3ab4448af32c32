"""Writes lighteval-*/ as lighteval's tracker does: python make_lighteval.py.

A run needs torch and a model. The records are lighteval's own classes `Doc` and `ModelResponse`, whose modules are loaded here
alone, in the layout of `EvaluationTracker.save`.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
import types
from pathlib import Path

import pyarrow
import pyarrow.parquet

HERE = Path(__file__).resolve().parent
DATE = "2026-11-29T10-00-00.000000"
WRONG = {"v1": 4, "v2": 1}


class Anything(types.ModuleType):
    """A module that has every name."""

    __path__: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> object:
        return type(name, (), {})


def load_module(name: str):
    """Return a module of lighteval. What it imports from torch and others, its records do not use."""
    for stub in ("torch", "pytablewriter", "datasets"):
        sys.modules.setdefault(stub, Anything(stub))
    (root,) = importlib.util.find_spec("lighteval").submodule_search_locations
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), Path(root) / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def make(arm: str) -> None:
    doc, response = load_module("tasks/requests").Doc, load_module("models/model_output").ModelResponse
    details = []
    for k in range(1, 9):
        right, text = str(2 * k), "a thousand" if k <= WRONG[arm] else str(2 * k)
        question = doc(query=f"What is {k} + {k}?", choices=[right], gold_index=0, id=str(k), task_name="sums|0")
        answer = response(text=[text], output_tokens=[[1, 2]], input_tokens=[1, 2, 3])
        plain = {name: value for name, value in dataclasses.asdict(question).items() if name != "images"}
        plain["sampling_methods"] = []
        metric = {"em": float(text == right), "edit_distance": float(abs(len(text) - len(right)))}
        details.append({"doc": plain, "metric": metric, "model_response": dataclasses.asdict(answer)})
    folder = HERE / "lighteval" / "details" / "sums" / arm / DATE
    folder.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(details), folder / f"details_sums_{DATE}.parquet")
    metrics = [
        {"metric_name": "em", "higher_is_better": True, "category": "GENERATIVE"},
        {"metric_name": "edit_distance", "higher_is_better": False, "category": "GENERATIVE"},
    ]
    results = {
        "config_general": {"lighteval_sha": "?", "model_name": f"sums/{arm}"},
        "results": {},
        "config_tasks": {"sums|0": {"name": "sums", "metrics": metrics}},
    }
    path = HERE / "lighteval" / "results" / "sums" / arm / f"results_{DATE}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


for name in WRONG:
    make(name)
