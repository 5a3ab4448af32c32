"""The validity of a one-sided bound: its error rate holds in realistic simulations, or is proven for every distribution."""

from __future__ import annotations

from typing import Literal, get_args

from pytest_crucible.stats.arrays import check_choice
from pytest_crucible.stats.choose import Question

Validity = Literal["standard", "guaranteed"]
_QUESTIONS: dict[tuple[str, Validity], Question] = {
    ("bound", "standard"): "bound",
    ("bound", "guaranteed"): "guaranteed bound",
    ("margin", "standard"): "margin",
    ("margin", "guaranteed"): "guaranteed margin",
}


def validity_question(question: Literal["bound", "margin"], validity: Validity) -> Question:
    """Return the question to look up in the table. Raises ValueError for an unknown validity."""
    # Checked here, because a KeyError of the table would not name the choices.
    check_choice(validity, get_args(Validity), "validity")
    return _QUESTIONS[question, validity]
