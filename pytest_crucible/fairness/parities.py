"""The parities by name: targets on the metrics of `fairness.decision`.

Definitions: Hardt, Price & Srebro 2016 (equalized odds, equal opportunity); Chouldechova 2017 (predictive parity); the four-fifths
rule of 29 CFR 1607.4 D (disparate impact).
"""

from __future__ import annotations

from pytest_crucible.plan.grammar import parse_fields
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.slices import shortest


def demographic_parity(*, by: str, limit: float = 0.10) -> str:
    """Return the target that slices are selected about equally often.

    >>> demographic_parity(by="sex")
    'gap(selected by sex) <= 0.10'
    """
    return _target("demographic_parity", "gap(selected by {}) <= {}", by, limit)


def disparate_impact(*, by: str, limit: float = 0.80) -> str:
    """Return the target that no slice is selected less than four fifths as often as another.

    >>> disparate_impact(by="sex")
    'ratio(selected by sex) >= 0.80'
    """
    return _target("disparate_impact", "ratio(selected by {}) >= {}", by, limit)


def equalized_odds(*, by: str, limit: float = 0.10) -> str:
    """Return the target that slices have about the same true-positive and the same false-positive rate.

    >>> equalized_odds(by="race", limit=0.05)
    'gap(true_positive, false_positive by race) <= 0.05'
    """
    return _target("equalized_odds", "gap(true_positive, false_positive by {}) <= {}", by, limit)


def equal_opportunity(*, by: str, limit: float = 0.10) -> str:
    """Return the target of equal true positive rates: samples that deserve the favourable answer get it about equally often.

    >>> equal_opportunity(by="sex")
    'gap(true_positive by sex) <= 0.10'
    """
    return _target("equal_opportunity", "gap(true_positive by {}) <= {}", by, limit)


def predictive_parity(*, by: str, limit: float = 0.10) -> str:
    """Return the target that the favourable answer is right about equally often.

    >>> predictive_parity(by="sex")
    'gap(right_if_selected by sex) <= 0.10'
    """
    return _target("predictive_parity", "gap(right_if_selected by {}) <= {}", by, limit)


def calibration(*, by: str, limit: float = 0.10) -> str:
    """Return the target that stated probabilities are too high, or too low, by about as much in all slices.

    >>> calibration(by="sex")
    'gap(overconfidence by sex) <= 0.10'
    """
    return _target("calibration", "gap(overconfidence by {}) <= {}", by, limit)


def _target(function: str, text: str, by: str, limit: float) -> str:
    """Return the target as text. Raises SpecError for a field or a limit that no target could have."""
    if not isinstance(by, str):
        raise SpecError(f"fairness.{function} has by={by!r}: write a field of the samples as text, such as by='sex'")
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
    if not is_number or not 0 <= limit <= 1:
        raise SpecError(f"fairness.{function} has limit={limit!r}: write a number from 0 to 1, such as limit=0.05")
    parse_fields(by, f"fairness.{function} has by={by!r}, which")
    digits = f"{limit:.2f}"
    target = text.format(by, digits if float(digits) == limit else shortest(float(limit)))
    parse_target(target)
    return target
