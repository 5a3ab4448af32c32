"""A/A self-tests as lines: a row for each metric and each way to make two arms of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tabulate import tabulate

from pytest_crucible.records import AATest
from pytest_crucible.stats.number_format import with_interval

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
        yield from tabulate([_HEADS, *map(_row, tests)], tablefmt="plain", disable_numparse=True).splitlines()
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
