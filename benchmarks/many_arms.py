"""How often statements about three arms or more, and about settings, are right: rows of the page of error rates."""

from __future__ import annotations

from benchmarks.shares import Share
from tests.truth.setting_evals import SETTINGS, count_covered
from tests.truth.sweep_evals import CHOSEN, RANKED, count_false, count_right

RANK_HEADS = ("arms", "samples", "all ranks inside", "the best not excluded", "all differences from the best inside")

CHOSEN_HEADS = ("members", "samples", "a difference is claimed", "a bound is above the truth")
SETTING_HEADS = ("grid", "means covered", "differences covered")


def rank_rows(runs: int, seed: int) -> list[list[str]]:
    """Return a row for each evaluation; a share below .93 is bold."""
    rows = []
    for name, known in RANKED.items():
        # 32 arms take ten times as long.
        count = runs if len(known.means) < 32 else runs // 2
        right = count_right(known, count, seed)
        rows.append([name, f"{known.n:,}", *(str(Share(one, count, least=0.93)) for one in right)])
    return rows


def chosen_rows(runs: int, seed: int) -> list[list[str]]:
    """Return a row for each evaluation of a winner that the same samples chose; a share above .06 is bold."""
    return [
        [name, f"{known.n:,}", *(str(Share(one, runs, most=0.06)) for one in count_false(known, runs, seed))]
        for name, known in CHOSEN.items()
    ]


def setting_rows(runs: int, seed: int) -> list[list[str]]:
    """Return a row for each grid: the shares of intervals that contain the truth; one below .94 is bold."""
    rows = []
    for name, known in SETTINGS.items():
        covered = count_covered(known, runs, seed)
        means = Share(covered.means, covered.of_means, least=0.94)
        differences = Share(covered.differences, covered.of_differences, least=0.94)
        rows.append([name, str(means), str(differences)])
    return rows
