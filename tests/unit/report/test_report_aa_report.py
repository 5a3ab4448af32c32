"""The lines of an A/A self-test."""

from __future__ import annotations

from dataclasses import replace

from pytest_crucible.commands.statistics import self_test_lines
from pytest_crucible.records import AATest
from pytest_crucible.stats.interval import Interval

GOOD = AATest(
    metric="exact", dealt="v2, 5 repeats", samples=1200, left_out=0, replicates=2000, alpha=0.05, seed=7, clusters=40,
    method="cr2", rate=0.048, interval=Interval(low=0.037, high=0.062, level=0.99, method="wilson"), holds=True,
)  # fmt: skip
BAD = replace(GOOD, metric="latency_s", rate=0.2, holds=False, left_out=3)
UNTRIED = replace(GOOD, rate=None, interval=None, holds=None, note="too few samples or groups for an answer")


def lines(*tests: AATest) -> list[str]:
    return list(self_test_lines("run1", {"t.py::t": tests}))


def test_a_rate_comes_with_its_interval_n_and_method():
    head, _, nodeid, _, row, _, conclusion = lines(GOOD)

    assert head.startswith("A/A self-test of run run1: ")
    assert "2,000 replicates with seed 7, alpha 0.05" in head
    assert nodeid == "t.py::t"
    for part in ("exact", "v2, 5 repeats", "1,200 in 40 groups", "cr2", "0.048 [0.037, 0.062]"):
        assert part in row
    assert conclusion == "Every comparison that could be tried keeps its error rate on these samples."


def test_too_many_false_alarms_name_the_metric_and_the_remedy():
    *_, row, _, conclusion = lines(GOOD, BAD)

    assert row.endswith("too many; 3 samples lack a score")
    assert conclusion.startswith("Comparisons of latency_s raise too many false alarms on these samples: declare")


def test_untried_comparisons_are_not_called_good():
    *_, row, _, conclusion = lines(UNTRIED)

    assert row.split("cr2")[1].split() == ["-", "too", "few", "samples", "or", "groups", "for", "an", "answer"]
    assert conclusion == "No comparison could be tried."
