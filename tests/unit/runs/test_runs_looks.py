"""A rule of looks sees the samples in look order, whichever answers came first, and arms that are out get no more units."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from answer_builders import analysis_inputs, arm

from pytest_crucible.records import ArmOutcomes, Observation, Outcome, Sample, Unit
from pytest_crucible.runs.looks import Looks

N = 12
SAMPLES = [Sample(id=f"s{k}", input=k) for k in range(N)]


class DropWorst:
    """Looks after 3 and 6 samples, and lets all but the worst arm go on."""

    def __init__(self):
        self.seen = []

    def next_look(self, looked, complete):
        return next((length for length in (3, 6) if looked < length <= complete), None)

    def arms_that_go_on(self, inputs, looked_at, live):
        values = {
            number: sum(
                inputs.answers[number].scores["a"].values[inputs.answers[number].positions.index(position)]
                for position in looked_at
            )
            for number in live
        }
        self.seen.append((list(looked_at), values))
        return live - {min(values, key=values.get)}


def looks_of(rule, arms=3):
    plan = analysis_inputs(*(arm(a=[True] * N) for _ in range(arms))).plan
    return Looks(rule, replace(plan, planned=N, selected=N), SAMPLES, [nothing()] * arms, {})


def nothing():
    return ArmOutcomes(positions=[], repeats=[], failures=[], skipped=[], scores={}, lost=[])


def answer(looks, unit):
    # Arm 2 is the best, arm 0 the worst.
    looks.add(Outcome(unit), [Observation(unit, "a", float(unit.arm * 100 + unit.position))], [])


@pytest.mark.parametrize("seed", range(5))
def test_looks_do_not_depend_on_the_order_of_arrival(seed):
    rule = DropWorst()
    looks = looks_of(rule)
    units = [Unit(position, 0, number, 0) for position in range(N) for number in range(3)]
    random.Random(seed).shuffle(units)
    for unit in units:
        answer(looks, unit)

    first, second = rule.seen
    assert (first[0], set(first[1])) == (looks.order[:3], {0, 1, 2})
    assert (second[0], set(second[1])) == (looks.order[:6], {1, 2})
    assert looks.live == {2}


def test_an_arm_that_is_out_gets_no_more_units_and_delays_no_look():
    rule = DropWorst()
    looks = looks_of(rule)
    units = looks.of_live_arms(Unit(position, 0, number, 0) for position in looks.order for number in range(3))
    sent = []
    for unit in units:
        sent.append(unit.arm)
        answer(looks, unit)

    assert [sent.count(number) for number in range(3)] == [3, 6, N]


def test_a_rule_that_keeps_no_arm_ends_the_experiment():
    rule = DropWorst()
    rule.arms_that_go_on = lambda inputs, looked_at, live: frozenset()
    looks = looks_of(rule)
    sent = []
    for unit in looks.of_live_arms(Unit(position, 0, number, 0) for position in looks.order for number in range(3)):
        sent.append(unit)
        answer(looks, unit)

    assert len(sent) == 9


@pytest.mark.parametrize("seed", range(5))
def test_a_look_never_sees_replies_that_were_removed(seed):
    """Arm 2 begins with stored replies, which would make it the worst; each is removed and sent again."""
    rule = DropWorst()
    looks = looks_of(rule)
    for position in range(N):
        looks.add(Outcome(Unit(position, 0, 2, 0)), [Observation(Unit(position, 0, 2, 0), "a", -1.0)], [])
    units = [Unit(position, 0, number, 0) for position in range(N) for number in range(2)]
    random.Random(seed).shuffle(units)
    removed = set()
    for unit in units:
        if unit.position not in removed:
            removed.add(unit.position)
            looks.remove([unit._replace(arm=2)])
        answer(looks, unit)
        if unit.arm == 1:
            answer(looks, unit._replace(arm=2))

    assert [set(values) for _, values in rule.seen] == [{0, 1, 2}, {1, 2}]
    assert looks.live == {2}
