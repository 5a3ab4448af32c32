"""What is known of the judges: whether they prefer a place, and how far people agree with them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pytest_crucible import stats
from pytest_crucible.errors import NotEnoughData
from pytest_crucible.records import HUMAN, ORDERS, Answers, Arm, HumanAgreement, PlaceBias, Share


def judges(arm: Arm, answers: Answers, *, alpha: float) -> Iterator[PlaceBias | HumanAgreement]:
    """A record for each judged metric of an arm that told something beside its scores, of the first repeat of each reply."""
    for name, rows in answers.told.items():
        told = [json.loads(text) for _, epoch, text in rows if epoch == 0]
        try:
            if name.endswith(ORDERS):
                yield _place_bias(arm.name, name.removesuffix(ORDERS), told, 1 - alpha)
            else:
                yield _agreement(arm.name, name.removesuffix(HUMAN), told, 1 - alpha)
        except NotEnoughData:
            continue


def _place_bias(arm: str, metric: str, told: Sequence[Sequence[float]], level: float) -> PlaceBias:
    found = stats.position_bias([one[0] for one in told], [one[1] for one in told], level=level)
    return PlaceBias(
        arm=arm,
        metric=metric,
        n=found.pairs,
        consistent=Share(value=found.consistency, interval=found.consistency_interval),
        towards_first=found.towards_first,
        towards_second=found.towards_second,
        p_value=found.p_value,
    )


def _agreement(arm: str, metric: str, told: Sequence[Sequence[str]], level: float) -> HumanAgreement:
    found = stats.cohen_kappa([one[0] for one in told], [one[1] for one in told], level=level)
    same = sum(one[0] == one[1] for one in told)
    raw = stats.wilson_interval(same, len(told), level=level)
    return HumanAgreement(
        arm=arm,
        metric=metric,
        n=len(told),
        raw=Share(value=same / len(told), interval=raw),
        kappa=Share(value=found.value, interval=found.interval),
    )
