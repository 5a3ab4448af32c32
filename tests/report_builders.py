"""Builds runs as report formats get them: fixtures for the tests of formats and sections."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from pytest_crucible.features.ensembles import section as diversity
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import (
    Analysis,
    Arm,
    BoundedValue,
    Comparison,
    Contrast,
    EffectSize,
    Estimate,
    Evidence,
    Fingerprint,
    MetricFacts,
    Plan,
    Run,
    SectionOutcome,
    TargetResult,
    Verdict,
)
from pytest_crucible.sections import usage, worst_samples
from pytest_crucible.sections.replies import CACHE, LOSSES, Losses, OldAnswers
from pytest_crucible.sections.usage import Usages
from pytest_crucible.sections.worst_samples import WorstSample
from pytest_crucible.stats.interval import Interval

NODEID = "test_math.py::test_sums"


def estimate(metric: str, arm: str, value: float, low: float, high: float, **facts) -> Estimate:
    fields = {"statistic": "mean", "n": 200, "lost": 0, "inapplicable": 0, "unconditional": None, "clusters": None}
    interval = Interval(low=low, high=high, level=0.95, method="wilson")
    return Estimate(metric=metric, arm=arm, value=value, interval=interval, method="wilson", **{**fields, **facts})


def make_plan(**facts) -> Plan:
    fields = {
        "nodeid": NODEID, "path": "test_math.py", "line": 3, "dataset": "sums", "dataset_sha256": "ab" * 32,
        "planned": 200, "selected": 200, "groups": None, "repeats": 1, "open_metrics": False,
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
    return Plan(**{**fields, **facts})


WORST = WorstSample(metric="exact", value=0.0, baseline_value=1.0, sample="sums-0007", reply="The answer is 4.")


def outcome_of(section, result) -> SectionOutcome:
    """A section's outcome for a result, as an evaluated run has it."""
    claims = tuple(section.claims(result))
    return SectionOutcome(result=result, claims=claims, view=section.view(result, claims))


def make_sections(
    plan: Plan, *, lost=None, failures=None, first_lost=None, reused=None, from_cache=None, worst=(WORST,),
    usages=(), diversities=(),
) -> dict[str, SectionOutcome]:  # fmt: skip
    """Outcomes of the built-in sections, in their order; what is empty has none."""
    none = {arm.name: {} for arm in plan.arms}
    counts = Losses(
        lost=none | ({"v2": {"error": 2}} if lost is None else lost),
        failures=none | ({"v2": {"truncated": 1, "timeout": 3}} if failures is None else failures),
        first=none | (first_lost or {}),
    )
    old = OldAnswers(plan=plan, reused=reused or {}, cached=from_cache or {})
    simulated = frozenset(arm.name for arm in plan.arms if arm.simulated)
    outcomes = {
        "losses": outcome_of(LOSSES, counts),
        "cache": outcome_of(CACHE, old) if reused or from_cache else None,
        "usage": outcome_of(usage, Usages(usages=usages, simulated=simulated, level=0.95)) if usages else None,
        "diversity": outcome_of(diversity, diversities) if diversities else None,
        "worst_samples": outcome_of(worst_samples, worst) if worst else None,
    }
    return {name: outcome for name, outcome in outcomes.items() if outcome is not None}


SECTION_FACTS = ("lost", "failures", "first_lost", "reused", "from_cache", "worst", "usages", "diversities")


def make_analysis(plan: Plan, **facts) -> Analysis:
    of_sections = {name: facts.pop(name) for name in SECTION_FACTS if name in facts}
    reading = BoundedValue(value=-0.035, lower=-0.078, upper=0.008, p_value=0.18)
    exact = estimate("exact", "v2", 0.81, 0.75, 0.858)
    seconds = estimate("seconds", "v2", 1.25, 1.1, float("inf"), statistic="p95", n=198, lost=2)
    proven = Evidence(observed=reading, worst=reading, best=reading, method="clopper-pearson")
    compared = dataclasses.replace(proven, method="exact unconditional")
    request = make_plan()
    fields = {
        "estimates": (exact, estimate("exact", "v1", 0.845, 0.788, 0.889)),
        "targets": (
            TargetResult(target=request.targets[0], estimate=exact, evidence=proven, needed=12000),
            TargetResult(target=request.targets[1], estimate=seconds, evidence=proven, needed=None),
        ),
        "comparisons": (
            Comparison(
                contrast=request.contrasts[0], candidate="v2", pairs=198, lost=2, clusters=None, difference=-0.035,
                interval=Interval(low=-0.0871, high=0.0164, level=0.95, method="exact unconditional"), p_value=0.18, p_exact=0.229,
                method="exact unconditional", evidence=compared, detectable=0.0742, needed=890, p_adjusted=0.18,
                effects=(EffectSize(name="discordant odds ratio", value=0.7, interval=None),),
            ),
        ),
        "kinds": {"exact": "binary", "seconds": "unbounded"},
        "finished": True,
        "sections": make_sections(plan, **of_sections),
    }  # fmt: skip
    return Analysis(plan=plan, **{**fields, **facts})


VERDICTS = (
    (
        "exact >= 0.80",
        "target",
        "met",
        False,
        "unproven: one-sided bound 0.76 < target 0.80; proof needs about n=12,000 at this estimate (80 % power)",
    ),
    ("p95(seconds) <= 2", "target", "met", True, "one-sided bound 1.9 <= target 2"),
    ("exact: v2 vs v1", "comparison", "missed", True, "a regression is proven"),
)


def make_run(*analyses: Analysis, **facts) -> Run:
    verdicts = tuple(
        Verdict(nodeid=analysis.plan.nodeid, subject=subject, kind=kind, state=state, proven=proven, reason=reason)
        for analysis in analyses
        for subject, kind, state, proven, reason in VERDICTS
    )
    fields = {
        "id": "a1b2c3", "started": "2026-01-01T00:00:00", "finished": "2026-01-01T00:01:00", "seed": 7,
        "git": {"commit": "c0ffee", "dirty": False}, "environment": {"python": "3.12"}, "alpha": 0.05,
        "correction": "holm", "family_size": sum(len(analysis.plan.contrasts) for analysis in analyses), "exit_status": 1,
        "store": ".crucible/crucible.db", "verdicts": verdicts,
    }  # fmt: skip
    return Run(experiments=analyses, **{**fields, **facts})


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
