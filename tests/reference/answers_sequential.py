"""Betting confidence sequences: confseq 0.0.11 by its own names and options.

confseq reports the ends on a grid, one step outside the last mean that it found; ours are roots, moved onto it here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from answering import Answer, Case, numbers

from pytest_crucible.stats.arrays import difference
from pytest_crucible.stats.sequential.betting import betting_sequence


def at_times(values: Sequence[float], bounds: tuple[float, float], options: Case) -> Answer:
    function, breaks, width = options["function"], options.get("breaks", 1000), bounds[1] - bounds[0]
    sequence = betting_sequence(
        values,
        bounds=bounds,
        alpha=options.get("alpha", 0.05),
        largest_bet=options.get("trunc_scale", 0.5),
        intersect=options.get("running_intersection", function == "hedged_cs"),
    )
    at = np.array(options.get("times", [sequence.n])) - 1
    steps = [(ends[at] - bounds[0]) / width * breaks for ends in (sequence.lower, sequence.upper)]
    lower = bounds[0] + width * np.maximum(np.ceil(steps[0]) - 1, 0) / breaks
    upper = bounds[0] + width * np.minimum(np.floor(steps[1]) + 1, breaks) / breaks
    return {"lower": lower.tolist(), "upper": upper.tolist()}


def confseq(inputs: Case, options: Case) -> Answer:
    return at_times(numbers(inputs["x"]), tuple(options.get("bounds", (0.0, 1.0))), options)


def confseq_paired(inputs: Case, options: Case) -> Answer:
    return at_times(difference(numbers(inputs["x"]), numbers(inputs["y"])).tolist(), (-1.0, 1.0), options)


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {"confseq": confseq, "confseq_paired": confseq_paired}
