"""The sentence on what a verdict has found."""

from __future__ import annotations

import re

from pytest_crucible.gate.explain import comparison_reason, suggestion_text
from pytest_crucible.records import Comparison, Verdict

_PLANS = re.compile(r"; n=[\d,]+ can detect [^;]*(; about n=[^;]*)?$|; about n=[^;]*$|; proof needs about n=[^;]*$")
"""The end of a reason that is about a next run."""


def finding(verdict: Verdict, pair: Comparison | None, alpha: float) -> str:
    """Return `v2 differs, and its mean is lower (proven)`, or the reason of the verdict.

    `pair` is the comparison that it is about; None for others.
    """
    proof = "proven" if verdict.proven else "not proven"
    if pair is not None and _is_plain_difference(verdict, pair, alpha):
        return f"{pair.candidate} differs, and its {_statistic(pair)} is {_direction(pair)} ({proof})"
    reason = _PLANS.sub("", verdict.reason)
    is_said = not verdict.proven or "proven" in verdict.reason
    return reason if is_said else f"{reason} (proven)"


def _is_plain_difference(verdict: Verdict, pair: Comparison, alpha: float) -> bool:
    """Return whether the test that the arms are alike has decided a gate, and nothing else, such as lost samples, has."""
    if pair.contrast.alternative != "regression" or pair.contrast.limit is not None or not pair.difference:
        return False
    if pair.p_adjusted is None or pair.p_adjusted > alpha:
        return False
    plain = comparison_reason(pair, verdict.state, verdict.proven, alpha) + suggestion_text(
        pair, verdict.state, verdict.proven
    )
    return plain == verdict.reason


def _statistic(pair: Comparison) -> str:
    return pair.contrast.label if pair.ratio is None else pair.ratio.name


def _direction(pair: Comparison) -> str:
    is_better = (pair.difference or 0.0) > 0
    if pair.higher_is_better:
        return "higher" if is_better else "lower"
    return "lower, which is better" if is_better else "higher, which is worse"
