"""`crucible plan`, `calibrate` and `trend`: samples needed, false alarms of a suite, and a metric over the runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import click

from pytest_crucible.analyse.run_statistics import aa_tests, pair_variabilities
from pytest_crucible.commands.options import WithPages, json_option, print_result, run_argument, store_option
from pytest_crucible.plan.power import ASSUMED, samples_to_detect, samples_to_prove
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import AATest, Analysis, PairVariability
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.printable import aligned_lines
from pytest_crucible.report.trends import trend_table, trend_title
from pytest_crucible.runs.evaluate import stored_inputs
from pytest_crucible.runs.load_run import load_run
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.runs.trends import ALPHA, LAST, Trend, load_trend
from pytest_crucible.sections.usage import Usages
from pytest_crucible.stats.number_format import with_interval

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


@click.command("plan")
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
def plan_samples(
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
    level = alpha / family_size
    needs = [
        _need(
            spread,
            per_sample[spread.nodeid],
            samples_to_prove(margin or 0.0, spread, alpha=level, power=power)
            if difference is None
            else samples_to_detect(difference, spread, alpha=level, power=power),
        )
        for spread in variabilities
    ]
    goal = f"to detect a difference of {difference:g}" if difference is not None else f"to prove a margin of {margin:g}"
    basis = f"spread and cost from run {run}" if run else "spread assumed, cost unknown"
    head = f"{goal}: alpha {level:.3g}, power {power:g}, {basis}"
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
    with existing_store(store, reader="crucible plan") as opened:
        full = opened.find_run(run)
        spreads = [spread for inputs in stored_inputs(opened, full) for spread in pair_variabilities(inputs)]
        costs = {analysis.plan.nodeid: _per_sample(analysis) for analysis in load_run(opened, full).experiments}
    if not spreads:
        raise SpecError(f"run {full} has no comparison, so the spread of differences is unknown: name a run with one")
    return spreads, costs


def _per_sample(analysis: Analysis) -> PerSample:
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


def _need(spread: PairVariability, each: PerSample, samples: int | None) -> Need:
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
            *(
                "unknown" if amount is None else f"{amount:,.0f}"
                for amount in (need.samples, need.replies, need.tokens)
            ),
            "unknown" if need.cost_usd is None else f"{need.cost_usd:,.2f} USD",
        )
        for need in needs
    ]
    yield from aligned_lines([HEADS, *rows], right=range(3, 7))


def _differ(spread: PairVariability) -> str:
    if spread.discordance is not None:
        return f"on {spread.discordance * 100:.3g} % of samples"
    return f"by a spread of {spread.deviation:.3g}"


@click.command("calibrate", cls=WithPages)
@run_argument
@store_option
@click.option("--replicates", type=int, default=2000, metavar="N", help="Number of random splits.")
@click.option("--alpha", type=float, metavar="A", show_default="the run's", help="Error rate of the claims.")
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of the random splits.")
@json_option
def calibrate(run: str, store: str, replicates: int, alpha: float | None, seed: int, as_json: bool) -> int:
    """Split the answers of a stored run into two arms at random, many times, and count false alarms.

    Repeats of one arm are split between two arms; the answers of two arms are swapped. RUN is a run's id, or its beginning;
    by default the latest. Exits 1 when a comparison raises too many false alarms.
    """
    with existing_store(store, reader="crucible calibrate") as opened:
        run = opened.find_run(run)
        level = opened.run(run)["alpha"] if alpha is None else alpha
        experiments = {
            inputs.plan.nodeid: aa_tests(inputs, alpha=level, replicates=replicates, seed=seed)
            for inputs in stored_inputs(opened, run)
        }
    # An experiment with one arm and one repeat has nothing to split.
    tried = {nodeid: tests for nodeid, tests in experiments.items() if tests}
    if not tried:
        raise SpecError(
            f"run {run} has neither repeats nor two arms, so its replies cannot be split into two arms: "
            "run it with @pytest.mark.crucible(..., epochs=2) or with --compare"
        )
    print_result(self_test_lines(run, tried), {"run": run, "experiments": tried}, as_json=as_json)
    return int(any(test.holds is False for tests in tried.values() for test in tests))


_HEADS = ("metric", "dealt to two arms", "samples", "method", "false alarms [99 % interval]", "")


def self_test_lines(run: str, experiments: Mapping[str, Sequence[AATest]]) -> Iterator[str]:
    """Yield the lines of `crucible calibrate`."""
    all_tests = [test for tests in experiments.values() for test in tests]
    # All tests share the seed, so a replicate draws the same arms for every metric: the first test speaks for all.
    first = all_tests[0]
    yield (
        f"A/A self-test of run {run}: nothing differs between the arms, {first.replicates:,} replicates "
        f"with seed {first.seed}, alpha {first.alpha:g}"
    )
    for nodeid, tests in experiments.items():
        yield ""
        yield nodeid
        yield from aligned_lines([_HEADS, *map(_row, tests)])
    yield ""
    yield _conclusion(all_tests)


def _row(test: AATest) -> tuple[str, ...]:
    groups = "" if test.clusters is None else f" in {test.clusters:,} groups"
    rate = "-" if test.rate is None else with_interval(test.rate, test.interval)
    return test.metric, test.dealt, f"{test.samples:,}{groups}", test.method, rate, _remark(test)


def _remark(test: AATest) -> str:
    left_out = f"{test.left_out:,} samples lack a score" if test.left_out else ""
    return "; ".join(part for part in (test.note, "" if test.holds is not False else "too many", left_out) if part)


def _conclusion(tests: Sequence[AATest]) -> str:
    wrong = sorted({test.metric for test in tests if test.holds is False})
    if wrong:
        return (
            f"Comparisons of {', '.join(wrong)} raise too many false alarms on these samples: declare the metric's kind and "
            "bounds and the samples' groups, or ask more samples."
        )
    if all(test.holds is None for test in tests):
        return "No comparison could be tried."
    return "Every comparison that could be tried keeps its error rate on these samples."


@click.command("trend")
@click.argument("metric")
@click.option("--suite", default="", metavar="TEXT", help="The experiment whose name contains this text.")
@click.option("--adapter", default="", metavar="NAME", show_default="each run's candidate", help="The arm.")
@click.option("--last", type=click.IntRange(min=2), default=LAST, metavar="N", help="Number of latest runs.")
@click.option("--alpha", type=float, default=ALPHA, metavar="A", help="Error rate of all marked changes together.")
@store_option
@json_option
def print_trend(metric: str, suite: str, adapter: str, last: int, alpha: float, store: str, as_json: bool) -> None:
    """Print METRIC over the finished runs, oldest first, and where it is proven to have changed.

    The intervals hold together, and all pairs of runs share alpha, so that the most unusual run may be picked afterwards.
    """
    with existing_store(store, reader="crucible trend") as opened:
        course = load_trend(opened, metric, suite=suite, adapter=adapter, last=last, alpha=alpha)
    print_result(_trend_lines(course), course.points, as_json=as_json)


def _trend_lines(course: Trend) -> Iterator[str]:
    title = trend_title(course.metric, course.nodeid, course.points, course.level)
    table = trend_table(title, course.points)
    yield title
    yield ""
    yield from aligned_lines([table.heads, *(row.cells for row in table.rows)], right=(4, 5))
