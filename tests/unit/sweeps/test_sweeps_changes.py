"""A sweep is resumed only as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_crucible.records import Sweep, SweepMember
from pytest_crucible.records.serialize import from_plain, to_plain
from pytest_crucible.sweeps.grid import sweep_changes

SWEEP = Sweep(
    family="tuned",
    test="test_a.py::test_a",
    by="citation",
    confirm=0.5,
    drop="proven",
    grid={"hyperparameters.steps": (9, 30, 90), "seed": (1,)},
    members=tuple(SweepMember(name=f"tuned[{k}]", settings={"steps": k}, identity=f"m{k}") for k in (9, 30, 90)),
    choosing=20,
    choosing_sha256="samples",
    confirming=20,
    looks=(2, 5, 10),
)


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        ({"grid": {**SWEEP.grid, "hyperparameters.steps": (9, 30, 120)}}, "steps"),
        ({"grid": {**SWEEP.grid, "lora.rank": (8,)}}, "swept no rank; now it sweeps rank = [8]: restore the grid"),
        ({"grid": {"seed": (1,)}}, "swept steps = [9, 30, 90]; now it sweeps no steps: restore the grid"),
        ({"drop": "half"}, "swept with drop = 'proven'; now it is 'half': restore it"),
        ({"choosing_sha256": "others"}, "chose on other samples than test_a.py::test_a has now: restore the dataset"),
        ({"members": (replace(SWEEP.members[0], identity="x"),)}, "had another model as tuned[9]: restore it"),
    ],
)
def test_each_change_has_a_clause(change, clause):
    clause = "swept steps = [9, 30, 90]; now it is [9, 30, 120]: restore the grid" if clause == "steps" else clause

    assert list(sweep_changes(SWEEP, replace(SWEEP, **change))) == [clause]


def test_a_stored_sweep_is_the_same():
    stored = from_plain(Sweep, to_plain(SWEEP))

    assert list(sweep_changes(stored, SWEEP)) == []
    assert stored.sha256 == SWEEP.sha256 != replace(SWEEP, drop="half").sha256
