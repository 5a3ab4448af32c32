"""The JSON document: its keys are a contract, and it is strict JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from pytest_crucible.records import CachedReplies, ReusedReplies
from pytest_crucible.report.json import render_json

CONTRACT = {
    "": "format run experiments exit_status",
    "run": "id started finished seed git environment alpha correction family_size",
    "experiments": "nodeid dataset arms estimates comparisons verdicts",
    "experiments.dataset": "name sha256 n",
    "experiments.arms": "name role adapter",
    "experiments.estimates": "metric arm n lost value low high level method",
    "experiments.comparisons": "metric candidate baseline pairs lost clusters difference low high p_value p_exact "
    "p_adjusted proof_p proof_adjusted arrangements method margin detectable detectable_falls",
    "experiments.verdicts": "subject kind state proven reason",
}
MORE = {
    "run": "budgets",
    "experiments": "finished repeats metrics sections exclusions",
    "experiments.dataset": "groups selection origin left_out",
    "experiments.arms": "identity parameters simulated members seeds",
    "experiments.estimates": "statistic inapplicable replies clusters unconditional",
    "experiments.comparisons": "alternative statistic level bounds needed effects note ratio margin_is_relative relevant "
    "relevant_is_relative beyond_reach suggested_reach detectable_falls",
    "experiments.verdicts": "suite_error",
}
"""Keys beyond the contract: they may grow in number."""


def document(run):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(render_json(run), parse_constant=refuse)


def at(whole, path):
    """The objects at a path; those of a list are all taken."""
    objects = [whole]
    for name in path.split(".") if path else []:
        objects = [
            item for record in objects for item in (record[name] if isinstance(record[name], list) else [record[name]])
        ]
    return objects


@pytest.mark.parametrize("path", sorted(CONTRACT))
def test_the_keys_are_those_of_the_contract(run, path):
    objects = at(document(run()), path)

    assert objects
    for record in objects:
        assert set(record) == set(CONTRACT[path].split()) | set(MORE.get(path, "").split())


def test_the_values_are_those_of_the_run(run):
    whole = document(run())
    [experiment] = whole["experiments"]

    assert (whole["format"], whole["exit_status"], whole["run"]["seed"], whole["run"]["family_size"]) == (2, 1, 7, 1)
    assert whole["run"]["git"] == {"commit": "c0ffee", "dirty": False}
    unknown = dict.fromkeys(("groups", "selection", "origin"))
    assert experiment["dataset"] == {"name": "sums", "sha256": "ab" * 32, "n": 200, "left_out": {}, **unknown}
    assert {record["name"]: record["role"] for record in experiment["arms"]} == {"v2": "candidate", "v1": "baseline"}
    assert [(record["metric"], record["statistic"], record["arm"]) for record in experiment["estimates"]] == [
        ("exact", "mean", "v2"), ("exact", "mean", "v1"), ("seconds", "p95", "v2"),
    ]  # fmt: skip
    [pair] = experiment["comparisons"]
    assert [pair[key] for key in ("pairs", "lost", "difference", "low", "high", "p_value", "p_exact", "p_adjusted")] == [
        198, 2, -0.035, -0.0871, 0.0164, 0.18, 0.229, 0.18,
    ]  # fmt: skip
    assert pair["bounds"] == {"lower": -0.078, "upper": 0.008, "method": "exact unconditional"}
    assert experiment["metrics"][1] == {
        "name": "seconds",
        "kind": "unbounded",
        "direction": "lower",
        "applies": None,
        "reach": None,
    }
    assert [record["state"] for record in experiment["verdicts"]] == ["met", "met", "missed"]


def section(run, name):
    [experiment] = document(run)["experiments"]
    return experiment["sections"].get(name)


SINCE = "2026-07-01T08:00:00+00:00"


@pytest.mark.parametrize(
    ("facts", "cache"),
    [
        (
            {"reused": {"v1": ReusedReplies(run="f00", replies=150)}},
            {"reused": {"v1": {"run": "f00", "replies": 150}}, "cached": {}, "sent_again": {}},
        ),
        (
            {"from_cache": {"v2": CachedReplies(replies=3, requests=5, since=SINCE)}},
            {"reused": {}, "cached": {"v2": {"replies": 3, "requests": 5, "since": SINCE}}, "sent_again": {}},
        ),
    ],
    ids=["stored", "cached"],
)
def test_stored_and_cached_replies_are_counted(run, analysis, facts, cache):
    assert section(run(analysis(**facts)), "cache") == cache


def test_losses_and_failures_are_counted_for_each_arm(run):
    assert section(run(), "losses") == {
        "lost": {"v2": {"error": 2}, "v1": {}},
        "failures": {"v2": {"truncated": 1, "timeout": 3}, "v1": {}},
    }


def test_infinity_is_a_string(run):
    assert at(document(run()), "experiments.estimates")[-1]["high"] == "inf"


def test_unknown_values_are_null(run, analysis):
    record = replace(
        analysis().comparisons[0], difference=None, interval=None, p_value=None, p_exact=None, p_adjusted=None,
        detectable=None,
    )  # fmt: skip
    [pair] = at(document(run(analysis(comparisons=(record,)))), "experiments.comparisons")

    assert {pair[key] for key in ("difference", "low", "high", "p_value", "p_exact", "p_adjusted", "detectable")} == {
        None
    }


@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
def test_every_number_is_strict_json(run, analysis, strange):
    record = replace(analysis().estimates[0], value=strange)

    assert at(document(run(analysis(estimates=(record,)))), "experiments.estimates")[0]["value"] == str(strange)


def test_verdicts_stand_with_their_experiment(run, analysis, plan):
    whole = document(run(analysis(), analysis(plan(nodeid="other"))))

    assert [len(record["verdicts"]) for record in whole["experiments"]] == [3, 3]


def test_errors_in_the_suite_are_marked(run):
    record = run()
    mistaken = replace(record.verdicts[0], suite_error=True)
    whole = document(replace(record, verdicts=(mistaken, *record.verdicts[1:])))

    assert [verdict["suite_error"] for verdict in at(whole, "experiments.verdicts")] == [True, False, False]


def test_the_document_is_readable_utf8_text(run, analysis, plan):
    text = render_json(run(analysis(plan(dataset="Sümmen ☃"))))

    assert '"Sümmen ☃"' in text
    assert text.endswith("}\n")
    assert render_json(run(analysis(plan(dataset="Sümmen ☃")))) == text
