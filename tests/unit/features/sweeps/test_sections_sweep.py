"""The sentences of a sweep: one interval for a number, and members that may be the best."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_crucible.analyse.many_arms import ArmResult, ManyArms
from pytest_crucible.analyse.members import CorrectedMean
from pytest_crucible.features.sweeps import section
from pytest_crucible.features.sweeps.records import Sweep, SweepLook, SweepMember
from pytest_crucible.features.sweeps.section import SweepResult
from pytest_crucible.features.sweeps.sweep_members import SettingMeans, SweepMembers
from pytest_crucible.stats.interval import Interval

NAMES = ("a", "b", "c")
SPAN = Interval(low=0.5, high=0.75, level=0.95, method="wilson")
FAIR = Interval(low=0.125, high=0.25, level=0.95, method="hybrid")
SWEEP = Sweep(
    family="tuned", test="t.py::t", by="ok", confirm=0.0, drop="proven", grid={}, choosing=80, choosing_sha256="",
    confirming=0, looks=(10, 20, 40), members=tuple(SweepMember(name=name, settings={}, identity=name) for name in NAMES),
)  # fmt: skip


def make_result(*, ranks=((1, 2), (1, 2), (3, 3)), dropped=(), corrected=0.625, **changes) -> SweepResult:
    arms = tuple(
        ArmResult(arm=name, value=0.625, interval=SPAN, n=80, lost=0, rank=1, ranks=possible, difference=0.0)
        for name, possible in zip(NAMES, ranks, strict=True)
    )
    table = ManyArms(metric="ok", direction="higher", arms=arms, level=0.95, n=80, incomplete=0, best="a")
    names = tuple(name for name in NAMES if name not in dropped)
    return SweepResult(
        sweep=replace(SWEEP, **changes),
        winner="a",
        looks=(SweepLook(samples=40, remaining=names),),
        compared=SweepMembers(members=table, settings=SettingMeans(metric="ok", reason="one setting")),
        corrected=CorrectedMean(arm=0, value=corrected, interval=FAIR, naive=0.625),
        dropped_after=dict.fromkeys(dropped, 40),
    )


def sentences(result):
    return [note.text for note in section.view(result, ()).notes]


@pytest.mark.parametrize("same", [0.625, 0.62504])
def test_a_corrected_estimate_that_is_the_same_number_is_not_shown(same):
    won, _, _ = sentences(make_result(corrected=same))

    assert (
        won
        == "a has won the sweep of tuned by ok on 80 samples, which give the verdicts, too; claims hold for all 3 members"
    )


def test_a_corrected_estimate_of_another_number_has_its_interval():
    won, _, _ = sentences(make_result(corrected=0.5))

    assert won.endswith("; corrected for that, its ok is 0.500 [0.125, 0.250], not 0.625")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "ok: not proven worse than the best of 3 members: a, b"),
        ({"ranks": ((1, 2), None, (3, 3)), "dropped": ("b",)}, "ok: not proven worse than the best of 3 members: a"),
        (
            {"ranks": ((1, 3), (1, 3), (1, 3)), "dropped": ("b",), "drop": "half"},
            "ok: none of the 2 members that were kept is proven worse than the best; "
            '1 dropped member may be better: drop = "half" tests nothing',
        ),
        (
            {"ranks": ((1, 3), (1, 3), (1, 3)), "dropped": ("b", "c"), "drop": "half"},
            'ok: 2 dropped members may be better: drop = "half" tests nothing',
        ),
    ],
)
def test_a_dropped_member_is_never_among_those_that_may_be_the_best(changes, sentence):
    result = make_result(**changes)

    assert sentences(result)[1] == sentence
    named = section.view(result, ()).document["not_proven_worse"]
    assert not set(named) & set(changes.get("dropped", ()))
