"""The whole run as JSON. The keys are a contract: docs/reference/json.md describes them, `format` counts their versions."""

from __future__ import annotations

import json
import math
from typing import Any

from pytest_crucible.records import Analysis, Comparison, Estimate, MetricFacts, Plan, Run, Verdict
from pytest_crucible.records.plan import LEFT_OUT
from pytest_crucible.records.serialize import pick, to_plain
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.report.sections import section_views

# Readers check this number: raise it whenever a key is renamed, is removed, or changes its meaning.
FORMAT = 2


def render_json(run: Run) -> str:
    """Return a run as a JSON text: strict JSON, infinities as the strings "inf" and "-inf"."""
    return json.dumps(to_plain(run_document(run)), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def run_document(run: Run) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "run": {
            **pick(run, "id started finished seed git environment alpha correction family_size"),
            "budgets": to_plain(run.budgets),
            **{fact.name: to_plain(fact.document) for fact in run.own_facts},
        },
        "experiments": [_experiment(analysis, run) for analysis in run.experiments],
        "exit_status": run.exit_status,
    }


def _experiment(analysis: Analysis, run: Run) -> dict[str, Any]:
    plan = analysis.plan
    # Means of targets are among the estimates already.
    extra = [result.estimate for result in analysis.targets if result.estimate.statistic != "mean"]
    return {
        "nodeid": plan.nodeid,
        "finished": analysis.finished,
        "dataset": {
            "name": plan.dataset,
            "sha256": plan.dataset_sha256,
            "n": plan.planned,
            "groups": plan.groups,
            "origin": to_plain(plan.origin),
            "selection": to_plain(plan.selection),
            "left_out": to_plain(LEFT_OUT.of(plan)),
        },
        "repeats": plan.repeats,
        "arms": [
            {
                **pick(arm, "name role adapter identity parameters simulated members"),
                "seeds": [training.seed for training in arm.trainings],
            }
            for arm in plan.arms
        ],
        "metrics": [_metric(plan, name, kind) for name, kind in analysis.kinds.items()],
        "estimates": [_estimate(estimate) for estimate in (*analysis.estimates, *extra)],
        "exclusions": [
            {"reason": exclusion.reason, "samples": len(exclusion.sample_ids)} for exclusion in plan.exclusions
        ],
        "comparisons": [_comparison(comparison) for comparison in analysis.comparisons],
        "sections": {name: to_plain(view.document) for name, view in section_views(analysis)},
        "verdicts": [_verdict(verdict, run) for verdict in run.verdicts if verdict.nodeid == plan.nodeid],
    }


def _verdict(verdict: Verdict, run: Run) -> dict[str, Any]:
    facts = {fact.name: to_plain(fact.document) for fact in run.facts_of(verdict)}
    return {**pick(verdict, "subject kind state proven suite_error reason"), **facts}


def _metric(plan: Plan, name: str, kind: str) -> dict[str, Any]:
    facts = plan.facts.get(name, MetricFacts(name=name))
    direction = facts.direction if facts.is_directed else None
    return {"name": name, "kind": kind, "direction": direction, "applies": facts.applies, "reach": facts.reach}


def _estimate(estimate: Estimate) -> dict[str, Any]:
    interval = estimate.interval
    return {
        **pick(estimate, "metric statistic arm n lost inapplicable replies clusters value unconditional"),
        **interval_ends(interval),
        "level": interval.level if interval else None,
        "method": estimate.method,
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    contrast = comparison.contrast
    return {
        "metric": contrast.metric,
        "statistic": contrast.label,
        "candidate": comparison.candidate,
        **pick(contrast, "baseline alternative"),
        **pick(comparison, "pairs lost clusters"),
        **_difference(comparison),
        "level": comparison.interval.level if comparison.interval else None,
        **pick(comparison, "p_value p_exact p_adjusted proof_p proof_adjusted arrangements method"),
        "margin": contrast.margin,
        "margin_is_relative": contrast.margin is not None and contrast.is_relative,
        "relevant": contrast.relevant,
        "relevant_is_relative": contrast.relevant is not None and contrast.is_relative,
        "needed": comparison.needed,
        "effects": [{**pick(effect, "name value"), **interval_ends(effect.interval)} for effect in comparison.effects],
        "note": comparison.note,
        "beyond_reach": to_plain(comparison.beyond_reach),
        "suggested_reach": comparison.suggested_reach,
    }


def _difference(comparison: Comparison) -> dict[str, Any]:
    """Return the difference in the metric's units; null where the arms are compared by a ratio, which has its own keys."""
    observed, method = comparison.evidence.observed, comparison.evidence.method
    ratio, detectable = comparison.ratio, comparison.detectable
    if ratio is None:
        return {
            "difference": comparison.difference,
            **interval_ends(comparison.interval),
            "bounds": {"lower": observed.lower, "upper": observed.upper, "method": method},
            "detectable": detectable,
            "detectable_falls": comparison.detectable_falls,
            "ratio": None,
        }
    bounds = sorted(ratio.of(bound) for bound in (observed.lower, observed.upper) if bound is not None)
    lower, upper = bounds if len(bounds) == 2 else (None, None)
    return {
        "difference": None,
        **interval_ends(None),
        "bounds": {"lower": None, "upper": None, "method": method},
        "detectable": None,
        "detectable_falls": None,
        "ratio": {
            "name": ratio.name,
            "value": ratio.value,
            **interval_ends(ratio.interval),
            "bounds": {"lower": lower, "upper": upper},
            "detectable": None if detectable is None else math.exp(detectable),
        },
    }
