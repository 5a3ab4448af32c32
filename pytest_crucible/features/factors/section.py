"""Show the noise of each comparison by source, and the source that narrows the interval most with more levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pytest_crucible import stats
from pytest_crucible.analyse.statistics import SampleAttributes
from pytest_crucible.features.factors.noise import MoreLevels, Noise, tabulate_noise
from pytest_crucible.records import Claim, Note, Row, Table, View
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import number, with_interval

decides = False  # no claim of it can fail the session


def compute(inputs: SectionInputs) -> tuple[Noise, ...] | None:
    """Return the noise of each measure with a verdict; None without a random factor."""
    if not inputs.plan.random_factors:
        return None
    attributes = SampleAttributes(inputs.clusters, random_factors=inputs.plan.random_factors)
    return tuple(tabulate_noise(inputs.plan, inputs.facts, inputs.scores, attributes, alpha=inputs.alpha)) or None


def claims(noises: Sequence[Noise]) -> Sequence[Claim]:
    """Return nothing: sources of noise are not claims."""
    return ()


def view(noises: Sequence[Noise], claims: Sequence[Claim]) -> View:
    """Return a table and a sentence for each measure."""
    return View(
        title="Sources of noise",
        tables=tuple(map(_table, noises)),
        notes=tuple(Note(text=f"{_subject(noise)}: {_advice(noise)}") for noise in noises),
        document=[_document(noise) for noise in noises],
    )


def _subject(noise: Noise) -> str:
    return f"{noise.measure}: {noise.candidate}" + ("" if noise.baseline is None else f" vs {noise.baseline}")


def _table(noise: Noise) -> Table:
    twice = {step.name: step.half_width for step in noise.twice}
    return Table(
        title=f"Sources of noise in {_subject(noise)}",
        heads=(f"noise in {_subject(noise)}", "levels", "standard deviation", "with twice as many"),
        rows=tuple(
            Row(cells=(_name(part, noise), f"{part.levels:,}", _deviation(part), _half_width(twice.get(part.name))))
            for part in noise.components
        ),
        numbers=("levels",),
        note="Standard deviations are of single replies. The last column is the interval with twice as many levels, if they "
        "differ like these.",
    )


def _name(part: stats.Component, noise: Noise) -> str:
    random = part.name in ("residual", *(step.name for step in noise.twice))
    return part.name if random else f"{part.name} (fixed)"


def _deviation(part: stats.Component) -> str:
    low, high = math.sqrt(part.low), math.sqrt(part.high)
    return with_interval(math.sqrt(part.variance), Interval(low=low, high=high, level=0.95, method="Williams"))


def _half_width(value: float | None) -> str:
    return "-" if value is None else f"±{number(value)}"


def _advice(noise: Noise) -> str:
    """Return a sentence on the replies that would narrow the interval most."""
    if noise.halving is None:
        best = min(noise.twice, key=lambda step: step.half_width)
        if best.half_width >= noise.half_width:
            return f"no source alone is expected to narrow ±{number(noise.half_width)}: these levels differ less than others would"
        return (
            f"no source alone can halve the interval; twice the {best.name} ({best.levels:,}) give "
            f"±{number(best.half_width)} instead of ±{number(noise.half_width)}"
        )
    more = _more(noise.halving, noise)
    halved = f"{more} halve the interval, from ±{number(noise.half_width)} to ±{number(noise.halving.half_width)}"
    if noise.instead is None:
        return halved
    return f"{halved}; as many replies to {_more(noise.instead, noise)} give ±{number(noise.instead.half_width)}"


def _more(step: MoreLevels, noise: Noise) -> str:
    """Return `20 more prompts`."""
    present = next(twice.levels // 2 for twice in noise.twice if twice.name == step.name)
    added = step.levels - present
    kind, of, arm = step.name.partition(" of ")
    return f"{added:,} more {kind if added > 1 else kind.removesuffix('s')}{of}{arm}"


def _document(noise: Noise) -> dict[str, Any]:
    twice = {step.name: step.half_width for step in noise.twice}
    document = asdict(noise)
    del document["twice"]
    return {
        **document,
        "components": [{**asdict(part), "half_width_with_twice": twice.get(part.name)} for part in noise.components],
    }
