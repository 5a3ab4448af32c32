"""Metrics declare their facts, and invalid declarations are errors."""

from __future__ import annotations

import math

import pytest

from pytest_crucible import Reply, Sample, SpecError, metric
from pytest_crucible.metrics.definition import as_metric, declared_facts
from pytest_crucible.records import MetricFacts


def length(reply, sample):
    return len(reply.text)


def test_a_plain_function_becomes_a_metric_with_its_name_alone():
    declared = metric(length)

    assert declared.facts == MetricFacts(name="length") == as_metric(length).facts
    assert declared(Reply(text="abc"), Sample(id="a", input="")) == 3
    assert as_metric(declared) is declared


def test_declared_facts_are_kept():
    declared = metric(name="size", kind="unbounded", direction="lower", bounds=(0, math.inf), version="2")(length)

    assert declared.facts == MetricFacts(
        name="size", kind="unbounded", direction="lower", low=0, high=math.inf, version="2"
    )


@pytest.mark.parametrize(
    ("declaration", "kind", "low", "high"),
    [
        ({}, None, -math.inf, math.inf),
        ({"bounds": (0, 1)}, "bounded", 0, 1),
        ({"bounds": (0, math.inf)}, None, 0, math.inf),
        ({"kind": "binary"}, "binary", 0, 1),
        ({"kind": "unbounded", "bounds": (0, 10)}, "unbounded", 0, 10),
        ({"kind": "text"}, "text", -math.inf, math.inf),
    ],
    ids=["nothing", "finite", "half", "binary", "unbounded", "text"],
)
def test_bounds_and_kind_complete_each_other(declaration, kind, low, high):
    facts = declared_facts("score", **declaration)

    assert (facts.kind, facts.low, facts.high) == (kind, low, high)


@pytest.mark.parametrize(
    ("declaration", "problem"),
    [
        ({"direction": "up"}, "has direction 'up': write 'higher' or 'lower'"),
        ({"bounds": (1, 0)}, "has bounds (1, 0): write the lower one first, for example (0, 1)"),
        ({"bounds": (1, 1)}, "has bounds (1, 1): write the lower one first, for example (0, 1)"),
        ({"bounds": (0, math.nan)}, "has bounds (0, nan): write the lower one first, for example (0, 1)"),
        (
            {"kind": "graded"},
            "has kind 'graded': write one of 'binary', 'ordinal', 'bounded', 'count', 'positive', 'unbounded', 'text'",
        ),
        (
            {"kind": "count", "bounds": (-1, 5)},
            "has kind 'count' but bounds from -1: counts and amounts start at 0 or above",
        ),
        *(
            ({"kind": kind}, f"is {kind} but has no bounds: add them, for example bounds=(0, 1)")
            for kind in ("ordinal", "bounded")
        ),
    ],
)
def test_an_invalid_declaration_is_an_error(declaration, problem):
    with pytest.raises(SpecError) as caught:
        metric(name="score", **declaration)(length)

    assert str(caught.value) == f"metric 'score' {problem}"


@pytest.mark.parametrize("value", [3, None, object()], ids=["number", "none", "object"])
def test_as_metric_of_another_type_is_an_error(value):
    with pytest.raises(SpecError, match=r"is not a metric: give a function \(reply, sample\) -> bool, float or None"):
        as_metric(value)


@pytest.mark.parametrize(
    ("relevant", "amount", "is_share"), [(0.02, 0.02, False), ("10 %", 0.1, True), (None, None, False)]
)
def test_a_metric_may_declare_a_relevant_difference(relevant, amount, is_share):
    facts = metric(kind="positive", relevant=relevant)(length).facts

    assert (facts.relevant, facts.relevant_is_share) == (amount, is_share)


@pytest.mark.parametrize("relevant", [0, -0.02, math.nan, math.inf, True, "0 %", "2", [0.02]])
def test_a_relevant_difference_is_a_positive_number_or_a_share(relevant):
    with pytest.raises(SpecError, match=r"^metric 'score' has relevant=.*: write a (positive )?number"):
        declared_facts("score", relevant=relevant)
