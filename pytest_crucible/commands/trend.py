"""`crucible trend`: one metric over the stored runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import click
from tabulate import tabulate

from pytest_crucible.analyse.analysis import Given, clusters_of, metric_facts
from pytest_crucible.analyse.scores import scores
from pytest_crucible.analyse.trends import Seen, trend
from pytest_crucible.commands.answers import given_answers
from pytest_crucible.commands.options import json_option, say, store_option
from pytest_crucible.commands.stores import existing_store
from pytest_crucible.errors import SpecError
from pytest_crucible.numerals import with_interval
from pytest_crucible.records import MetricFacts, RunListed, TrendPoint
from pytest_crucible.store.history import listed_runs

SIGNS = {"proven": "<- changed, proven", "other samples": "<- other samples"}


@click.command("trend", short_help="One metric over the stored runs, and where it changed.")
@click.argument("metric")
@click.option("--suite", default="", metavar="TEXT", help="The experiment whose name has this text in it.")
@click.option("--adapter", default="", metavar="NAME", show_default="each run's candidate", help="The arm.")
@click.option("--last", type=click.IntRange(min=2), default=20, metavar="N", help="How many runs, the latest ones.")
@click.option("--alpha", type=float, default=0.05, metavar="A", help="Error rate of all that is marked as changed.")
@store_option
@json_option
def command(metric: str, suite: str, adapter: str, last: int, alpha: float, store: str, as_json: bool) -> None:
    """METRIC over the finished runs, oldest first, and where it is proven to have changed.

    The intervals hold together, and all pairs of runs share alpha: to look at every run and pick the oddest one is allowed.
    """
    with existing_store(store) as opened:
        runs = [one for one in listed_runs(opened, suite=suite) if one.status == "finished"]
        known = (
            (run, given) for run in runs for given in given_answers(opened, run.id)
            if suite in given.plan.nodeid and _number(given, metric, adapter) is not None
        )  # fmt: skip
        found = list(islice(known, last))  # older runs are not read
    nodeids = sorted({given.plan.nodeid for _, given in found})
    if len(nodeids) > 1:
        raise SpecError(
            f"metric {metric!r} is in {len(nodeids)} experiments: say which with --suite, such as {nodeids[0]}"
        )
    if not found:
        raise SpecError(f"no finished run has scored {metric!r}: `crucible runs` lists what there is")
    points = trend(
        metric_facts(found[0][1])[metric], [_seen(*one, metric, adapter) for one in reversed(found)], alpha=alpha
    )
    say(_lines(points, nodeids[0], metric, 1 - alpha), points, as_json=as_json)


def _number(given: Given, metric: str, adapter: str) -> int | None:
    """The arm's, where it has been scored."""
    names = [arm.name for arm in given.plan.arms]
    number = 0 if not adapter else names.index(adapter) if adapter in names else None
    return number if number is not None and metric in given.answers[number].scores else None


def _seen(run: RunListed, given: Given, metric: str, adapter: str) -> Seen:
    facts: MetricFacts = metric_facts(given)[metric]
    number = _number(given, metric, adapter) or 0
    return Seen(
        run=run.id,
        started=run.started,
        arm=given.plan.arms[number].name,
        dataset=given.plan.dataset_sha256,
        scores=scores(facts, given.answers[number], samples=len(given.groups), epochs=given.plan.epochs),
        clusters=clusters_of(given.groups),
    )


def _lines(points: Sequence[TrendPoint], nodeid: str, metric: str, level: float) -> Iterator[str]:
    yield f"{metric} of {nodeid}, {len(points)} runs; the intervals hold together at {level * 100:g} %"
    yield ""
    heads = ("run", "started", "arm", "estimate", "n", "lost", "")
    rows = [
        (
            one.run, one.started[:16].replace("T", " "), one.estimate.arm,
            with_interval(one.estimate.value, one.estimate.interval),
            f"{one.estimate.n:,}", f"{one.estimate.lost:,}", SIGNS.get(one.change, ""),
        )
        for one in points
    ]  # fmt: skip
    align = ("left",) * 4 + ("right",) * 2 + ("left",)
    yield from tabulate([heads, *rows], tablefmt="plain", disable_numparse=True, colalign=align).splitlines()
