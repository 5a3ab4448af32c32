"""How far a one-sided bound may be trusted: at its level in all realistic cases, or at its level without exception."""

from __future__ import annotations

from typing import Literal, get_args

from pytest_crucible.stats.choose import Question
from pytest_crucible.stats.observations import check_choice

Validity = Literal["standard", "guaranteed"]
_QUESTIONS: dict[tuple[str, Validity], Question] = {
    ("bound", "standard"): "bound",
    ("bound", "guaranteed"): "guaranteed bound",
    ("margin", "standard"): "margin",
    ("margin", "guaranteed"): "guaranteed margin",
}


def margin_question(question: Literal["bound", "margin"], validity: Validity) -> Question:
    """The question to look up. Raises ValueError for a validity that does not exist."""
    check_choice(validity, get_args(Validity), "validity")
    return _QUESTIONS[question, validity]
