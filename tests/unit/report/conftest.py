"""A run as the reporters are given it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import (
    Analysis,
    Arm,
    Comparison,
    Contrast,
    EffectSize,
    Estimate,
    Evidence,
    Fingerprint,
    Interval,
    MetricFacts,
    Plan,
    Reading,
    Run,
    TargetResult,
    Verdict,
    Worst,
)

NODEID = "test_math.py::test_sums"


def estimate(metric: str, arm: str, value: float, low: float, high: float, **facts) -> Estimate:
    given = {"statistic": "mean", "n": 200, "lost": 0, "inapplicable": 0, "unconditional": None, "clusters": None}
    interval = Interval(low=low, high=high, level=0.95, method="wilson")
    return Estimate(metric=metric, arm=arm, value=value, interval=interval, method="wilson", **{**given, **facts})


def make_plan(**facts) -> Plan:
    given = {
        "nodeid": NODEID, "path": "test_math.py", "line": 3, "dataset": "sums", "dataset_sha256": "ab" * 32,
        "planned": 200, "selected": 200, "groups": None, "epochs": 1, "open_metrics": False,
        "arms": (
            Arm(name="v2", role="candidate", adapter="v2", identity="two", parameters={"temperature": 0.0}),
            Arm(name="v1", role="baseline", adapter="v1", identity="one"),
        ),
        "metrics": (
            MetricFacts(name="exact", kind="binary", low=0.0, high=1.0),
            MetricFacts(name="seconds", direction="lower", low=0.0),
        ),
        "targets": (parse_target("exact >= 0.80"), parse_target("p95(seconds) <= 2")),
        "contrasts": (Contrast(metric="exact", baseline="v1"),),
        "fingerprint": Fingerprint(dataset="", function="", metrics="", sampling=""),
    }  # fmt: skip
    return Plan(**{**given, **facts})


def make_analysis(plan: Plan, **facts) -> Analysis:
    reading = Reading(value=-0.035, lower=-0.078, upper=0.008, p_value=0.18)
    exact = estimate("exact", "v2", 0.81, 0.75, 0.858)
    seconds = estimate("seconds", "v2", 1.25, 1.1, float("inf"), statistic="p95", n=198, lost=2)
    proven = Evidence(observed=reading, worst=reading, best=reading, method="clopper-pearson")
    compared = dataclasses.replace(proven, method="tango")
    asked = make_plan()
    given = {
        "estimates": (exact, estimate("exact", "v1", 0.845, 0.788, 0.889)),
        "targets": (
            TargetResult(target=asked.targets[0], estimate=exact, evidence=proven, needed=12000),
            TargetResult(target=asked.targets[1], estimate=seconds, evidence=proven, needed=None),
        ),
        "comparisons": (
            Comparison(
                contrast=asked.contrasts[0], candidate="v2", pairs=198, lost=2, clusters=None, difference=-0.035,
                interval=Interval(low=-0.0871, high=0.0164, level=0.95, method="tango"), p_value=0.18, p_exact=0.229,
                method="tango", evidence=compared, detectable=0.0742, needed=890, p_adjusted=0.18,
                effects=(EffectSize(name="discordant odds ratio", value=0.7, interval=None),),
            ),
        ),
        "kinds": {"exact": "binary", "seconds": "unbounded"},
        "lost": {"v2": {"error": 2}, "v1": {}},
        "failures": {"v2": {"truncated": 1, "timeout": 3}, "v1": {}},
        "finished": True,
        "worst": (Worst(metric="exact", value=0.0, baseline_value=1.0, sample="sums-0007", reply="The answer is 4."),),
    }  # fmt: skip
    return Analysis(plan=plan, **{**given, **facts})


VERDICTS = (
    ("exact >= 0.80", "target", "met", False, "unproven; proof needs about n=12,000 at this estimate"),
    ("p95(seconds) <= 2", "target", "met", True, "the one-sided bound 1.9 proves it"),
    ("exact: v2 vs v1", "comparison", "missed", True, "a regression is proven"),
)


def make_run(*analyses: Analysis, **facts) -> Run:
    verdicts = tuple(
        Verdict(nodeid=one.plan.nodeid, subject=subject, kind=kind, state=state, proven=proven, reason=reason)
        for one in analyses
        for subject, kind, state, proven, reason in VERDICTS
    )
    given = {
        "id": "a1b2c3", "started": "2026-01-01T00:00:00", "finished": "2026-01-01T00:01:00", "seed": 7,
        "git": {"commit": "c0ffee", "dirty": False}, "environment": {"python": "3.12"}, "alpha": 0.05,
        "correction": "holm", "questions": sum(len(one.plan.contrasts) for one in analyses), "exit_status": 1,
        "store": ".crucible/crucible.db", "verdicts": verdicts,
    }  # fmt: skip
    return Run(experiments=analyses, **{**given, **facts})


@pytest.fixture
def plan() -> Callable[..., Plan]:
    return make_plan


@pytest.fixture
def analysis() -> Callable[..., Analysis]:
    """An experiment; what is given replaces what it would hold."""
    return lambda plan=None, **facts: make_analysis(plan or make_plan(), **facts)


@pytest.fixture
def run() -> Callable[..., Run]:
    """A run of some experiments, or of one."""
    return lambda *analyses, **facts: make_run(*(analyses or (make_analysis(make_plan()),)), **facts)
