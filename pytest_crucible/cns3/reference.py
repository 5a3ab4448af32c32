"""Frozen reference statistics of embeddings, by the scorer that they belong to.

`variances.json` holds those of MiniLM over the 809 claims of SciFact's training split, in float32; `python -m benchmarks.variances`
makes it. A bfloat16 model is compared with the same: its variances differ from them by less than its own rounding does.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib import resources

import numpy as np

FILE = "variances.json"
_FROZEN: dict[str, np.ndarray] = {}


def variances_of(scorer: str) -> np.ndarray | None:
    """The variance of each dimension for the scorer of that identity; None where nothing is frozen for it."""
    known = {**_shipped(), **_FROZEN}
    return next((known[name] for name in known if scorer == name or scorer.startswith(f"{name}:")), None)


def digest_of(scorer: str) -> str:
    """What the frozen variances are recognised by: distances from others are another metric's."""
    variances = variances_of(scorer)
    if variances is None:
        return "nothing frozen"
    return hashlib.sha256(np.asarray(variances, dtype="<f8").tobytes()).hexdigest()[:12]


@cache
def _shipped() -> dict[str, np.ndarray]:
    text = resources.files("pytest_crucible.cns3").joinpath(FILE).read_text(encoding="utf-8")
    return {name: np.array(values) for name, values in json.loads(text).items()}
