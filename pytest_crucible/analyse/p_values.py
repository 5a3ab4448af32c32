"""Changes all p-values of a comparison together, for claims that several looks or several candidates share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_crucible.records import BoundedValue, Comparison


def map_p_values(comparison: Comparison, scale: Callable[[float], float]) -> Comparison:
    """Return the comparison with each p-value scaled, also those at the extremes of the lost samples."""

    def scale_known(p_value: float | None) -> float | None:
        return None if p_value is None else scale(p_value)

    def scale_value(value: BoundedValue) -> BoundedValue:
        p_values = value.p_value, value.proof_p, value.smallest_p
        p_value, proof_p, smallest_p = map(scale_known, p_values)
        return replace(value, p_value=p_value, proof_p=proof_p, smallest_p=smallest_p)

    evidence = comparison.evidence
    return replace(
        comparison,
        p_value=scale_known(comparison.p_value),
        p_exact=scale_known(comparison.p_exact),
        proof_p=scale_known(comparison.proof_p),
        evidence=replace(
            evidence,
            observed=scale_value(evidence.observed),
            worst=scale_value(evidence.worst),
            best=scale_value(evidence.best),
        ),
    )
