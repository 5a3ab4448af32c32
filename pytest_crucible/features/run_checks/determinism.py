"""Determinism: whether equal requests got equal replies where the parameters promise it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pytest_crucible.features.run_checks.finding import ArmColumns, CheckInputs, Finding
from pytest_crucible.records import Arm, Draws
from pytest_crucible.records.calls import TextKey
from pytest_crucible.stats.interval import Interval

SERVER = "openai:"
"""How adapters begin whose equal calls of one sample and repeat have equal seeds."""


class Repeated(NamedTuple):
    """Samples with several equal requests in one arm, and those of them whose replies differ."""

    samples: int
    differ: int

    def interval(self) -> Interval:
        """Return the exact interval of the share of samples whose replies differ (Clopper and Pearson 1934)."""
        from pytest_crucible.stats.proportions.one import clopper_pearson_interval

        return clopper_pearson_interval(self.differ, self.samples)


def check_determinism(inputs: CheckInputs) -> Iterator[Finding]:
    """Yield a line on equal requests at temperature 0, or with equal seeds, if there are any."""
    repeated = [count_repeated(columns, inputs.plan.draws(number)) for number, columns in enumerate(inputs.arms)]
    if not any(each.samples for each in repeated):
        return
    failing = [(columns.arm.name, each) for columns, each in zip(inputs.arms, repeated, strict=True) if each.differ]
    yield Finding(
        check="repeats that differ",
        cells=tuple(f"{each.differ:,} of {each.samples:,}" if each.samples else "" for each in repeated),
        differs="not deterministic" if failing else "",
        problem="; ".join(_sentence(name, each) for name, each in failing),
        document=[
            {**each._asdict(), "interval": [each.interval().low, each.interval().high]} if each.samples else None
            for each in repeated
        ],
    )


def _sentence(name: str, repeated: Repeated) -> str:
    bound = repeated.interval()
    return (
        (
            f"{name} gave different replies to equal requests at temperature 0 or with one seed on {repeated.differ:,} of "
            f"{repeated.samples:,} samples ({bound.low:.1%} to {bound.high:.1%} at 95 %): it is not deterministic"
        )
        .replace("%", " %")
        .replace("  %", " %")
    )


def count_repeated(columns: ArmColumns, draws: Draws | None = None) -> Repeated:
    """Return the samples of an arm with equal requests that must have equal replies, and those where they differ."""
    replies: dict[tuple[Any, ...], set[TextKey]] = defaultdict(set)
    counts: dict[tuple[Any, ...], int] = defaultdict(int)
    for key, text in _equal_requests(columns, draws or Draws()):
        replies[key].add(text)
        counts[key] += 1
    several = {key for key, count in counts.items() if count > 1}
    samples = {key[0] for key in several}
    return Repeated(len(samples), len({key[0] for key in several if len(replies[key]) > 1}))


def _equal_requests(columns: ArmColumns, draws: Draws) -> Iterator[tuple[tuple[Any, ...], TextKey]]:
    """Yield a key of each request that has one reply only, and its reply.

    The first calls of the repeats of a sample are equal if their messages and parameters are. A later call may refer to
    earlier replies; it is equal to one of its own unit, which counts them.
    """
    calls = columns.calls
    again = {
        (calls.positions[row], calls.repeats[row], calls.forms[row], calls.parameters[row])
        for row in columns.own_calls
        if calls.requests[row] > 1
    }
    promises: dict[str, tuple[bool, bool]] = {}
    for row in columns.own_calls:
        text = calls.parameters[row]
        if text not in promises:
            promises[text] = _promises(columns.arm, json.loads(text) if text else columns.arm.parameters)
        is_greedy, is_seeded = promises[text]
        key = (calls.positions[row], calls.repeats[row], calls.forms[row], text)
        if is_greedy and calls.calls[row] == 1:
            # Each training of an arm has weights of its own.
            training = draws.levels(calls.repeats[row]).trainings if draws.trainings > 1 else None
            yield (calls.positions[row], training, calls.forms[row], text), calls.texts[row]
        elif (is_greedy or is_seeded) and key in again:
            yield key, calls.texts[row]


def _promises(arm: Arm, parameters: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether equal requests have one reply: at temperature 0, and within a unit by their seed."""
    is_seeded = parameters.get("seed") is not None and arm.adapter.startswith(SERVER)
    return parameters.get("temperature") == 0, is_seeded
