"""Answers of `stats.factors`: means over crossed random factors, and their variance components."""

from __future__ import annotations

import math

import numpy as np
from answering import Answer, Case, ends, level

from pytest_crucible.stats import crossed_interval, crossed_mean, crossed_p_value
from pytest_crucible.stats.factors.crossed import variance_table


def _mean(data: Case, options: Case) -> Answer:
    mean = crossed_mean(data["scores"], options["factors"])
    interval = crossed_interval(mean, level=level(options))
    return {"estimate": mean.estimate, "p_value": crossed_p_value(mean), **ends(interval)}


def _variances(data: Case, options: Case) -> Answer:
    scores = np.array(data["scores"], dtype=float)
    parts = {part.name: part.variance for part in variance_table(scores, options["factors"])}
    return {**parts, "se": math.sqrt(crossed_mean(scores, options["factors"]).variance)}


PROCEDURES = {"crossed_mean": _mean, "variance_table": _variances}
