"""Many arms: three or more, with the ranks that remain possible and the arms that may be the best."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from pytest_crucible.analyse.many_arms import FEWEST_ARMS, ArmResult, ManyArms, compare_many_arms
from pytest_crucible.analyse.statistics import SampleAttributes
from pytest_crucible.records import Chart, Claim, Note, Point, Row, Statement, Table, View
from pytest_crucible.records.serialize import pick
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.sections.inputs import SectionInputs, no_claims
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import quantity, ratio_with_interval, with_interval

decides = False  # no claim of it can fail the session
claims = no_claims

# More names than this are not read in a sentence; the table has them all.
MOST_NAMES = 8
METHOD = Statement(
    text="Ranks and differences of several arms hold for all arms together: step-down max-T over all pairs, with critical "
    "values simulated from the arms' covariance",
    cites=("romano2005", "mogstad2024"),
)


def compute(inputs: SectionInputs) -> tuple[ManyArms, ...] | None:
    """Return the arms by each directed metric that a comparison or a target names; None below three arms."""
    return tuple(_tables(inputs)) or None


def view(tables: Sequence[ManyArms], claims: Sequence[Claim]) -> View:
    """Return a table, a sentence and a chart for each metric."""
    return View(
        title="All arms",
        tables=tuple(map(_table, tables)),
        notes=tuple(Note(text=not_worse_text(table)) for table in tables),
        charts=tuple(map(_chart, tables)),
        methods=(METHOD,) if any(not table.reason for table in tables) else (),
        document=[_document(table) for table in tables],
    )


def _tables(inputs: SectionInputs) -> Iterator[ManyArms]:
    names = [arm.name for arm in inputs.plan.arms]
    attributes = SampleAttributes(
        inputs.clusters, random_factors=inputs.plan.random_factors, look_alpha=inputs.plan.look_alpha
    )
    measures = (*inputs.plan.contrasts, *inputs.plan.targets)
    for metric in dict.fromkeys(name for measure in measures for name in measure.metrics):
        facts, scores = inputs.facts.get(metric), inputs.scores.get(metric)
        if facts is None or scores is None or not facts.is_directed:
            continue
        arms = [pair for pair in zip(names, scores, strict=True) if pair[1].seen.any() or not facts.of_ensemble]
        if len(arms) >= FEWEST_ARMS:
            # Where all claims share an error rate, ranks use it, too.
            rank_alpha = inputs.alpha if inputs.claims_alpha is None else inputs.claims_alpha
            # As in the verdicts: the interval of a candidate that the same samples have chosen holds for all that could have won.
            mean_alpha = inputs.alpha / inputs.plan.chosen_among
            yield compare_many_arms(
                facts, arms, attributes, alpha=inputs.alpha, mean_alpha=mean_alpha, rank_alpha=rank_alpha
            )


def _table(table: ManyArms) -> Table:
    percent = f"{table.level * 100:g} %"
    return Table(
        title=f"Arms by {table.metric}",
        heads=(
            f"arm by {table.metric}",
            f"estimate [{percent}]",
            "n",
            "lost",
            "rank [possible]",
            "ratio to the best" if table.by_ratio else "from the best",
        ),
        rows=tuple(Row(cells=_cells(result, table)) for result in sorted(table.arms, key=_place)),
        numbers=("n", "lost"),
        note=_table_note(table, percent),
    )


def _place(result: ArmResult) -> float:
    return math.inf if result.rank is None else result.rank


def _cells(result: ArmResult, table: ManyArms) -> tuple[str, ...]:
    return (
        result.arm,
        with_interval(result.value, result.interval),
        f"{result.n:,}",
        f"{result.lost:,}",
        rank_text(result),
        distance_text(result, table),
    )


def rank_text(result: ArmResult) -> str:
    """Return a rank with those that remain possible: `1 [1, 2]`."""
    return "" if result.ranks is None else f"{result.rank or '-'} [{result.ranks[0]}, {result.ranks[1]}]"


def distance_text(result: ArmResult, table: ManyArms) -> str:
    """Return an arm's difference from the best, or its ratio to it."""
    if result.difference is None:
        return ""
    if result.arm == table.best:
        return "the best"
    if not table.by_ratio:
        return with_interval(result.difference, result.difference_interval, sign=True)
    value, interval = _ratio(result, table)
    return ratio_with_interval(value, interval)


def _ratio(result: ArmResult, table: ManyArms) -> tuple[float, Interval | None]:
    """Return the arm's geometric mean over that of the best arm: below 1 it has less, which may be better or worse."""
    sign, interval = (1 if table.direction == "higher" else -1), result.difference_interval
    if interval is not None:
        low, high = sorted(math.exp(sign * end) for end in (interval.low, interval.high))
        interval = replace(interval, low=low, high=high)
    return math.exp(sign * (result.difference or 0.0)), interval


def _table_note(table: ManyArms, percent: str) -> str:
    if table.reason:
        return f"No ranks: {table.reason}."
    units = "" if table.clusters is None else f" in {quantity(table.clusters, 'group')}"
    lost = (
        f"; ranks also whatever the {quantity(table.incomplete, 'lost sample')} would score" if table.incomplete else ""
    )
    common = quantity(table.n, "common sample")
    return f"Ranks and differences hold for all arms together ({percent}), on the {common}{units}{lost}."


def not_worse_text(table: ManyArms, noun: str = "arms", left_out: Collection[str] = ()) -> str:
    """Return a sentence that names the arms that may be the best, but for those left out."""
    count = len(table.arms) - len(left_out)
    many = f"{count:,} {noun}"
    if table.reason:
        return f"{table.metric}: the {many} are not ranked: {table.reason}"
    names = [name for name in table.not_proven_worse if name not in left_out]
    if len(names) == count:
        return f"{table.metric}: none of the {many} is proven worse than the best"
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return f"{table.metric}: not proven worse than the best of {many}: {', '.join(names[:MOST_NAMES])}{more}"


def _chart(table: ManyArms) -> Chart:
    points = (
        Point(label=result.arm, value=result.value, interval=result.interval)
        for result in sorted(table.arms, key=_place)
    )
    return Chart(title=f"Arms by {table.metric}", points=tuple(points))


def _document(table: ManyArms) -> dict[str, object]:
    return {
        **pick(table, "metric direction level n incomplete clusters draws best"),
        "not_proven_worse": None if table.reason else list(table.not_proven_worse),
        "reason": table.reason,
        "arms": [arm_document(result, table) for result in table.arms],
    }


def arm_document(result: ArmResult, table: ManyArms) -> dict[str, object]:
    """Return the JSON of an arm."""
    difference, interval, ratio = result.difference, result.difference_interval, None
    if table.by_ratio and difference is not None:
        value, limits = _ratio(result, table)
        ratio, difference, interval = {"value": value, **interval_ends(limits)}, None, None
    best_rank, worst_rank = result.ranks or (None, None)
    return {
        **pick(result, "arm value"),
        **interval_ends(result.interval),
        **pick(result, "n lost rank"),
        "best_rank": best_rank,
        "worst_rank": worst_rank,
        "p_worse": result.p_worse,
        "difference": difference,
        **{f"difference_{name}": end for name, end in interval_ends(interval).items()},
        "ratio": ratio,
    }
