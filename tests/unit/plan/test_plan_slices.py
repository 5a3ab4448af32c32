"""Targets and comparisons by slice before a run: how they are decided, which slices are claims, and what is wrong with them."""

from __future__ import annotations

import pytest

from pytest_crucible import SpecError
from pytest_crucible.plan.design import check_expected, contrasts_with_baselines
from pytest_crucible.plan.targets import parse_contrast, parse_target
from pytest_crucible.records import Arm, NoTwin, Sample, Target, Twin
from pytest_crucible.records.serialize import from_plain, to_plain

SAMPLES = [Sample(id=f"{k}", input="?", metadata={"topic": "abc"[k % 3], "age": k}) for k in range(30)]
ARMS = [Arm(name=name, role=role, adapter=name, identity=name)
        for name, role in (("v2", "candidate"), ("v1", "baseline"))]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["gap(ok by sex) <= 0.1", "ratio(ok by a & b) >= 0.8", "worst(ok by age(2, 5)) >= 0.6"]
)
def test_extremes_are_decided_by_proof(text):
    target = parse_target(text)

    assert target.decide == "bound"
    assert f"{target.expression} {target.relation} {target.value:g}" == text
    assert from_plain(Target, to_plain(target)) == target
    assert parse_target("ok >= 0.5").decide == "point"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("gap(ok by sex) <= 0.1", {"decide": "point"}, "the estimate of an extreme is biased"),
        (
            "gap(ok) <= 0.1",
            {},
            r"does not name the slices: add a field of the samples, as in 'gap\(accuracy by topic\)",
        ),
        ("gap(ok by sex) == 0", {}, "requires an equality"),
        ("ok by sex >= 0.5", {}, r"write worst\(ok by sex\)"),
        ("p95(latency by sex) <= 2", {}, "outside of a statistic of slices"),
        ("ratio(a, b by sex) >= 0.8", {}, "gives ratio.* 2 metrics, and it takes 1 metric"),
        ("gap(ok by sex) <= 10", {}, ""),
    ],
)
def test_other_forms_are_refused(text, options, message):
    if not message:
        assert parse_target(text, **options).value == 10
        return
    with pytest.raises(SpecError, match=message):
        parse_target(text, **options)


def test_each_slice_is_a_comparison_of_its_own():
    declared = [parse_contrast("ok by topic"), parse_contrast("gap(ok by topic)"), parse_contrast("ok")]

    contrasts = contrasts_with_baselines(declared, ARMS, SAMPLES)

    assert [contrast.subject("v2") for contrast in contrasts] == [
        "ok by topic = a: v2 vs v1", "ok by topic = b: v2 vs v1", "ok by topic = c: v2 vs v1",
        "gap(ok by topic): v2 vs v1", "ok: v2 vs v1",
    ]  # fmt: skip
    assert all(contrast.shares_alpha for contrast in contrasts)
    assert [contrast.slice_size for contrast in contrasts] == [10, 10, 10, 0, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gap(ok by topics) <= 0.1", r"gap\(ok by topics\): no sample has a field 'topics'; did you mean 'topic'\?"),
        ("gap(ok by age) <= 0.1", r"gap\(ok by age\): nearly every sample has its own 'age'; cut it: by age\(10, 19\)"),
        ("gap(ok by topic within agee) <= 0.1", "no sample has a field 'agee'"),
    ],
)
def test_fields_are_checked_before_anything_is_sent(text, message):
    with pytest.raises(SpecError, match=message):
        check_expected([parse_target(text)], [], SAMPLES)


def test_versions_of_twins_are_slices():
    samples = [
        Sample(id="a", input="he", metadata={"twin": "male"}, variants={"female": Twin(input="she")}),
        Sample(id="b", input="he", metadata={"twin": "male"}, variants={"female": Twin(input="she")}),
        Sample(id="c", input="it", variants={"female": NoTwin("no word to swap")}),
    ]

    check_expected([parse_target("gap(ok by twin) <= 0.1")], [], samples)
    contrasts = contrasts_with_baselines([parse_contrast("ok by twin")], ARMS, samples)

    assert [contrast.slice for contrast in contrasts] == ["female", "male"]


def test_ratios_have_no_margin_and_within_is_for_extremes():
    with pytest.raises(SpecError, match="two ratios are compared by their ratio"):
        parse_contrast("ratio(ok by sex)", margin=0.1)
    with pytest.raises(SpecError, match="within standardises gap, ratio and worst only"):
        contrasts_with_baselines([parse_contrast("ok by topic within age")], ARMS, SAMPLES)
