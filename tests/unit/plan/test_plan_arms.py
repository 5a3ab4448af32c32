"""Checks of arms and variants, and the order of sending."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.plan.arms import check_arms, complete_length, interleave_units, look_order
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
from pytest_crucible.records import Arm, ArmTraining, MetricFacts, NoTwin, Sample, Twin, Unit, Variant
from pytest_crucible.records.errors import SpecError

sizes = st.integers(1, 12)
seeds = st.integers(0, 2**32)


def arm(name: str, identity: str, **parameters: float) -> Arm:
    return Arm(name=name, role="candidate", adapter=name, identity=identity, parameters=parameters)


def trained_arm(name: str, *identities: str) -> Arm:
    trainings = (ArmTraining(name=f"{name}-seed{seed}", seed=seed, identity=of) for seed, of in enumerate(identities))
    return replace(arm(name, "all of them"), trainings=tuple(trainings))


@pytest.mark.parametrize(
    "arms",
    [
        [arm("v2", "bbb")],
        [arm("v2", "bbb"), arm("v1", "aaa"), arm("v0", "999")],
        [arm("cold", "aaa", temperature=0.0), arm("hot", "aaa", temperature=1.0)],
        [arm("bare", "aaa"), arm("hot", "aaa", temperature=1.0)],
    ],
    ids=["alone", "different", "other-parameters", "with-and-without"],
)
def test_different_arms_are_accepted(arms):
    check_arms(arms)


@pytest.mark.parametrize(
    ("arms", "sentence"),
    [
        ([arm("v2", "bbb"), arm("v2", "bbb")], "'v2' is named twice: compare an adapter with another one"),
        ([arm("v2", "bbb"), arm("v1", "aaa"), arm("v1", "aaa")], "'v1' is named twice: compare an adapter with another one"),
        ([arm("v2", "0123456789abcdef"), arm("new", "0123456789abcdef")],
         "adapters 'v2' and 'new' are the same checkpoint (0123456789ab): compare two that differ"),
        ([arm("v2", "bbb"), arm("v1", "aaa", seed=1, top_p=0.5), arm("old", "aaa", top_p=0.5, seed=1)],
         "adapters 'v1' and 'old' are the same checkpoint (aaa): compare two that differ"),
        ([trained_arm("v2", "aaa", "bbb"), arm("old", "bbb")],
         "adapters 'v2' and 'old' are the same checkpoint (bbb): compare two that differ"),
        ([trained_arm("v2", "aaa", "aaa")],
         "the trainings 'v2-seed0' and 'v2-seed1' are the same checkpoint: let the recipe use trainer.seed, or remove seeds"),
        # A version is named as it was typed.
        ([arm("m@1", "b"), arm("m@1", "b")], "'production' (m@1) is named twice: compare an adapter with another one"),
        ([arm("v1", "b"), arm("m@1", "b")],
         "adapters 'v1' and 'production' (m@1) are the same checkpoint (b): compare two that differ"),
    ],
    ids=["name", "baseline-name", "checkpoint", "baselines", "one-of-several", "alike", "version-name", "version"],
)  # fmt: skip
def test_equal_arms_are_refused(arms, sentence):
    with pytest.raises(SpecError) as caught:
        check_arms(arms, {"m@1": "production"})

    assert str(caught.value) == sentence


def every(arms, repeats=1):
    return [(0, arm, repeat) for repeat in range(repeats) for arm in arms]


@given(sizes, st.sets(st.integers(0, 5), min_size=1), st.integers(1, 3), seeds)
def test_each_unit_comes_once(samples, arms, repeats, seed):
    units = list(interleave_units(range(samples), every(sorted(arms), repeats), seed=seed))

    assert Counter(units) == Counter(map(Unit._make, itertools.product(range(samples), [0], arms, range(repeats))))


@given(sizes, st.integers(1, 4), st.integers(1, 3), seeds)
def test_all_arms_of_a_sample_stand_side_by_side(samples, arms, repeats, seed):
    positions = [unit.position for unit in interleave_units(range(samples), every(range(arms), repeats), seed=seed)]

    assert positions == sorted(positions)


@given(seeds)
def test_the_seed_decides_the_order(seed):
    first, again, other = (list(interleave_units(range(20), every((0, 1), 2), seed=k)) for k in (seed, seed, seed + 1))

    assert first == again != other


def test_each_arm_is_first_about_as_often():
    units = list(interleave_units(range(1000), every((0, 1)), seed=0))
    first = Counter(unit.arm for unit in units[::2])

    assert abs(first[0] - first[1]) < 130  # four standard deviations


def test_units_are_drawn_as_they_are_needed():
    endless = interleave_units(range(10**12), every((0, 1)), seed=0)

    assert [unit.position for unit in itertools.islice(endless, 4)] == [0, 0, 1, 1]


names = st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=30)


@given(names, st.randoms())
def test_the_order_of_the_dataset_does_not_matter(ids, random):
    shuffled = random.sample(ids, len(ids))

    assert [ids[k] for k in look_order(ids, [None] * len(ids))] == [
        shuffled[k] for k in look_order(shuffled, [None] * len(ids))
    ]


@given(names, st.data())
def test_the_samples_of_a_group_are_neighbours(ids, data):
    groups = data.draw(st.lists(st.sampled_from("abc"), min_size=len(ids), max_size=len(ids)))
    ordered = [groups[k] for k in look_order(ids, groups)]

    changes = sum(entry != other for entry, other in itertools.pairwise(ordered))
    assert changes == max(len(set(groups)) - 1, 0)


@given(st.sets(st.integers(0, 9)), st.booleans())
def test_only_whole_groups_count(done, grouped):
    groups = ["aaabbbccdd"[k] for k in range(10)] if grouped else [None] * 10
    end = complete_length(range(10), groups, done.__contains__)

    assert set(range(end)) <= done
    if grouped:
        assert end in (0, 3, 6, 8, 10)
    else:
        assert end == 10 or end not in done


def test_counting_resumes_at_the_start():
    orders = []

    def is_complete(position):
        orders.append(position)
        return position < 5

    assert complete_length(range(9), [None] * 9, is_complete, start=4) == 5
    assert orders == [4, 5]


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
def test_content_changes_the_hash_of_a_variant_and_facts_do_not(other):
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
def test_other_names_are_not_terms(name):
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
