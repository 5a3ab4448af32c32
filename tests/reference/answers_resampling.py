"""Resampling and standardised effects: the reference procedures of `stats.resampling` and `stats.effects.standardized`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from answering import Answer, Case, ends, level, numbers

from pytest_crucible.stats.effects import (
    cohens_d,
    cohens_dav,
    cohens_dz,
    glass_delta,
    hedges_correction,
    hedges_g,
    pooled_deviation,
)


def _deviation(samples: object, axis: int) -> object:
    return np.std(samples, axis=axis, ddof=1)  # type: ignore[call-overload]


STATISTICS: dict[str, Callable[..., object]] = {"mean": np.mean, "median": np.median, "sd": _deviation}


def cohens_d_independent(inputs: Case, options: Case) -> Answer:
    x, y = numbers(inputs["x"]), numbers(inputs["y"])
    effect, corrected = cohens_d(x, y, level=level(options)), hedges_g(x, y, level=level(options))
    return (
        {
            "status": "degenerate" if effect.value is None else "ok",
            "d": effect.value,
            "sd_pooled": pooled_deviation(x, y),
            "hedges_J": hedges_correction(len(x) + len(y) - 2),
            "g": corrected.value,
        }
        | ends(effect.interval)
        | ends(corrected.interval, prefix="g_ci_")
    )


def cohens_d_paired(inputs: Case, options: Case) -> Answer:
    x, y = numbers(inputs["x"]), numbers(inputs["y"])
    effect = cohens_dz(x, y, level=level(options))
    return {
        "status": "degenerate" if effect.value is None else "ok",
        "dz": effect.value,
        "hedges_J": hedges_correction(len(x) - 1),
        "d_av": cohens_dav(x, y).value,
    } | ends(effect.interval)


def glass(inputs: Case, options: Case) -> Answer:
    effect = glass_delta(numbers(inputs["x"]), numbers(inputs["y"]), level=level(options))
    return {"status": "degenerate" if effect.value is None else "ok", "delta": effect.value} | ends(effect.interval)


PROCEDURES: dict[str, Callable[[Case, Case], Answer]] = {
    "cohens_d": cohens_d_independent,
    "cohens_dz": cohens_d_paired,
    "glass_delta": glass,
}
