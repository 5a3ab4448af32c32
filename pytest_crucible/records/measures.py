"""Metrics, their views on variants of the samples, and the targets and comparisons that judge them.

exact_match[she]             the metric on the twins
exact_match.drop[she]        the original samples minus the twins, signed so that positive is worse
exact_match.broken[she]      if the original sample is right: the share of the replies to its twins that are wrong
exact_match.broken_any[she]  likewise: whether any of these replies is wrong
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Literal

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.datasets import AppliesTo, By, VariantGroup, short_name
from pytest_crucible.records.errors import SpecError

Role = Literal["candidate", "baseline"]
Kind = Literal["binary", "ordinal", "bounded", "count", "positive", "unbounded", "text"]
Direction = Literal["higher", "lower"]
Applies = Literal["sample", "reply"]
Reasoning = Literal["strip", "keep"]
State = Literal["met", "missed", "undecided"]
DecisionRule = Literal["point", "bound"]
Alternative = Literal["regression", "non-inferior", "superior", "equivalent", "estimate"]
"""`estimate` claims nothing: a difference and its interval."""
Purpose = Literal["gate", "practice", "explanation"]
"""A practice experiment is scored and gives no verdict: its samples may become training data."""
Relation = Literal[">=", "<=", ">", "<", "=="]
Counts = Literal["", "macro", "micro"]
Value = bool | float | str


_SHARE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*%\s*")


def check_amount(amount: Any, what: str) -> tuple[float | None, bool]:
    """Return a margin or a relevant difference as a number, and whether it is a share of a ratio. Raises SpecError.

    `what` names it in messages.

    >>> check_amount("10 %", "margin"), check_amount(0.05, "margin"), check_amount(None, "margin")
    ((0.1, True), (0.05, False), (None, False))
    """
    share = _parse_share(amount)
    number = amount if share is None else share
    if isinstance(number, str):
        raise SpecError(f'{what}={amount!r}: write a number, such as 0.05, or a share, such as "10 %"')
    if number is None:
        return None, False
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < math.inf:
        raise SpecError(f"{what}={amount!r}: write a positive number in the metric's units, such as 0.05")
    return number, share is not None


def parse_amount(text: str) -> float | str:
    """Return an amount of the command line: a number, or a share as it was written. Raises ValueError for anything else.

    >>> parse_amount("0.05"), parse_amount("10%")
    (0.05, '10%')
    """
    return text if _parse_share(text) is not None else float(text)


def amount_text(amount: float | None, is_share: bool) -> str:
    """Return an amount as it is shown: `0.05`, or `10 %`; empty without one."""
    if amount is None:
        return ""
    return f"{amount * 100:g} %" if is_share else f"{amount:g}"


def _parse_share(amount: Any) -> float | None:
    """Return 0.1 for "10 %"; None for other texts."""
    match = _SHARE.fullmatch(amount) if isinstance(amount, str) else None
    return float(match[1]) / 100 if match else None


# End the names of a judged metric's side values: its level and a person's; how a reply fares in each place; several votes.
HUMAN, ORDERS, VOTES = ".human", ".orders", ".votes"
CLEAN = "clean"
"""The key of the label of the reply to the original sample, if a sample has labels of replies to its variants, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFacts:
    """Facts that a metric declares. The statistical method follows these, never the scores."""

    name: str
    kind: Kind | None = None
    """None until the first run has shown whether the values are bool or numbers."""
    direction: Direction = "higher"
    is_directed: bool = True
    """False if it is unknown which direction is better: differences are candidate minus baseline, without a verdict."""
    low: float = float("-inf")
    high: float = float("inf")
    version: str = ""
    applies: Applies | None = None
    """Whether it is a property of the sample, the same in all arms, or of the reply, that the metric applies. None if neither was
    declared, or stored by the run: no arm's samples are then taken for another's, as for "reply"."""
    is_conditional: bool = False
    """It applies to a part of the samples by definition, such as attacks: reports do not mention the others."""
    applies_to: AppliesTo | None = None
    """The samples that it applies to, if that depends on their expected decision; None for all."""
    is_part: bool = False
    """A part of another metric, such as the number of spans found: statistics use it, and reports do not list it."""
    of_ensemble: bool = False
    """Observed with an ensemble's replies: arms without one are left out, and failures do not count as the worst value."""
    relevant: float | None = None
    """The smallest difference of its mean that matters, where the metric declares one."""
    relevant_is_share: bool = False
    """The relevant difference is a share of a ratio: 0.1 was written as "10 %"."""
    reach: float | None = None
    """The largest change of one sample between two arms, repeats averaged, that is possible; None: that of the bounds."""
    of_calls: bool = field(default=False, compare=False)
    """Its value follows from the calls of the reply alone, so that stored replies are scored by their stored calls."""
    judge_requests: int = field(default=0, compare=False)
    """Requests to the judge for each reply, without repeated ones. 0 in runs from before it was stored, too."""

    @property
    def largest_change(self) -> float:
        """The largest difference of two arms' values of one sample: the reach, or the range; infinite without either."""
        return self.high - self.low if self.reach is None else min(self.high - self.low, self.reach)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantTerm:
    """A metric on the twins of a variant, as a target or a comparison names it: `exact_match[she]`."""

    facts: MetricFacts
    """Its own facts; its name is the whole term."""
    metric: str
    view: str
    """Empty for the metric's own values."""
    variant: str
    """The name in brackets: a variant, or a group of several."""
    group: VariantGroup | None = None
    """The variants that it names together; None for one."""

    @property
    def variants(self) -> tuple[str, ...]:
        return (self.variant,) if self.group is None else self.group.variants


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One statistic of one or several metrics: `accuracy`, `rate(entailment >= 0.75)`, `ece(confidence, accuracy)`."""

    statistic: str = "mean"
    """The name of a row in `measures.table`."""
    metric: str
    quantile: float | None = None
    """Between 0 and 1, for a statistic that is spelled with a percentage, such as `p95`."""
    inner_relation: Relation | None = None
    inner_value: float | None = None
    further: tuple[str, ...] = ()
    """Metrics after the first."""
    written: str = ""
    """The metric as written, if the statistic uses its parts: `pii` of `pii.found` and `pii.annotated`."""
    by: By | None = None
    """The fields whose slices are compared, or of which `slice` is one."""
    counts: Counts = ""
    """What counts alike in a mean over slices: each slice (macro) or each sample (micro)."""
    slice: str = ""
    """The slice that a comparison is about; empty if it is about all samples, or all slices together."""
    slice_size: int = 0
    """The number of samples in that slice; of a mean over slices, of as many independent ones as it counts for."""
    draws: int | None = None
    """The k of `pass^k` and `pass@k`."""
    by_sample: bool = False
    """The condition is on the mean of each sample's replies: `rate(mean_by_sample(accuracy) >= 0.8)`."""
    by_mean: bool = False
    """A comparison of an amount that is written `mean(cost_usd)`: by the ratio of means, not by the ratio of `cost_usd` alone."""

    @property
    def metrics(self) -> tuple[str, ...]:
        return (self.metric, *self.further)

    @property
    def label(self) -> str:
        """The statistic without its metric: `mean`, `rate >= 0.75`, `p95`, `ece vs accuracy`."""
        if self.written:
            return self.statistic
        inner = ["mean_by_sample"] if self.by_sample else []
        return " ".join([self._function, *inner, *self._condition, *(f"vs {name}" for name in self.further), *self._by])

    @property
    def expression(self) -> str:
        """The measure as a target or a comparison names it; a mean is its metric alone, unless `by_mean` says otherwise."""
        if self.statistic == "mean" and not self.by_mean:
            return " ".join([self.metric, *self._by])
        if self.written:
            return f"{self.statistic}({self.written})"
        first = f"mean_by_sample({self.metric})" if self.by_sample else self.metric
        inner = ", ".join([" ".join([first, *self._condition]), *self.further])
        return f"{self._function}({' '.join([inner, *self._by])})"

    @property
    def _function(self) -> str:
        """The statistic with its number: `mean`, `p95`, `pass^3`."""
        return f"{self.statistic}{self.draws or ''}" if self.quantile is None else f"p{self.quantile * 100:g}"

    @property
    def _condition(self) -> list[str]:
        return [] if self.inner_relation is None else [f"{self.inner_relation} {self.inner_value:g}"]

    @property
    def _by(self) -> list[str]:
        if self.by is None:
            return []
        counts = f", {self.counts}" if self.counts else ""
        return [f"{self.by} = {short_name(self.slice)}" if self.slice else f"{self.by}{counts}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(Measure):
    """A quality target such as `rate(entailment >= 0.75) >= 0.45`, parsed."""

    text: str
    relation: Relation
    value: float
    decide: DecisionRule = "point"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast(Measure):
    """A comparison of the candidate with one baseline by one measure."""

    baseline: str
    alternative: Alternative = "regression"
    margin: float | None = None
    is_relative: bool = False
    """The margin, or the relevant difference, is a share of a ratio: 0.1 was written as "10 %"."""
    relevant: float | None = None
    """The smallest difference that matters to a regression gate. A margin has this role for other claims; never both."""
    unpaired: bool = False
    """Each arm has samples of its own, such as episodes with other seeds."""

    @property
    def limit(self) -> float | None:
        """The margin or the relevant difference on the scale of the decision: for a ratio, the scale of logarithms."""
        amount = self.relevant if self.margin is None else self.margin
        # 10 % more and its inverse are equally far from no difference.
        return math.log1p(amount) if amount is not None and self.is_relative else amount

    @property
    def limit_text(self) -> str:
        """The margin, or the relevant difference, as it is shown: `0.05`, or `10 %`; empty without one."""
        return amount_text(self.relevant if self.margin is None else self.margin, self.is_relative)

    @property
    def decides(self) -> bool:
        """Return whether a verdict is given. An estimate has none, and costs nothing of the session's error rate."""
        return self.alternative != "estimate"

    @property
    def decided_by_bounds(self) -> bool:
        """Return whether one-sided bounds decide it: a margin, a relevant difference, or proof of an improvement."""
        return self.limit is not None or self.alternative == "superior"

    @property
    def shares_alpha(self) -> bool:
        """Return whether its p-value decides, and so belongs to the session's Holm family.

        One-sided bounds decide margins. Margins must all hold, which needs no correction (Berger 1982).
        """
        return self.decides and self.margin is None

    def subject(self, candidate: str) -> str:
        """`accuracy: v2 vs v1`, with the claim, the margin and the relevant difference where the comparison has them."""
        claim = "" if self.alternative in ("regression", "estimate") else f" {self.alternative}"
        margin = "" if self.margin is None else f" by {self.limit_text}"
        relevant = "" if self.relevant is None else f" (relevant {self.limit_text})"
        return f"{self.expression}: {candidate} vs {self.baseline}{claim}{margin}{relevant}"


_WITHOUT_REACH: dict[Kind, str] = {
    "binary": "is yes or no, and changes by 1 or not at all",
    "text": "is text",
}


def check_reach(reach: Any, kind: Kind | None, bounds: tuple[float, float], what: str) -> float | None:
    """Return a declared reach as a number; None for None. Raises SpecError. `what` names it in messages.

    >>> check_reach(0.25, "bounded", (0, 1), "reach")
    0.25
    """
    if reach is None:
        return None
    if isinstance(reach, bool) or not isinstance(reach, int | float) or not 0 < reach < math.inf:
        raise SpecError(
            f"{what}={reach!r}: write a positive number, the largest change of one sample that is possible, such as 0.25"
        )
    if kind in _WITHOUT_REACH:
        raise SpecError(f"{what}={reach:g}, but it {_WITHOUT_REACH[kind]}: leave reach out")
    low, high = bounds
    if reach > high - low:
        raise SpecError(
            f"{what}={reach:g}, and no two values between {low:g} and {high:g} are further apart than {high - low:g}: "
            "write a smaller reach, or leave it out"
        )
    return float(reach)


DROP, BROKEN, BROKEN_ANY = "drop", "broken", "broken_any"
ViewFacts = Callable[[MetricFacts, int], MetricFacts]
_RANGED = ("binary", "bounded")


def _drop(facts: MetricFacts, draws: int) -> MetricFacts:
    span = facts.high - facts.low if facts.kind in _RANGED else math.inf
    kind: Kind | None = facts.kind and ("bounded" if math.isfinite(span) else "unbounded")
    return replace(
        facts, kind=kind, direction="lower", low=-span, high=span, relevant=None, reach=None, of_ensemble=False
    )


def _broken_facts(facts: MetricFacts, draws: int) -> MetricFacts:
    return replace(
        facts,
        kind="binary" if draws == 1 else "bounded",
        direction="lower",
        low=0.0,
        high=1.0,
        relevant=None,
        # Of the samples that this arm's reply was right on.
        applies="reply",
        reach=None,
    )


VIEWS: Mapping[str, ViewFacts] = {
    "": lambda facts, draws: facts,
    DROP: _drop,
    BROKEN: _broken_facts,
    BROKEN_ANY: lambda facts, draws: _broken_facts(facts, 1),
}
"""The facts of each view by those of its metric and the number of variants that it is about. The empty one is the metric."""


def term_facts(name: str, view: str, facts: MetricFacts, draws: int = 1) -> MetricFacts:
    """Return the facts of a term by those of its metric. An inferred kind is not known before the first scores."""
    return replace(VIEWS[view](facts, draws), name=name)


def view_problem(view: str, facts: MetricFacts) -> str:
    """Return why a metric has no such view; empty if it has, or where its kind is not known yet."""
    if view in (BROKEN, BROKEN_ANY) and facts.kind not in (None, "binary"):
        return f"{view} needs a binary metric, and {facts.name!r} is {facts.kind}: write {facts.name}.{DROP}"
    return ""
