"""`crucible plan`: samples, tokens and money that a wanted difference takes, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click
from tabulate import tabulate

from pytest_crucible.analyse.spreads import pair_spreads
from pytest_crucible.commands.answers import given_answers
from pytest_crucible.commands.options import json_option, say, store_option
from pytest_crucible.commands.stores import existing_store
from pytest_crucible.errors import SpecError
from pytest_crucible.plan.requirements import ASSUMED, samples_to_detect, samples_to_prove
from pytest_crucible.recalling import recalled
from pytest_crucible.records import Analysis, PairSpread

HEADS = ("metric", "baseline", "the arms differ", "samples", "replies", "tokens", "cost")


@dataclass(frozen=True)
class PerSample:
    """What it took to ask all arms for one sample; None where it is not known."""

    replies: float
    tokens: float | None
    cost_usd: float | None


@dataclass(frozen=True)
class Need:
    """What one comparison takes."""

    spread: PairSpread
    samples: int | None
    replies: float | None
    tokens: float | None
    cost_usd: float | None


@click.command("plan", short_help="Samples and cost that a wanted difference takes, before they are spent.")
@click.argument("run", default="")
@click.option(
    "--difference", type=float, metavar="D", help="What is to be detected, in the metric's units: 0.02 is two points."
)
@click.option("--margin", type=float, metavar="M", help="Or how much worse is still good enough, and to be proven.")
@click.option("--power", type=float, default=0.8, metavar="P", help="How likely it is to succeed.")
@click.option("--alpha", type=float, default=0.05, metavar="A", help="Error rate of all claims together.")
@click.option("--questions", type=click.IntRange(min=1), default=1, metavar="N", help="Comparisons that share alpha.")
@store_option
@json_option
def command(
    run: str,
    difference: float | None,
    margin: float | None,
    power: float,
    alpha: float,
    questions: int,
    store: str,
    as_json: bool,
) -> None:
    """Samples, replies, tokens and cost that it takes to detect a difference, or to prove a margin.

    With RUN (an id, its beginning, `latest` or `tag:NAME`) the spread of the differences and the cost of a sample are those
    that this run has seen; without it a spread is assumed, and the cost is unknown.
    """
    if (difference is None) == (margin is None):
        raise SpecError("say what is wanted: either --difference=D or --margin=M")
    for option, amount in (("--difference", difference), ("--margin", margin)):
        if amount is not None and not amount > 0:
            raise SpecError(f"{option}={amount:g} is nothing to look for: write a number above 0, such as 0.05")
    seen, per_sample = _seen(store, run) if run else (ASSUMED, {"": PerSample(2, None, None)})
    needs = [
        _need(one, per_sample[one.nodeid], difference=difference, margin=margin, power=power, alpha=alpha / questions)
        for one in seen
    ]
    wanted = (
        f"to detect a difference of {difference:g}" if difference is not None else f"to prove a margin of {margin:g}"
    )
    head = f"{wanted}: alpha {alpha / questions:.3g}, power {power:g}, {f'as run {run} has it' if run else 'on assumptions'}"
    say([head, "", *_lines(needs)], needs, as_json=as_json)


def _seen(store: str, run: str) -> tuple[Sequence[PairSpread], Mapping[str, PerSample]]:
    with existing_store(store) as opened:
        full = opened.find_run(run)
        spreads = [one for given in given_answers(opened, full) for one in pair_spreads(given)]
        costs = {one.plan.nodeid: _per_sample(one) for one in recalled(opened, full).experiments}
    if not spreads:
        raise SpecError(f"run {full} compared nothing, so how much the arms differ is not known: name one that did")
    return spreads, costs


def _per_sample(analysis: Analysis) -> PerSample:
    """Of the arms that this run asked itself: a baseline whose answers were stored is taken to cost what they do."""
    replies, asked = len(analysis.plan.arms) * analysis.plan.epochs, [one for one in analysis.usage if one.answered]
    answered = sum(one.answered for one in asked)
    tokens = [(one.input_tokens or 0) + (one.output_tokens or 0) for one in asked if not one.uncounted]
    costs = [one.cost_usd for one in asked if one.cost_usd is not None and not one.unpriced]
    return PerSample(
        replies=replies,
        tokens=replies * sum(tokens) / answered if asked and len(tokens) == len(asked) else None,
        cost_usd=replies * sum(costs) / answered if asked and len(costs) == len(asked) else None,
    )


def _need(
    spread: PairSpread, each: PerSample, *, difference: float | None, margin: float | None, power: float, alpha: float
) -> Need:
    if difference is not None:
        samples = samples_to_detect(difference, spread, alpha=alpha, power=power)
    else:
        samples = samples_to_prove(margin or 0.0, spread, alpha=alpha, power=power)
    amounts = [
        None if samples is None or one is None else samples * one for one in (each.replies, each.tokens, each.cost_usd)
    ]
    return Need(spread, samples, *amounts)


def _lines(needs: Sequence[Need]) -> Iterator[str]:
    rows = [
        (
            one.spread.metric,
            one.spread.baseline,
            _differ(one.spread),
            *map(_amount, (one.samples, one.replies, one.tokens)),
            _cost(one),
        )
        for one in needs
    ]
    yield from tabulate(
        [HEADS, *rows], tablefmt="plain", disable_numparse=True, colalign=("left",) * 3 + ("right",) * 4
    ).splitlines()


def _differ(spread: PairSpread) -> str:
    if spread.discordance is not None:
        return f"on {spread.discordance * 100:.3g} % of samples"
    return f"by a spread of {spread.deviation:.3g}"


def _amount(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"


def _cost(one: Need) -> str:
    return "unknown" if one.cost_usd is None else f"{one.cost_usd:,.2f} USD"
