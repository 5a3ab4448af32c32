"""`crucible plan`: the samples, tokens and money needed to detect a difference, before they are spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click

from pytest_crucible.analyse.pair_variability import pair_variabilities
from pytest_crucible.commands.load import stored_inputs
from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.plan.sample_size import ASSUMED, samples_to_detect, samples_to_prove
from pytest_crucible.records import Analysis, PairVariability
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.printable import aligned_lines
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.sections.usage import Usages

HEADS = ("metric", "baseline", "the arms differ", "samples", "replies", "tokens", "cost")


@dataclass(frozen=True)
class PerSample:
    """Cost of querying all arms for one sample; None where it is unknown."""

    replies: float
    tokens: float | None
    cost_usd: float | None


@dataclass(frozen=True)
class Need:
    """Samples, replies, tokens and cost that one comparison needs."""

    spread: PairVariability
    samples: int | None
    replies: float | None
    tokens: float | None
    cost_usd: float | None


@click.command("plan", short_help="Samples and cost needed to detect a difference.")
@click.argument("run", default="")
@click.option(
    "--difference", type=float, metavar="D", help="Difference to detect, in the metric's units: 0.02 is two points."
)
@click.option("--margin", type=float, metavar="M", help="Or the margin to prove: the largest acceptable loss.")
@click.option("--power", type=float, default=0.8, metavar="P", help="Probability of detecting or proving it.")
@click.option("--alpha", type=float, default=0.05, metavar="A", help="Error rate of all claims together.")
@click.option("--family-size", type=click.IntRange(min=1), default=1, metavar="N", help="Comparisons that share alpha.")
@store_option
@json_option
def command(
    run: str,
    difference: float | None,
    margin: float | None,
    power: float,
    alpha: float,
    family_size: int,
    store: str,
    as_json: bool,
) -> None:
    """Print the samples, replies, tokens and cost needed to detect a difference, or to prove a margin.

    With RUN (an id, its beginning, `latest` or `tag:NAME`) the spread of the differences and the cost of a sample are those
    of that run; without it a spread is assumed, and the cost is unknown.
    """
    # Exactly one of them: they ask for different sample sizes.
    if (difference is None) == (margin is None):
        raise SpecError("give either --difference=D or --margin=M")
    for option, amount in (("--difference", difference), ("--margin", margin)):
        if amount is not None and not amount > 0:
            raise SpecError(f"{option}={amount:g} is not a positive number: write a number above 0, such as 0.05")
    variabilities, per_sample = _read_run(store, run) if run else (ASSUMED, {"": PerSample(2, None, None)})
    _check_shares(variabilities, difference, margin)
    needs = [
        _need(
            spread,
            per_sample[spread.nodeid],
            difference=difference,
            margin=margin,
            power=power,
            alpha=alpha / family_size,
        )
        for spread in variabilities
    ]
    goal = f"to detect a difference of {difference:g}" if difference is not None else f"to prove a margin of {margin:g}"
    basis = f"spread and cost from run {run}" if run else "spread assumed, cost unknown"
    head = f"{goal}: alpha {alpha / family_size:.3g}, power {power:g}, {basis}"
    print_result([head, "", *_lines(needs)], needs, as_json=as_json)


def _check_shares(spreads: Sequence[PairVariability], difference: float | None, margin: float | None) -> None:
    """Raise SpecError for a difference of 1 or more where all metrics are shares, or scores from 0 to 1 as it is assumed."""
    amount = difference or margin or 0.0
    if amount >= 1 and all(spread.discordance is not None or spread in ASSUMED for spread in spreads):
        option = "--difference" if difference is not None else "--margin"
        raise SpecError(
            f"{option}={amount:g} is more than two shares can differ: write {amount / 100:g} for {amount:g} percentage points"
        )


def _read_run(store: str, run: str) -> tuple[Sequence[PairVariability], Mapping[str, PerSample]]:
    with existing_store(store) as opened:
        full = opened.find_run(run)
        spreads = [spread for inputs in stored_inputs(opened, full) for spread in pair_variabilities(inputs)]
        costs = {analysis.plan.nodeid: _per_sample(analysis) for analysis in load_run(opened, full).experiments}
    if not spreads:
        raise SpecError(f"run {full} has no comparison, so the spread of differences is unknown: name a run with one")
    return spreads, costs


def _per_sample(analysis: Analysis) -> PerSample:
    """Return the cost of one sample in all arms, from the usage of the arms that this run queried."""
    # A baseline whose answers were stored has no usage of its own: it is assumed to cost as much as the queried arms.
    usage: Usages | None = analysis.sections["usage"].result if "usage" in analysis.sections else None
    queried = [arm_usage for arm_usage in usage.usages if arm_usage.answered] if usage else []
    # One sample is queried in every arm, and there as often as the arm has replies to it.
    replies = sum(analysis.plan.draws(number).size for number in range(len(analysis.plan.arms)))
    answered = sum(arm_usage.answered for arm_usage in queried)
    tokens = [
        (arm_usage.input_tokens or 0) + (arm_usage.output_tokens or 0)
        for arm_usage in queried
        if not arm_usage.uncounted
    ]
    costs = [arm_usage.cost_usd for arm_usage in queried if arm_usage.cost_usd is not None and not arm_usage.unpriced]
    return PerSample(
        replies=replies,
        tokens=replies * sum(tokens) / answered if queried and len(tokens) == len(queried) else None,
        cost_usd=replies * sum(costs) / answered if queried and len(costs) == len(queried) else None,
    )


def _need(
    spread: PairVariability,
    each: PerSample,
    *,
    difference: float | None,
    margin: float | None,
    power: float,
    alpha: float,
) -> Need:
    if difference is not None:
        samples = samples_to_detect(difference, spread, alpha=alpha, power=power)
    else:
        samples = samples_to_prove(margin or 0.0, spread, alpha=alpha, power=power)
    amounts = [
        None if samples is None or amount is None else samples * amount
        for amount in (each.replies, each.tokens, each.cost_usd)
    ]
    return Need(spread, samples, *amounts)


def _lines(needs: Sequence[Need]) -> Iterator[str]:
    rows = [
        (
            need.spread.metric,
            need.spread.baseline,
            _differ(need.spread),
            *map(_amount, (need.samples, need.replies, need.tokens)),
            _cost(need),
        )
        for need in needs
    ]
    yield from aligned_lines([HEADS, *rows], right=range(3, 7))


def _differ(spread: PairVariability) -> str:
    if spread.discordance is not None:
        return f"on {spread.discordance * 100:.3g} % of samples"
    return f"by a spread of {spread.deviation:.3g}"


def _amount(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"


def _cost(need: Need) -> str:
    return "unknown" if need.cost_usd is None else f"{need.cost_usd:,.2f} USD"
