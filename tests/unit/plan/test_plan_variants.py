"""Variants before a run: collected from samples, hashed, and read from targets."""

from __future__ import annotations

import pytest

from pytest_crucible.plan.variants import (
    VariantNames,
    check_members,
    plan_variants,
    read_term,
    sample_variants,
    split_view,
    term_hint,
    twin_sample,
)
from pytest_crucible.records import Arm, MetricFacts, NoTwin, Sample, Twin, Variant
from pytest_crucible.records.errors import SpecError

SHE = Twin(input="she")
SAMPLES = [
    Sample(id="a", input="he", expected=1, group="g", metadata={"m": 1}, variants={"she": SHE}),
    Sample(id="b", input="it", variants={"she": NoTwin("no person"), "they": Twin(input="they")}),
]


def plan_of(*variants, samples=SAMPLES):
    return plan_variants(variants, samples)


def test_variants_are_collected_in_the_order_of_their_first_sample():
    she, they = sample_variants(SAMPLES)

    assert (she.name, they.name) == ("she", "they")
    record, other = plan_of(she, they)
    assert (record.samples, record.reasons) == (1, {"no person": 1})
    assert (other.samples, other.reasons) == (1, {"the dataset has no twin": 1})


def test_a_twin_shares_all_but_the_input():
    twin = twin_sample(SAMPLES[0], SHE)

    assert (twin.id, twin.input, twin.expected, twin.group, twin.metadata) == ("a", "she", 1, "g", {"m": 1})
    assert twin_sample(SAMPLES[0], Twin(input="she", expected=None)).expected is None


@pytest.mark.parametrize(
    "other",
    [
        Variant(name="they", twins={"a": SHE}),
        Variant(name="she", twins={"a": Twin(input="She")}),
        Variant(name="she", twins={"a": Twin(input="she", expected=2)}),
        Variant(name="she", twins={"a": SHE, "b": SHE}),
    ],
    ids=["name", "input", "expected", "samples"],
)
def test_what_a_reply_depends_on_changes_the_hash(other):
    she = Variant(name="she", twins={"a": SHE})

    assert (
        plan_of(she)[0].sha256 == plan_of(Variant(name="she", twins={"a": Twin(input="she", facts={"x": 1})}))[0].sha256
    )
    assert plan_of(she)[0].sha256 != plan_of(other)[0].sha256


@pytest.mark.parametrize("name", ["", " she", "a[b", "a]", "a\nb", 3], ids=repr)
def test_a_name_that_no_target_can_write_is_refused(name):
    with pytest.raises(SpecError, match="write a word"):
        plan_of(Variant(name=name, twins={"a": SHE}))


def test_a_name_that_occurs_twice_and_a_variant_of_nothing_are_refused():
    she = Variant(name="she", twins={"a": SHE})
    with pytest.raises(SpecError, match="'she' is there twice"):
        plan_of(she, she)
    with pytest.raises(SpecError, match=r"'she' applies to none of 2 samples \(the dataset has no twin\): remove it"):
        plan_of(Variant(name="she", twins={}))


def test_a_variant_with_the_name_of_a_member_is_refused():
    arm = Arm(name="trio", role="candidate", adapter="trio", identity="x", members=("v1", "she"))
    with pytest.raises(SpecError, match="'she' is a variant and a member of 'trio': rename the member"):
        check_members(["she"], [arm])


def test_a_term_is_a_metric_of_its_own():
    facts = MetricFacts(name="score", kind="bounded", direction="lower", low=0, high=5)
    term = read_term("score[she]", {"score": facts}, VariantNames(variants=["she"]), open_metrics=False)

    assert term is not None
    assert (term.metric, term.view, term.variant) == ("score", "", "she")
    assert (term.facts.name, term.facts.direction, term.facts.high) == ("score[she]", "lower", 5)


@pytest.mark.parametrize("name", ["score", "score[he]", "other[she]", "member[she]"])
def test_a_name_that_is_no_term(name):
    metrics = {name: MetricFacts(name=name) for name in ("score", "member[she]")}

    assert read_term(name, metrics, VariantNames(variants=["she"]), open_metrics=False) is None


def test_a_test_that_scores_by_itself_may_score_any_metric():
    term = read_term("other[she]", {}, VariantNames(variants=["she"]), open_metrics=True)

    assert term is not None
    assert (term.facts.name, term.facts.kind) == ("other[she]", None)
    assert split_view("a.b", {}) == ("a.b", "")


@pytest.mark.parametrize("term", ["leaked[frame]", "leaked.drop[frame]"])
def test_a_leak_without_a_secret_names_the_argument(term):
    names = VariantNames(variants=["frame"], hints={"leaked": "it needs a secret"})

    assert term_hint(term, ["score"], names) == "it needs a secret"
