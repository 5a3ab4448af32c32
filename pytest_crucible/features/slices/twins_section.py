"""Invariance: how often the candidate's score changes between versions of a prompt, and between repeats of one version.

Only these words differ, so they cause any change beyond that between repeats. It is invariance, not causal fairness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from pytest_crucible.analyse.scores import Floats, Scores
from pytest_crucible.records import Claim, Note, View
from pytest_crucible.records.datasets import TWIN
from pytest_crucible.sections.inputs import SectionInputs

decides = False  # no claim of it can fail the session


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariance:
    """The change of one metric of the candidate between two versions of the prompts that have both."""

    metric: str
    first: str
    second: str
    n: int
    better_as_first: float
    """Share of prompts, averaged over repeats."""
    better_as_second: float
    between_repeats: float | None
    """Share of pairs of repeats of one version that differ; None for one repeat."""

    @property
    def changed(self) -> float:
        return self.better_as_first + self.better_as_second


def compute(inputs: SectionInputs) -> tuple[Invariance, ...] | None:
    """Return the changes of each metric that a target or a comparison is about by twin; None without one."""
    changes = [each for metric in inputs.twins for each in _of_metric(inputs, metric)]
    return tuple(changes) or None


def claims(changes: Sequence[Invariance]) -> Sequence[Claim]:
    """Return no claims."""
    return ()


def view(changes: Sequence[Invariance], claims: Sequence[Claim]) -> View:
    """Return a note for each pair of versions."""
    return View(
        title="Invariance",
        notes=tuple(Note(text=_sentence(each)) for each in changes),
        document=[{**asdict(each), "changed": each.changed} for each in changes],
    )


def _of_metric(inputs: SectionInputs, metric: str) -> Iterator[Invariance]:
    sign = 1.0 if inputs.facts[metric].direction == "higher" else -1.0
    labels = np.array([str(sample.metadata.get(TWIN, "")) for sample in inputs.stored.all_samples()], dtype=object)
    if len(labels) != inputs.samples:
        return
    originals = _replies(inputs.scores[metric][0])
    names = [variant.name for variant in inputs.plan.variants]
    versions = dict.fromkeys([*sorted(set(labels) - {""}), *names])
    # The replies to each version: those to the sample itself if it is this version, else to its twin.
    replies = {name: np.full_like(originals, np.nan) for name in versions}
    for name, of_arms in zip(names, inputs.twins[metric], strict=True):
        replies[name] = _replies(of_arms[0])
    for name, table in replies.items():
        table[labels == name] = originals[labels == name]
    for at, first in enumerate(versions):
        for second in list(versions)[at + 1 :]:
            difference = sign * (replies[first] - replies[second])
            is_known = ~np.isnan(difference).all(axis=1) & (labels != "")
            if is_known.any():
                yield Invariance(
                    metric=metric,
                    first=first,
                    second=second,
                    n=int(is_known.sum()),
                    better_as_first=_share(difference[is_known] > 0, difference[is_known]),
                    better_as_second=_share(difference[is_known] < 0, difference[is_known]),
                    between_repeats=_between_repeats([replies[first][is_known], replies[second][is_known]]),
                )


def _replies(scores: Scores) -> Floats:
    """Return samples x replies."""
    if scores.units is None:
        return scores.values[:, None].copy()
    return scores.units.values.reshape(len(scores.values), -1).copy()


def _share(flags: np.typing.NDArray[np.bool_], differences: Floats) -> float:
    return float(flags.sum() / np.count_nonzero(~np.isnan(differences)))


def _between_repeats(tables: Sequence[Floats]) -> float | None:
    repeats = tables[0].shape[1]
    changes = [
        (table[:, repeat] - table[:, other]) for table in tables for repeat in range(repeats) for other in range(repeat)
    ]
    finite = [change[~np.isnan(change)] for change in changes]
    together = np.concatenate(finite) if finite else np.array([])
    return float((together != 0).mean()) if len(together) else None


def _sentence(each: Invariance) -> str:
    repeats = "" if each.between_repeats is None else f"; between repeats of one version in {each.between_repeats:.1%}"
    return (
        f"invariance: {each.metric} changes between {each.first} and {each.second} in {each.changed:.1%} of {each.n:,} prompts "
        f"({each.better_as_first:.1%} better as {each.first}, {each.better_as_second:.1%} as {each.second}){repeats}"
    )
