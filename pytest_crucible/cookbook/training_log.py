"""Reads `metrics.jsonl`, in which tinker-cookbook's trainings write their numbers after each batch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.suggestions import suggest

FILE = "metrics.jsonl"
# What supervised training, preferences, RL and its short loop minimise or maximise, in this order.
USUAL = ("train_mean_nll", "dpo_loss", "env/all/reward/total", "reward/total", "loss")


def read_training_log(folder: Path, key: str = "") -> tuple[str, Mapping[int, float]]:
    """Return the name of a training's number, and its values by batch, counted from 0; both empty without one.

    Without a key it is the loss, or the reward of RL. A last line that is half written is left out. Raises SpecError for a key
    that no line has, and for a line that is not JSON.
    """
    rows = _read_rows(folder / FILE)
    names = sorted({name for row in rows for name, value in row.items() if _is_number(value) and name != "step"})
    if key and key not in names:
        hint = suggest(key, names, otherwise="leave --training out") if names else "the training has written no numbers"
        raise SpecError(f"--training {key}: {folder / FILE} has no such number: {hint}")
    chosen = key or next((name for name in USUAL if name in names), "")
    return chosen, {row["step"]: float(row[chosen]) for row in rows if _is_number(row.get(chosen)) and "step" in row}


def mean_since(values: Mapping[int, float], start: int, end: int) -> float | None:
    """Return the mean over the batches from `start` to before `end`; None if none has a value.

    >>> mean_since({0: 4.0, 1: 2.0, 2: 1.0}, 0, 2)
    3.0
    """
    inside = [value for batch, value in values.items() if start <= batch < end]
    return math.fsum(inside) / len(inside) if inside else None


def _read_rows(path: Path) -> Sequence[Mapping[str, Any]]:
    if not path.is_file():
        return []
    rows = []
    for number, line in enumerate(
        path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True), start=1
    ):
        try:
            row = json.loads(line)
        except ValueError:
            if not line.endswith("\n"):
                break
            raise SpecError(f"{path}, line {number} is not JSON: correct or remove it") from None
        rows += [row] if isinstance(row, dict) else []
    return rows


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
