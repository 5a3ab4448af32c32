"""Ranks of the members of a sweep that drops some of them at its looks, where the true means are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from answer_builders import analysis_inputs, arm
from run_sizes import choose_runs
from simulation import at_least
from sweep_evals import SweepEval, equal, spread

from pytest_crucible.analyse.many_arms import ManyArms
from pytest_crucible.features.sweeps.records import ChoosingHalf, Sweep, SweepLook, SweepMember
from pytest_crucible.features.sweeps.rounds import members_that_go_on
from pytest_crucible.features.sweeps.sweep_members import compare_members
from pytest_crucible.records import Arm
from pytest_crucible.records.plan import HelperReplies

pytestmark = pytest.mark.slow

RUNS = choose_runs(200)
SWEPT = {
    "3 tied": (SweepEval(200, equal(3)), "proven"),
    "3 of which one is hardly better": (SweepEval(400, (0.62, 0.6, 0.6)), "proven"),
    "8 tied, passages": (SweepEval(400, equal(8), clustered=True), "proven"),
    "8 tied, the better half": (SweepEval(200, equal(8)), "half"),
    "8 apart": (SweepEval(200, spread(8, 0.3, 0.9)), "proven"),
    "4 tied, 4 worse": (SweepEval(200, (0.7,) * 4 + (0.5,) * 4), "proven"),
}


@pytest.mark.parametrize("name", SWEPT)
def test_all_true_ranks_and_differences_are_inside_and_the_best_is_named(name):
    case, drop = SWEPT[name]
    truths = 1 + (case.truths[None, :] > case.truths[:, None]).sum(axis=1)
    ranks = differences = named = 0
    first_best = f"m{int(np.argmax(case.truths))}"
    for values in case.draw(RUNS, seed=3):
        table = compare_sweep(case, values, drop)
        best = [arm.arm for arm in table.arms].index(table.best)
        distances = case.truths - case.truths[best]
        ranks += all(
            arm.ranks is None or arm.ranks[0] <= true <= arm.ranks[1]
            for arm, true in zip(table.arms, truths, strict=True)
        )
        named += first_best in table.not_proven_worse
        differences += all(
            arm.difference_interval is None
            or arm.difference_interval.low - 1e-9 <= true <= arm.difference_interval.high + 1e-9
            for arm, true in zip(table.arms, distances, strict=True)
        )

    # Any one of equal members: subset selection promises to keep a best one, not all of them.
    assert at_least(named, RUNS, 0.95)
    assert at_least(ranks, RUNS, 0.95)
    assert at_least(differences, RUNS, 0.95)


def compare_sweep(case: SweepEval, values: np.ndarray, drop: str) -> ManyArms:
    """Return the members of a sweep with looks after 1/8, 1/4 and 1/2 of the samples."""
    names = [f"m{k}" for k in range(len(case.means))]
    live, looks = list(range(len(names))), []
    for samples in (case.n // 8, case.n // 4, case.n // 2):
        clusters = None if case.clusters is None else case.clusters[:samples]
        if len(live) > 1:
            live = [live[k] for k in members_that_go_on(values[:samples][:, live], clusters, drop=drop, looks=3)]
            looks.append(SweepLook(samples=samples, remaining=tuple(names[k] for k in live)))
    winner = live[int(np.argmax(values[:, live].mean(axis=0)))]
    groups = None if case.clusters is None else [f"g{label}" for label in case.clusters]
    inputs = analysis_inputs(arm(ok=values[:, 0].astype(bool).tolist()), groups=groups)
    replies = HelperReplies(
        plan=replace(inputs.plan, arms=tuple(Arm(name=name, role="baseline", adapter=name, identity=name) for name in names)),
        answers=tuple(arm(ok=column) for column in values.astype(bool).T.tolist()),
        groups=inputs.groups, sample_ids=[], known_kinds={},
    )  # fmt: skip
    sweep = Sweep(
        family="tuned", test="t.py::t", by="ok", confirm=0.5, drop=drop, grid={}, choosing=case.n, choosing_sha256="",
        confirming=case.n, looks=(case.n // 8, case.n // 4, case.n // 2),
        members=tuple(SweepMember(name=name, settings={"name": name}, identity=name) for name in names),
    )  # fmt: skip
    half = ChoosingHalf(sweep=sweep, replies=replies, looks=tuple(looks), winner=names[winner])
    return compare_members(half, range(case.n), sweep, alpha=0.05).members
