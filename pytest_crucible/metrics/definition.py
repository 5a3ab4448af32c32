"""What a metric is: a function `(reply, sample) -> bool | float | None` that states its direction, bounds and version.

One that asks a model is `async def`: it is awaited when the reply is there, while other samples are asked.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args, overload

from pytest_crucible.errors import SpecError
from pytest_crucible.records import Direction, Kind, MetricFacts, Reply, Sample

Score = Callable[[Reply, Sample], Any]

_BOUNDS: dict[Kind | None, tuple[float, float]] = {"count": (0.0, math.inf), "positive": (0.0, math.inf)}


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """Returned by a metric that has nothing to say about a sample, with the reason. It is not a zero."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A scoring function and what it declares. Call it as the function it wraps."""

    function: Score
    facts: MetricFacts
    depends: Callable[[], str] | None = None
    """What its scores depend on and nobody knows before a session plans, such as the model that it asks: part of its version."""
    beside: tuple[Metric, ...] = ()
    """What is told along with it, without being asked for."""

    @property
    def name(self) -> str:
        return self.facts.name

    def __call__(self, reply: Reply, sample: Sample) -> Any:
        return self.function(reply, sample)

    def settled(self) -> Metric:
        """As it is in this session: with the whole version."""
        if self.depends is None:
            return self
        version = ":".join(part for part in (self.facts.version, self.depends()) if part)
        return replace(self, facts=replace(self.facts, version=version), depends=None)


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
) -> Metric | Callable[[Score], Metric]:
    """Make a metric of a function.

    `bounds` are the worst and best values that exist (in order low, high); a failed sample gets the worst one.
    `version` says when stored scores may be re-used; without it the function's source decides.

    >>> @metric(bounds=(0, 1))
    ... def brevity(reply, sample):
    ...     return 1 / (1 + len(reply.text))
    >>> brevity.facts.direction, brevity.facts.kind
    ('higher', 'bounded')
    """

    def make(scorer: Score) -> Metric:
        facts = declared_facts(name or scorer.__name__, kind=kind, direction=direction, bounds=bounds, version=version)
        return Metric(function=scorer, facts=facts)

    return make if function is None else make(function)


def declared_facts(
    name: str,
    *,
    kind: Kind | None = None,
    direction: Direction = "higher",
    bounds: tuple[float, float] | None = None,
    version: str = "",
) -> MetricFacts:
    """Check a declaration and complete it: finite bounds make a bounded score, and what is counted or timed starts at 0."""
    if direction not in ("higher", "lower"):
        raise SpecError(f"metric {name!r} has direction {direction!r}: write 'higher' or 'lower'")
    if kind is not None and kind not in get_args(Kind):
        raise SpecError(f"metric {name!r} has kind {kind!r}: write one of {', '.join(map(repr, get_args(Kind)))}")
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
            f"metric {name!r} counts or measures amounts (kind {kind!r}) but its bounds begin at {low:g}: write 0 or more"
        )
    if kind is None and math.isfinite(low) and math.isfinite(high):
        kind = "bounded"
    return MetricFacts(name=name, kind=kind, direction=direction, low=low, high=high, version=version)


def as_metric(given: Metric | Score) -> Metric:
    """A metric stays as it is; a plain function becomes one under its own name."""
    if isinstance(given, Metric):
        return _callable(given)
    if callable(given) and hasattr(given, "__name__"):
        return _callable(metric(given))
    raise SpecError(
        f"{given!r} is not a metric: give a function (reply, sample) -> bool, float or None, "
        "a Metric, or the name of a registered one"
    )


def _callable(given: Metric) -> Metric:
    """A metric that could score nothing is refused before anything is asked."""
    try:
        inspect.signature(given.function).bind(None, None)
    except TypeError:
        raise SpecError(
            f"metric {given.name!r} does not take (reply, sample): write def {given.name}(reply, sample)"
        ) from None
    except ValueError:  # a function of C that does not say what it takes
        return given
    return given
