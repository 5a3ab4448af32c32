"""Metrics: functions `(reply, sample) -> bool | float | None` that declare their direction, bounds and version.

A metric that queries a model is `async def`: it is awaited for a reply while other samples are still requested.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_args, overload

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Applies, Direction, Kind, MetricFacts, Reply, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.measures import check_amount, check_reach

Score = Callable[[Reply, Sample], Any]

_BOUNDS: dict[Kind | None, tuple[float, float]] = {"count": (0.0, math.inf), "positive": (0.0, math.inf)}


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """Returned by a metric that does not apply to a sample, with the reason. It is not a zero."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A scoring function and its declaration. Call it like the function."""

    function: Score
    facts: MetricFacts
    depends: Callable[[], str] | None = None
    """Returns the part of the version that is known only when a session plans, such as the model that it queries."""
    beside: tuple[Metric, ...] = ()
    """Metrics that are recorded along with it without being requested."""
    fitted_on: tuple[str, ...] = ()
    """Ids of samples that the metric was fitted on: each verdict is decided again without them."""
    scores_failures: bool = False
    """It also scores a reply whose test has failed, which would otherwise get the worst value."""
    tables: tuple[str, ...] = ()
    """Tables of features whose rows about the reply it reads, for a metric of calls."""
    check: Callable[[Sequence[Sample]], str] | None = None
    """Returns why the metric cannot score the samples of an experiment, before any request; empty if it can."""

    @property
    def name(self) -> str:
        return self.facts.name

    def __call__(self, reply: Reply, sample: Sample) -> Any:
        return self.function(reply, sample)

    def with_version(self) -> Metric:
        """Return the metric with its complete version in this session."""
        if self.depends is None:
            return self
        version = ":".join(part for part in (self.facts.version, self.depends()) if part)
        return replace(self, facts=replace(self.facts, version=version), depends=None)

    def with_fitted_samples(self, sample_ids: tuple[str, ...]) -> Metric:
        """Return the metric as one that was fitted on these samples."""
        return replace(self, fitted_on=sample_ids)

    def with_check(self, check: Callable[[Sequence[Sample]], str]) -> Metric:
        """Return the metric with a check of the samples that it is to score."""
        return replace(self, check=check)


@overload
def metric(function: Score, /) -> Metric: ...
@overload
def metric(
    *,
    name: str | None = None,
    kind: Kind | None = None,
    direction: Direction = "higher",
    bounds: tuple[float, float] | None = None,
    version: str = "",
    relevant: float | str | None = None,
    applies: Applies | None = None,
    reach: float | None = None,
) -> Callable[[Score], Metric]: ...
def metric(
    function: Score | None = None,
    /,
    *,
    name: str | None = None,
    kind: Kind | None = None,
    direction: Direction = "higher",
    bounds: tuple[float, float] | None = None,
    version: str = "",
    relevant: float | str | None = None,
    applies: Applies | None = None,
    reach: float | None = None,
) -> Metric | Callable[[Score], Metric]:
    """Make a metric of a function.

    `bounds` are the worst and best possible values (in order low, high); a failed sample gets the worst one.
    Stored scores are reused while `version` is the same; without it, while the function's source is the same.
    `relevant` is the smallest difference of two arms' means that matters: 0.02, or "10 %" of an amount.
    `reach` is the largest change of one sample between two arms that is possible: 0.25. It makes bounds of differences narrower.

    `applies` says what decides whether a metric that returns None applies. "sample": the sample, in the same way for every
    reply, so that arms are compared sample by sample; what contradicts it is an error. "reply": the reply, such as the quality of
    the answers where one is given: each arm's mean is that of the replies it applies to, and a difference is that of two such
    means. Without it nothing is assumed, and arms in which the metric applied to other samples are compared as for "reply".

    >>> @metric(bounds=(0, 1))
    ... def brevity(reply, sample):
    ...     return 1 / (1 + len(reply.text))
    >>> brevity.facts.direction, brevity.facts.kind
    ('higher', 'bounded')
    """

    def make(scorer: Score) -> Metric:
        facts = declared_facts(
            name or scorer.__name__,
            kind=kind,
            direction=direction,
            bounds=bounds,
            version=version,
            relevant=relevant,
            applies=applies,
            reach=reach,
        )
        return Metric(function=scorer, facts=facts)

    return make if function is None else make(function)


def declared_facts(
    name: str,
    *,
    kind: Kind | None = None,
    direction: Direction = "higher",
    bounds: tuple[float, float] | None = None,
    version: str = "",
    relevant: float | str | None = None,
    applies: Applies | None = None,
    reach: float | None = None,
) -> MetricFacts:
    """Check and complete a declaration: finite bounds make a bounded score; counts and durations start at 0."""
    if direction not in ("higher", "lower"):
        raise SpecError(f"metric {name!r} has direction {direction!r}: write 'higher' or 'lower'")
    if kind is not None and kind not in get_args(Kind):
        raise SpecError(f"metric {name!r} has kind {kind!r}: write one of {', '.join(map(repr, get_args(Kind)))}")
    if applies is not None and applies not in get_args(Applies):
        raise SpecError(f"metric {name!r} has applies={applies!r}: write 'sample' or 'reply'")
    low, high = bounds or _BOUNDS.get(kind, (-math.inf, math.inf))
    if kind == "binary":
        low, high = 0.0, 1.0
    if not low < high:
        raise SpecError(
            f"metric {name!r} has bounds ({low:g}, {high:g}): write the lower one first, for example (0, 1)"
        )
    if kind in ("bounded", "ordinal") and bounds is None:
        raise SpecError(f"metric {name!r} is {kind} but has no bounds: add them, for example bounds=(0, 1)")
    if kind in _BOUNDS and low < 0:
        raise SpecError(
            f"metric {name!r} has kind {kind!r} but bounds from {low:g}: counts and amounts start at 0 or above"
        )
    if kind is None and math.isfinite(low) and math.isfinite(high):
        kind = "bounded"
    elif kind is None and reach is not None:
        # Of yes or no nothing is known by a reach, so that the values need not decide.
        kind = "unbounded"
    smallest, is_share = check_amount(relevant, f"metric {name!r} has relevant")
    return MetricFacts(
        name=name,
        kind=kind,
        direction=direction,
        low=low,
        high=high,
        version=version,
        relevant=smallest,
        relevant_is_share=is_share,
        applies=applies,
        reach=check_reach(reach, kind, (low, high), f"metric {name!r} has reach"),
    )


def as_metric(candidate: Metric | Score) -> Metric:
    """Return a metric as it is; make a metric of a plain function, under its own name."""
    if isinstance(candidate, Metric):
        return _check_signature(candidate)
    if callable(candidate) and hasattr(candidate, "__name__"):
        return _check_signature(metric(candidate))
    raise SpecError(
        f"{candidate!r} is not a metric: give a function (reply, sample) -> bool, float or None, "
        "a Metric, or the name of a registered one"
    )


def _check_signature(candidate: Metric) -> Metric:
    """Return a metric after checking that it can be called: the session must fail before any request is sent."""
    try:
        # A wrong signature would only show with the first reply, after it was paid for.
        inspect.signature(candidate.function).bind(None, None)
    except TypeError:
        raise SpecError(
            f"metric {candidate.name!r} does not take (reply, sample): write def {candidate.name}(reply, sample)"
        ) from None
    except ValueError:  # a C function without a signature
        return candidate
    return candidate
