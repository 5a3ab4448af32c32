"""Parses comparisons as `ab_compare` and the command line write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from pytest_crucible.measures.table import MEAN, STATISTICS
from pytest_crucible.plan.targets import parse_measure
from pytest_crucible.plan.variant_terms import term_metric
from pytest_crucible.records import Contrast, Measure, MetricFacts
from pytest_crucible.records.amounts import check_amount
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.type_names import describe_type

ALTERNATIVES = ("regression", "non-inferior", "superior", "equivalent")


def parse_contrast(
    metric: Any,
    margin: float | str | None = None,
    alternative: str | None = None,
    relevant: float | str | None = None,
) -> Contrast:
    """Return the comparison of `ab_compare(metric, margin=..., alternative=..., relevant=...)`, without its baseline.

    Raises SpecError.

    >>> parse_contrast("latency_s", margin="10 %").limit_text
    '10 %'
    """
    what = f"ab_compare({metric!r})"
    if not isinstance(metric, str):
        raise SpecError(f"{what} compares {describe_type(metric)}: name the metric by a string")
    measure = parse_measure(metric, what)
    number, margin_is_share = _check_amount(margin, "margin", measure, what)
    smallest, relevant_is_share = _check_amount(relevant, "relevant", measure, what)
    chosen = alternative or ("regression" if margin is None else "non-inferior")
    _check_claim(what, margin, alternative, chosen)
    if smallest is not None and chosen != "regression":
        raise SpecError(f"{what} has relevant={relevant!r} beside {_claim_text(margin, alternative)}: {_ONE_OF_THEM}")
    return Contrast(
        **_fields(measure),
        baseline="",
        alternative=chosen,  # type: ignore[arg-type]  # one of ALTERNATIVES
        margin=number,
        is_relative=margin_is_share or relevant_is_share,
        relevant=smallest,
    )


def contrast_of_unnamed(facts: MetricFacts, values: Iterable[object]) -> Contrast:
    """Return the comparison of a metric that the user did not name, without its baseline.

    Of an amount with a 0 it claims nothing: its ratio of geometric means does not exist, which is an error only where it was named.
    """
    is_zero = facts.kind == "positive" and any(value == 0 for value in values)
    return Contrast(metric=facts.name, baseline="", alternative="estimate" if is_zero else "regression")


_ONE_OF_THEM = (
    "relevant= is for a comparison that guards against regressions; leave it out, and write margin= for what matters to "
    "any other claim"
)


def _check_amount(amount: Any, name: str, measure: Measure, what: str) -> tuple[float | None, bool]:
    number, is_share = check_amount(amount, f"{what} has {name}")
    problem = STATISTICS[measure.statistic].no_margin(measure)
    if number is not None and problem:
        raise SpecError(f"{what} has {name}={amount!r}, and {problem}")
    if is_share and measure.statistic != MEAN.name:
        raise SpecError(
            f"{what} has {name}={amount!r}, and only a metric alone is compared by a ratio: "
            f"write ab_compare({measure.metric!r}), or a {_WORDS[name]} in units"
        )
    return number, is_share


_WORDS = {"margin": "margin", "relevant": "relevant difference"}


def _check_claim(what: str, margin: Any, alternative: str | None, chosen: str) -> None:
    if chosen not in ALTERNATIVES:
        raise SpecError(f"{what} has alternative={alternative!r}: write one of {', '.join(ALTERNATIVES)}")
    if margin is None and chosen in ("non-inferior", "equivalent"):
        raise SpecError(f"{what} has alternative={chosen!r} without a margin: add one, for example margin=0.05")
    if margin is not None and chosen == "regression":
        raise SpecError(f"{what} has a margin and alternative='regression': leave one of them out")


def _claim_text(margin: Any, alternative: str | None) -> str:
    return f"alternative={alternative!r}" if margin is None else f"margin={margin!r}"


def with_declarations(contrasts: Iterable[Contrast], metrics: Iterable[MetricFacts]) -> tuple[Contrast, ...]:
    """Return comparisons with the relevant differences that their metrics declare, and `mean(...)` only where it differs.

    A relevant difference is left out if the comparison has its own, makes another claim than "no regression", or is about
    another value. `mean(accuracy)` is `accuracy`; of an amount, whose name alone means the ratio of geometric means, it stays.
    """
    declared = {facts.name: facts for facts in metrics}
    resolved = (_without_needless_mean(contrast, declared.get(term_metric(contrast.metric))) for contrast in contrasts)
    return tuple(dict.fromkeys(_with_relevance(contrast, declared.get(contrast.metric)) for contrast in resolved))


def _with_relevance(contrast: Contrast, facts: MetricFacts | None) -> Contrast:
    is_own = contrast.relevant is not None or contrast.statistic != MEAN.name
    if facts is None or facts.relevant is None or is_own or contrast.alternative != "regression":
        return contrast
    return replace(contrast, relevant=facts.relevant, is_relative=facts.relevant_is_share)


def _without_needless_mean(contrast: Contrast, facts: MetricFacts | None) -> Contrast:
    return contrast if facts is not None and facts.kind == "positive" else replace(contrast, by_mean=False)


def is_sequence(first: Contrast, second: Contrast) -> bool:
    """Return whether one metric may have both comparisons: not worse by the margin, then better.

    A better candidate is also not worse, so the first costs the second no power (closed testing: Marcus, Peritz & Gabriel
    1976, Biometrika 63:655).
    """
    return {first.alternative, second.alternative} == {"non-inferior", "superior"}


def _fields(measure: Measure) -> dict[str, Any]:
    return {item.name: getattr(measure, item.name) for item in fields(measure)}
