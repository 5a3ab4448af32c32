"""How often statements about three arms or more are right: rows of the page of error rates."""

from __future__ import annotations

from benchmarks.shares import Share
from tests.truth.sweep_evals import RANKED, count_right

RANK_HEADS = ("arms", "samples", "all ranks inside", "the best not excluded", "all differences from the best inside")


def rank_rows(runs: int, seed: int) -> list[list[str]]:
    """Return a row for each evaluation; a share below .93 is bold."""
    rows = []
    for name, known in RANKED.items():
        # 32 arms take ten times as long.
        count = runs if len(known.means) < 32 else runs // 2
        right = count_right(known, count, seed)
        rows.append([name, f"{known.n:,}", *(str(Share(one, count, least=0.93)) for one in right)])
    return rows
