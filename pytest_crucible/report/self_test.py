"""A/A self-tests as lines: a row for each metric and each way to make two arms of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tabulate import tabulate

from pytest_crucible.numerals import with_interval
from pytest_crucible.records import SelfTest

_HEADS = ("metric", "dealt to two arms", "samples", "method", "false alarms [99 % interval]", "")


def self_test_lines(run: str, experiments: Mapping[str, Sequence[SelfTest]]) -> Iterator[str]:
    """All that `crucible calibrate` says. What one replicate drew is the same for every metric: they share the seed."""
    found = [one for tests in experiments.values() for one in tests]
    first = found[0]
    yield (
        f"A/A self-test of run {run}: nothing differs between the arms, {first.replicates:,} replicates "
        f"with seed {first.seed}, alpha {first.alpha:g}"
    )
    for nodeid, tests in experiments.items():
        yield ""
        yield nodeid
        yield from tabulate([_HEADS, *map(_row, tests)], tablefmt="plain", disable_numparse=True).splitlines()
    yield ""
    yield _conclusion(found)


def _row(one: SelfTest) -> tuple[str, ...]:
    groups = "" if one.clusters is None else f" in {one.clusters:,} groups"
    rate = "-" if one.rate is None else with_interval(one.rate, one.interval)
    return one.metric, one.dealt, f"{one.samples:,}{groups}", one.method, rate, _remark(one)


def _remark(one: SelfTest) -> str:
    left_out = f"{one.left_out:,} samples lack a score" if one.left_out else ""
    return "; ".join(part for part in (one.note, "" if one.holds is not False else "too many", left_out) if part)


def _conclusion(found: Sequence[SelfTest]) -> str:
    wrong = sorted({one.metric for one in found if one.holds is False})
    if wrong:
        return (
            f"Comparisons of {', '.join(wrong)} cry wolf too often on these samples: declare the metric's kind and "
            "bounds and the samples' groups, or ask more samples."
        )
    if all(one.holds is None for one in found):
        return "No comparison could be tried."
    return "Every comparison that could be tried keeps its error rate on these samples."
