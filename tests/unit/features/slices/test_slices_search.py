"""The search for unusual slices: what it finds, what it leaves alone, and the slices that it tries."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.features.slices.candidates import Feature, as_text, candidate_slices, find_features, rank_features
from pytest_crucible.stats.slices.search import search_slices


def members(n, slices, seed=0):
    return np.random.default_rng(seed).random((n, slices)) < 0.4


def test_a_slice_with_another_difference_is_found():
    flags = members(300, 20)
    differences = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], 300)
    differences[flags[:, 7]] = np.random.default_rng(2).choice([0.0, 1.0], flags[:, 7].sum())

    strongest = search_slices(differences, flags, permutations=400).slices[0]

    inside, outside = differences[flags[:, 7]].mean(), differences[~flags[:, 7]].mean()
    assert (strongest.column, strongest.n) == (7, flags[:, 7].sum())
    assert (strongest.inside, strongest.outside, strongest.excess) == pytest.approx((inside, outside, inside - outside))
    assert strongest.low > 0
    assert strongest.p_adjusted == pytest.approx(1 / 401)


def test_equal_differences_are_the_same_everywhere():
    result = search_slices(np.ones(80), members(80, 5), permutations=50)

    assert {each.p_adjusted for each in result.slices} == {1.0}


def test_the_search_is_the_same_for_one_seed():
    differences = np.random.default_rng(4).normal(size=120)
    first, again = (search_slices(differences, members(120, 9), permutations=99, rng=5) for _ in range(2))

    assert first == again


def test_p_values_and_intervals_agree():
    differences = np.random.default_rng(6).normal(size=200)
    result = search_slices(differences + 0.8 * members(200, 8)[:, 2], members(200, 8), permutations=199)

    assert all((each.p_adjusted <= 0.05) == (each.low > 0 or each.high < 0) for each in result.slices)


def test_groups_that_err_together_are_not_a_finding():
    """Ten groups of 30, one of which is a slice: one sample in effect."""
    groups = np.repeat(np.arange(10), 30)
    differences = np.random.default_rng(3).normal(size=10)[groups] + 0.01 * np.random.default_rng(4).normal(size=300)
    flags = np.stack([groups == 0, groups < 5], axis=1)

    alone = search_slices(differences, flags, permutations=200)
    together = search_slices(differences, flags, groups=groups, permutations=200)

    assert min(each.p_adjusted for each in alone.slices) < 0.01
    assert min(each.p_adjusted for each in together.slices) > 0.05
    assert together.groups == 10


def test_the_order_of_samples_does_not_matter():
    rng = np.random.default_rng(8)
    groups, flags = np.repeat(np.arange(30), 4), members(120, 4)
    differences = rng.normal(size=30)[groups] + rng.normal(size=120)
    order = rng.permutation(120)

    sorted_groups = search_slices(differences, flags, groups=groups, permutations=20)
    mixed = search_slices(differences[order], flags[order], groups=groups[order], permutations=20)

    statistics = [{each.column: each.statistic for each in result.slices} for result in (sorted_groups, mixed)]
    assert statistics[0] == pytest.approx(statistics[1], rel=1e-3)


def test_slices_are_of_fields_lengths_numbers_code_and_pairs():
    inputs = [f"{'x' * (k % 40)} {' '.join('7' * (k % 3))} {'```a```' if k % 2 else ''}" for k in range(200)]
    metadata = [{"sex": "fm"[k % 2], "age": k % 50, "id": f"s{k}"} for k in range(200)]

    features = find_features(inputs, ["no"] * 200, metadata, {"mine": [k % 4 == 0 for k in range(200)]})
    candidates = candidate_slices(features)

    names = {feature.name for feature in features}
    assert {"mine", "sex", "age", "length of input", "numbers in input", "code in input"} <= names
    assert "id" not in names
    assert "mine = true" in candidates.names
    assert any(name.startswith("age = ") for name in candidates.names)
    assert any(" & " in name for name in candidates.names)
    assert len(candidates.names) <= 200
    sizes = candidates.members.sum(axis=0)
    assert sizes.min() >= 20
    assert sizes.max() <= 180


def test_an_object_is_no_feature():
    metadata = [{"author": {"country": "de" if k % 2 else "fr"}, "tags": ["a"] if k % 2 else ["b"]} for k in range(60)]

    names = {
        feature.name for feature in find_features(["?"] * 60, [{"who": {"a": k % 2}} for k in range(60)], metadata, {})
    }

    assert "tags" in names
    assert not names & {"author", "who"}


def test_of_a_slice_and_its_complement_one_is_tried():
    feature = Feature("right", np.repeat([0, 1], 40), ("false", "true"))

    assert candidate_slices([feature, feature]).names == ("right = true",)


def test_topics_are_named_by_their_words():
    words = ("apple tree", "boat harbour", "cat garden", "drum music")
    texts = [f"{word} number {k}" for k in range(10) for word in words]

    topics = next(each for each in find_features(texts, [None] * 40, [{}] * 40, {}) if each.name == "topic")

    assert any("apple" in name for name in topics.levels)
    of_words = [set(topics.codes[k::4].tolist()) for k in range(4)]
    assert len(set.union(*of_words)) == sum(map(len, of_words))


def test_conversations_are_their_contents():
    assert as_text([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]) == "Hi\nYes"


@pytest.mark.slow
def test_features_that_predict_are_ranked_and_others_are_not_shown():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    features = [Feature(name, rng.integers(0, 3, 300), ("a", "b", "c")) for name in ("one", "two")]

    ranked = rank_features(features[1].codes + rng.normal(size=300), features)

    assert [each.feature for each in ranked] == ["two", "one"]
    assert rank_features(rng.normal(size=300), features) is None


def test_numbers_that_are_texts_have_quartiles_where_they_are_many():
    """A table's ages may be texts. A few numbers may be codes, and are left as they are."""
    ages, codes = [str(18 + k % 50) for k in range(200)], [str(k % 3) for k in range(200)]
    features = find_features(
        [""] * 200, [None] * 200, [{"age": a, "zone": c} for a, c in zip(ages, codes, strict=True)], {}
    )
    levels = {feature.name: feature.levels for feature in features}

    assert levels["age"] == ("below 30", "30 to 42", "43 to 54", "55 and above")
    assert levels["zone"] == ("0", "1", "2")


@pytest.mark.parametrize("factor", [1e-200, 1e-12, 1.0, 1e25, 1e300])
def test_the_unit_of_a_metric_changes_nothing(factor):
    """Squares are taken in single precision: without a scale, 1e25 made every slice a finding, and 1e-12 none."""
    flags = members(100, 5)
    differences = np.random.default_rng(8).normal(size=100) + 2.0 * flags[:, 1]

    plain, scaled = (search_slices(each, flags, permutations=99) for each in (differences, factor * differences))

    assert [each.p_adjusted for each in scaled.slices] == [each.p_adjusted for each in plain.slices]
    assert [each.low / factor for each in scaled.slices] == pytest.approx([each.low for each in plain.slices], rel=1e-4)
