"""The whole run as JSON. The keys are a contract: docs/reference/json.md describes them, `format` counts their versions."""

from __future__ import annotations

import json
from typing import Any

from pytest_crucible.records import JUDGE, Analysis, Comparison, Drift, EffectSize, Estimate, Plan, Run, Verdict
from pytest_crucible.report.diversity import diversity_document
from pytest_crucible.report.findings import finding_document
from pytest_crucible.report.judges import judge_document, judge_usage_document
from pytest_crucible.report.usage import usage_document
from pytest_crucible.wire import to_plain

FORMAT = 1


def render_json(run: Run) -> str:
    """A run as a JSON text: strict JSON, infinities as the strings "inf" and "-inf"."""
    return json.dumps(to_plain(run_document(run)), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def run_document(run: Run) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "run": {
            "id": run.id,
            "started": run.started,
            "finished": run.finished,
            "seed": run.seed,
            "git": run.git,
            "environment": run.environment,
            "alpha": run.alpha,
            "correction": run.correction,
            "questions": run.questions,
            "budgets": to_plain(run.budgets),
        },
        "experiments": [_experiment(analysis, run.verdicts) for analysis in run.experiments],
        "exit_status": run.exit_status,
    }


def _experiment(analysis: Analysis, verdicts: tuple[Verdict, ...]) -> dict[str, Any]:
    plan = analysis.plan
    extra = [result.estimate for result in analysis.targets if result.estimate.statistic != "mean"]
    return {
        "nodeid": plan.nodeid,
        "finished": analysis.finished,
        "dataset": _dataset(plan),
        "epochs": plan.epochs,
        "arms": [_arm(plan, number, analysis) for number in range(len(plan.arms))],
        "metrics": [_metric(plan, name, kind) for name, kind in analysis.kinds.items()],
        "estimates": [_estimate(one) for one in (*analysis.estimates, *extra)],
        "comparisons": [_comparison(one) for one in analysis.comparisons],
        "drifts": [_drift(one) for one in analysis.drifts],
        "diversity": [diversity_document(one) for one in analysis.diversity],
        "findings": [finding_document(one) for one in analysis.findings],
        "judges": [judge_document(one) for one in analysis.judges],
        "judge_usage": [judge_usage_document(one) for one in analysis.usage if one.arm.startswith(JUDGE)],
        "verdicts": [_verdict(one) for one in verdicts if one.nodeid == plan.nodeid],
    }


def _dataset(plan: Plan) -> dict[str, Any]:
    return {
        "name": plan.dataset,
        "sha256": plan.dataset_sha256,
        "n": plan.planned,
        "groups": plan.groups,
        "origin": to_plain(plan.origin),
        "selection": to_plain(plan.selection),
    }


def _arm(plan: Plan, number: int, analysis: Analysis) -> dict[str, Any]:
    arm = plan.arms[number]
    return {
        "name": arm.name,
        "role": arm.role,
        "adapter": arm.adapter,
        "identity": arm.identity,
        "parameters": arm.parameters,
        "simulated": arm.simulated,
        "training": to_plain(arm.training),
        "members": arm.members,
        "reused": to_plain(analysis.reused.get(arm.name)),
        "cached": to_plain(analysis.from_cache.get(arm.name)),
        "lost": analysis.lost[arm.name],
        "failures": analysis.failures[arm.name],
        "usage": usage_document(analysis, arm.name),
    }


def _metric(plan: Plan, name: str, kind: str) -> dict[str, Any]:
    direction = next((facts.direction for facts in plan.metrics if facts.name == name), "higher")
    return {"name": name, "kind": kind, "direction": direction}


def _estimate(one: Estimate) -> dict[str, Any]:
    interval = one.interval
    return {
        "metric": one.metric,
        "statistic": one.statistic,
        "arm": one.arm,
        "n": one.n,
        "lost": one.lost,
        "inapplicable": one.inapplicable,
        "clusters": one.clusters,
        "value": one.value,
        "unconditional": one.unconditional,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "level": interval.level if interval else None,
        "method": one.method,
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    interval, contrast, observed = one.interval, one.contrast, one.evidence.observed
    return {
        "metric": contrast.metric,
        "candidate": one.candidate,
        "baseline": contrast.baseline,
        "alternative": contrast.alternative,
        "pairs": one.pairs,
        "lost": one.lost,
        "clusters": one.clusters,
        "difference": one.difference,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "level": interval.level if interval else None,
        "p_value": one.p_value,
        "p_exact": one.p_exact,
        "p_adjusted": one.p_adjusted,
        "method": one.method,
        "margin": contrast.margin,
        "bounds": {"lower": observed.lower, "upper": observed.upper, "method": one.evidence.method},
        "detectable": one.detectable,
        "needed": one.needed,
        "effects": [_effect(effect) for effect in one.effects],
        "note": one.note,
    }


def _drift(one: Drift) -> dict[str, Any]:
    interval, pair = one.comparison.interval, one.comparison
    return {
        "arm": one.arm,
        "run": one.run,
        "metric": pair.contrast.metric,
        "pairs": pair.pairs,
        "lost": pair.lost,
        "difference": pair.difference,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "p_adjusted": pair.p_adjusted,
        "found": one.found,
    }


def _effect(one: EffectSize) -> dict[str, Any]:
    interval = one.interval
    return {
        "name": one.name,
        "value": one.value,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }


def _verdict(one: Verdict) -> dict[str, Any]:
    return {
        "subject": one.subject,
        "kind": one.kind,
        "state": one.state,
        "proven": one.proven,
        "mistake": one.mistake,
        "reason": one.reason,
    }
