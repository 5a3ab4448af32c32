"""`compare` as its hardest user meets it: hardly any data, no variation, wrong input, misspelt options, all containers."""

from __future__ import annotations

import dataclasses
import decimal
import math
import pickle

import numpy as np
import pytest

from pytest_crucible.stats import compare, difference_bounds, hedges_g
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.proportions.exact import LEFT_OUT
from pytest_crucible.stats.results import Effect

INFINITY = math.inf
UNIT = (0.0, 1.0)
RNG = np.random.default_rng(23)
BASELINE, CANDIDATE = RNG.random(24).round(2), RNG.random(24).round(2)
SIXES = np.arange(24) % 6
KINDS = {
    "binary": ("binary", None),
    "ordinal": ("ordinal", (0, 10)),
    "bounded": ("bounded", (0, 10)),
    "count": ("count", None),
    "positive": ("positive", None),
    "unbounded": ("unbounded", None),
    "auto": ("auto", None),
}
HARD = {
    "both 1": ([1.0] * 6, [1.0] * 6),
    "0 and 1": ([0.0] * 6, [1.0] * 6),
    "1 and 0": ([1.0] * 6, [0.0] * 6),
    "one of them differs": ([0.0] * 6, [0.0] * 5 + [1.0]),
    "baseline is constant": ([1.0] * 6, [0.0, 1.0] * 3),
    "half and half": ([0.0, 1.0] * 3, [1.0, 0.0] * 3),
}


# -- what may never be in an answer -------------------------------------------------------------------------------


def numbers(record):
    for field in dataclasses.fields(record):
        yield from numbers_of(getattr(record, field.name))


def numbers_of(value):
    if isinstance(value, float):
        yield value
    elif isinstance(value, tuple):
        for single in value:
            yield from numbers_of(single)
    elif dataclasses.is_dataclass(value):
        yield from numbers(value)


def check_answer(result):
    """Check everything that holds for any question and any data."""
    assert not any(map(math.isnan, numbers(result)))
    assert pickle.loads(pickle.dumps(result)) == result
    assert isinstance(hash(result), int)
    assert result.interval is not None or result.note
    if result.p_value is not None:
        assert 0 < result.p_value <= 1
    if result.interval is not None:
        excludes = result.interval.low > result.no_difference or result.interval.high < result.no_difference
        assert result.interval.low < result.interval.high
        assert result.proof_p is None or excludes == (result.proof_p < result.alpha)
        assert result.interval.low <= result.estimate <= result.interval.high
    if result.bounds is not None and result.bounds.low is not None:
        assert result.bounds.low < result.bounds.high
        assert result.bounds.low <= result.estimate <= result.bounds.high


@pytest.mark.parametrize("data", HARD)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("paired", [True, False], ids=["pairs", "two arms"])
@pytest.mark.parametrize(
    "alpha", [0.05, pytest.param(0.4, marks=pytest.mark.slow), pytest.param(1e-6, marks=pytest.mark.slow)]
)
def test_degenerate_data_give_no_certainty(data, kind, paired, alpha):
    (name, bounds), (baseline, candidate) = KINDS[kind], HARD[data]
    for clusters in (None, range(6)):
        for alternative in ("two-sided", "greater", "less"):
            facts = {"kind": name, "bounds": bounds, "clusters": clusters, "alternative": alternative}
            check_answer(compare(candidate, baseline, paired, **facts, alpha=alpha, margin=0.1))


@pytest.mark.parametrize("paired", [True, False], ids=["pairs", "two arms"])
@pytest.mark.parametrize("estimand", ["difference", "ratio"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_hardly_any_data_are_answered_with_care(n, estimand, paired):
    baseline, candidate = np.array([1.0, 2.0, 4.0])[:n], np.array([2.0, 1.5, 3.0])[:n]
    for clusters in (None, ["a"] * n, list(range(n))):
        result = compare(candidate, baseline, paired, estimand=estimand, clusters=clusters, margin=0.5)

        check_answer(result)
        assert result.estimate is not None
        if clusters is not None:
            assert result.p_value is None or result.p_value > 0.2
        elif n == 1:
            assert (result.status, result.p_value) == ("insufficient_data", None)


@pytest.mark.parametrize("groups", [1, 4])
def test_fewer_than_five_clusters_are_refused_for_every_design(groups):
    for facts in ({"paired": True}, {"paired": False}, {"paired": True, "estimand": "ratio"}):
        result = compare(CANDIDATE + 1, BASELINE + 1, **facts, clusters=np.arange(24) % groups, margin=0.1)

        assert (result.interval, result.bounds.low, result.clusters) == (None, None, groups)
        # Four groups have 16 sign patterns.
        assert result.p_value is None or result.p_value >= 2 / 16
        assert result.non_inferior is None
        assert result.effect.note or result.effect.value is not None


def test_six_clusters_of_which_one_arm_has_one_are_too_few():
    result = compare(CANDIDATE[:4], BASELINE, False, clusters=([0] * 4, SIXES))

    assert (result.clusters, result.p_value, result.status) == (6, None, "insufficient_clusters")


def test_one_label_a_pair_is_the_same_as_no_labels():
    plain = compare(CANDIDATE, BASELINE, bounds=UNIT, margin=0.1)
    alone = compare(CANDIDATE, BASELINE, bounds=UNIT, margin=0.1, clusters=range(24))

    assert alone.estimate == plain.estimate
    assert alone.p_value == pytest.approx(plain.p_value)
    assert (alone.ci_low, alone.bounds.high) == pytest.approx((plain.ci_low, plain.bounds.high))


def test_no_p_value_is_zero_even_where_a_float_cannot_hold_it():
    for paired in (True, False):
        result = compare([1] * 3000, [0] * 3000, paired)

        # Exact p-values have a floor: the error rate of the nuisance rate's interval.
        assert result.p_value == pytest.approx(2 * LEFT_OUT)
        # A permutation test has the floor of its draws.
        assert compare(np.arange(3000) % 7 + 1e3, np.arange(3000) % 7, paired).p_value == 1e-4
        assert result.significant
        assert result.p_exact in (None, math.ulp(0.0))


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_huge_and_tiny_values_change_nothing_but_the_unit(scale):
    for facts in ({}, {"paired": False}, {"estimand": "ratio"}, {"estimand": "ratio", "paired": False}):
        plain = compare(CANDIDATE + 0.1, BASELINE + 0.1, kind="positive", **facts)
        result = compare((CANDIDATE + 0.1) * scale, (BASELINE + 0.1) * scale, kind="positive", **facts)
        unit = scale if plain.estimand == "difference" else 1.0

        assert result.p_value == pytest.approx(plain.p_value, rel=1e-9)
        assert result.interval.low / unit == pytest.approx(plain.interval.low, rel=1e-9)
        assert result.effect.value == pytest.approx(plain.effect.value, rel=1e-9)


# -- one-sided questions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clusters", [None, range(30)])
def test_a_one_sided_point_mass_keeps_its_level(clusters):
    """30 gains of 0.1 on [0, 1]: were a loss of 1 as frequent as 1 in 11, one would see none in 5.7 % of experiments."""
    baseline, candidate = [0.0] * 30, [0.1] * 30

    result = compare(candidate, baseline, kind="bounded", bounds=UNIT, clusters=clusters, alternative="greater")

    assert result.proof_p == pytest.approx((1 / 1.1) ** 30, rel=0.01)
    assert (result.significant, result.proven) == (True, False)
    assert result.interval.low == pytest.approx(0.1 - 1.1 * (1 - 0.05 ** (1 / 30)), abs=0.001)
    assert result.p_value == 1e-4


def test_equal_differences_speak_for_one_side_only():
    facts = {"kind": "unbounded"}
    up, down = (compare([2.0] * 6, [0.0] * 6, **facts, alternative=side) for side in ("greater", "less"))

    assert (up.p_value, down.p_value) == (2.0**-6, 1.0)


# -- ratios -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["auto", "ordinal", "bounded", "count", "positive", "unbounded"])
@pytest.mark.parametrize("clusters", [None, SIXES])
def test_every_kind_of_positive_values_has_a_ratio(kind, clusters):
    baseline, candidate = np.arange(1.0, 25.0), np.arange(1.0, 25.0)[::-1] * 2
    bounds = (0, 100) if kind in ("ordinal", "bounded") else None
    for paired in (True, False):
        result = compare(candidate, baseline, paired, kind=kind, bounds=bounds, clusters=clusters, estimand="ratio")

        assert result.estimate == pytest.approx(2.0)
        assert result.candidate / result.baseline == pytest.approx(result.estimate)
        assert "ratio of geometric means" not in {single.name for single in (result.effect, *result.effects)}
        check_answer(result)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("clusters", [None, [0, 1, 2, 3, 4]])
def test_a_ratio_of_zeros_is_refused_with_their_count(paired, clusters):
    with pytest.raises(ValueError, match="positive values: 2 of 10 are not"):
        compare([1, 2, 3, 0, 5], [1, 2, 0, 4, 5], paired, estimand="ratio", clusters=clusters)


# -- repeats, containers, labels ----------------------------------------------------------------------------------


def test_repeats_are_averaged_inside_their_sample_however_many_each_arm_has():
    baseline, candidate = RNG.random((12, 3)), RNG.random((12, 5))

    result = compare(candidate, baseline, bounds=UNIT)
    means = compare(candidate.mean(axis=1), baseline.mean(axis=1), bounds=UNIT)

    assert dataclasses.replace(result, assumptions=means.assumptions) == means
    assert "3 or 5 repeats were averaged inside each sample" in result.assumptions
    assert "5 repeats" in compare(candidate[::-1], candidate, bounds=UNIT).assumptions[-1]


def test_one_column_is_one_repeat():
    assert compare(CANDIDATE[:, None], BASELINE[:, None]) == compare(CANDIDATE, BASELINE)


def test_a_nan_among_repeats_is_counted_among_all_of_them():
    baseline = np.ones((3, 4))
    baseline[1, 2] = math.nan

    with pytest.raises(ValueError, match="1 of 12 values are NaN"):
        compare(np.ones((3, 4)), baseline)


def test_an_average_that_rounding_put_out_of_bounds_is_put_back():
    repeats = np.full((6, 3), 0.1)
    assert repeats.mean(axis=1)[0] > 0.1

    result = compare(repeats, np.zeros((6, 3)), kind="bounded", bounds=(0, 0.1))

    assert result.candidate == result.estimate == result.interval.high == 0.1


@pytest.mark.parametrize(
    "convert",
    [list, tuple, np.float32, np.float64, lambda values: [decimal.Decimal(str(value)) for value in values]],
    ids=["list", "tuple", "float32", "float64", "decimal"],
)
def test_containers_do_not_matter(convert):
    halves = np.array([0.5, 1.0, 0.25, 0.75, 0.0, 1.0]), np.array([1.0, 1.0, 0.5, 0.25, 0.5, 0.75])

    assert compare(*map(convert, halves)) == compare(*halves)


def test_truth_values_and_whole_numbers_are_rates():
    baseline, candidate = [True, False, False, True], np.array([1, 1, 0, 1], dtype=np.int8)

    result = compare(candidate, baseline)

    assert (result.kind, result.method, result.baseline, result.candidate) == (
        "binary", "exact unconditional", 0.5, 0.75
    )  # fmt: skip


def test_pairs_of_pandas_series_are_matched_by_their_index():
    pandas = pytest.importorskip("pandas")
    ids = [f"q{k}" for k in range(24)]
    candidate, baseline = pandas.Series(CANDIDATE, index=ids), pandas.Series(BASELINE, index=ids)
    labels = pandas.Series(list("abcdef") * 4, index=ids, dtype="string")
    in_order = compare(CANDIDATE, BASELINE, clusters=list("abcdef") * 4)

    assert compare(candidate, baseline[::-1], clusters=labels[::-1]) == in_order
    assert compare(candidate, BASELINE, clusters=list("abcdef") * 4) == in_order
    assert difference_bounds(candidate, baseline[::-1]) == difference_bounds(CANDIDATE, BASELINE)
    assert compare(candidate, baseline[::-1], False) == compare(CANDIDATE, BASELINE[::-1], False)


def test_series_that_have_other_labels_or_labels_twice_are_refused():
    pandas = pytest.importorskip("pandas")
    candidate = pandas.Series([1, 0, 1], index=["a", "b", "c"])

    with pytest.raises(ValueError, match="'c' is in that of the candidate and not in that of the baseline"):
        compare(candidate, pandas.Series([1, 0, 1], index=["a", "b", "d"]))
    with pytest.raises(ValueError, match="'d' is in that of the clusters and not in that of the candidate"):
        compare(candidate, candidate, clusters=pandas.Series([1, 2, 3, 4], index=list("abcd")))
    twice = pandas.Series([1, 0, 1], index=["a", "a", "b"])
    with pytest.raises(ValueError, match="more than once"):
        compare(twice, twice[::-1])
    with pytest.raises(ValueError, match="more than once"):
        compare(candidate, pandas.Series([1, 0, 1, 0], index=list("abcc")))
    assert compare(twice, twice).estimate == 0


def test_gaps_in_pandas_columns_are_counted():
    pandas = pytest.importorskip("pandas")
    for kind in ("Int64", "boolean", "object"):
        with pytest.raises(ValueError, match="1 of 3 values are NaN"):
            compare([1, 0, 1], pandas.Series([True, None, False], dtype=kind))
    with pytest.raises(ValueError, match="label is missing"):
        compare(CANDIDATE[:2], BASELINE[:2], clusters=pandas.Series(["a", None], dtype="string"))


@pytest.mark.parametrize("pack", [tuple, list, np.array])
def test_labels_of_two_arms_come_in_any_pair(pack):
    ours, theirs = list("aabbcc") * 4, list("ddeeff") * 4
    result = compare(CANDIDATE, BASELINE, False, clusters=pack([ours, theirs]))

    assert result.clusters == 6
    assert result == compare(CANDIDATE, BASELINE, False, clusters=(ours, theirs))
    assert compare(CANDIDATE, BASELINE, False, clusters=ours).clusters == 3


# -- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("kind", None, "kind must be one of .*, not None"),
        ("validity", "guaranteed", "add margin=, for example margin=0.05"),
        ("paired", "independent", "paired must be True or False, not 'independent'"),
        ("paired", None, "paired must be True or False"),
        ("alpha", 5, "alpha must lie between 0 and 1, not 5"),
        ("alpha", math.nan, "alpha must lie between 0 and 1, not nan"),
        ("margin", 0, "margin=0 must be a number above 0: how much worse is still acceptable"),
        ("margin", -0.1, "margin=-0.1 must be a number above 0"),
        ("margin", INFINITY, "margin=inf must be a number above 0"),
        ("margin", math.nan, "margin=nan must be a number above 0"),
        ("rng", None, "rng must be a seed .* or a numpy Generator"),
        ("rng", "7", "rng must be a seed .* or a numpy Generator"),
        ("bounds", (1, 0), r"below the high bound, not \(1, 0\)"),
        ("bounds", (0, 0), "below the high bound"),
        ("bounds", (0, math.nan), "below the high bound"),
        ("bounds", (0, 1, 2), r"two numbers, \(low, high\), not \(0, 1, 2\)"),
        ("bounds", 1, "two numbers"),
        ("clusters", "passage", "not the single text 'passage'"),
        ("clusters", [[1]] * 24, "each a text or a number: unhashable"),
        ("clusters", 3, "one label for each of the 24 values"),
        ("clusters", (SIXES, SIXES), "one label for each of the 24 values"),
        ("clusters", list("ab"), "24 values, 2 cluster labels"),
    ],
)
def test_every_wrong_option_is_refused_with_what_is_right(option, value, message):
    with pytest.raises(ValueError, match=message):
        compare(CANDIDATE, BASELINE, **{option: value})


@pytest.mark.parametrize(("alpha", "facts"), [(0.5, {"alternative": "less"}), (0.7, {"margin": 0.1})])
def test_one_sided_questions_need_an_alpha_below_a_half(alpha, facts):
    with pytest.raises(ValueError, match=f"below 0.5, not {alpha}"):
        compare(CANDIDATE, BASELINE, alpha=alpha, **facts)


@pytest.mark.parametrize("margin", [1, 5])
def test_a_margin_that_nothing_can_exceed_is_refused(margin):
    with pytest.raises(ValueError, match=f"margin={margin} can never be exceeded: two values differ by at most 1"):
        compare([1, 1, 0], [0, 1, 1], margin=margin)

    assert compare(CANDIDATE, BASELINE, kind="unbounded", margin=margin).margin == margin


@pytest.mark.parametrize(
    ("baseline", "facts", "message"),
    [
        ([math.nan, 1, None], {}, "2 of 3 values are NaN"),
        ([INFINITY, 1, 0], {}, "1 of 3 values are NaN or infinite"),
        ([1, 2], {}, "pairs need equal lengths"),
        ([], {}, "3 candidate and 0 baseline values"),
        (np.zeros((0, 4)), {}, "3 candidate and 0 baseline values"),
        (1.0, {}, r"not the shape \(\)"),
        (np.zeros((3, 1, 1)), {}, r"not the shape \(3, 1, 1\)"),
        ([[1, 2], [3], [4]], {}, "as many repeats of each sample"),
        (["a", "b", "c"], {}, "values must be numbers.*'a'"),
        ({"a": 1}, {}, "values must be numbers.*'dict'"),
        ([-1, 0, 1], {"kind": "count"}, "1 of 6 values lie outside"),
        ([-1, -2, 1], {"kind": "positive"}, "2 of 6 values lie outside"),
        ([1, 2, 2], {"kind": "binary"}, "2 of 6 values lie outside"),
        ([1, 2, 0], {"bounds": UNIT}, r"1 of 6 values lie outside the bounds \(0.0, 1.0\)"),
        ([1, 0, 0], {"kind": "bounded"}, "needs its bounds"),
        ([1, 2, 3], {"kind": "count", "bounds": (-9, -5)}, "below the high bound"),
    ],
)
def test_wrong_values_are_refused_with_counts(baseline, facts, message):
    with pytest.raises(ValueError, match=message):
        compare([1.0, 0.0, 1.0], baseline, **facts)


@pytest.mark.parametrize(
    "facts",
    [
        {"kind": "unbounded"},
        {"estimand": "ratio"},
        {"bounds": (0, 2), "paired": False},
    ],
)
def test_a_guarantee_that_no_method_gives_is_refused(facts):
    with pytest.raises(ValueError, match=r"there is no guaranteed margin for .*stats\.TABLE"):
        compare(CANDIDATE + 1, BASELINE + 1, **facts, validity="guaranteed", margin=0.5)


# -- sizes of effect ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("paired", [True, False])
def test_the_first_size_of_effect_is_the_customary_one(kind, paired):
    name, bounds = KINDS[kind]
    baseline, candidate = np.array([1.0, 0, 0, 1, 0, 1, 0, 0]), np.array([1.0, 1, 1, 0, 1, 1, 1, 0])
    expected = {
        "binary": "discordant odds ratio" if paired else "odds ratio",
        "ordinal": "P(candidate higher) + P(equal) / 2",
        "count": "ratio of totals" if paired else "hedges g",
        "positive": "ratio of geometric means",
    }

    result = compare(candidate, baseline, paired, kind=name, bounds=bounds)

    custom = expected.get(result.kind, "cohen dz" if paired else "hedges g")
    assert result.effect.name == custom
    assert all(
        single.interval is None or single.interval.low <= single.value <= single.interval.high
        for single in result.effects
    )


def test_sizes_under_clusters_have_no_interval_that_takes_samples_for_independent():
    result = compare(CANDIDATE, BASELINE, False, clusters=SIXES)

    assert result.effect.value == hedges_g(CANDIDATE, BASELINE).value
    assert result.effect.interval is None
    assert "clusters" in result.effect.note


# -- records ------------------------------------------------------------------------------------------------------


def test_the_kind_of_a_table_of_repeats_is_that_of_its_entries_not_of_their_means():
    """Means of zeros and ones are no latencies: nothing else may be inferred because repeats were averaged first."""
    rng = np.random.default_rng(3)
    baseline, candidate = (rng.integers(0, 2, (20, 4)) for _ in range(2))

    result = compare(candidate, baseline)

    assert (result.kind, result.method, result.effect.name) == ("bounded", "sign flips", "cohen dz")
    assert result.bounds is None
    assert -1 <= result.interval.low <= result.interval.high <= 1


@pytest.mark.parametrize(("low", "high"), [(0.717, 10.92), (0.0123, 4.0), (0.96, 1.04)])
def test_the_lower_end_of_a_ratio_is_never_rounded_over_one_or_to_nothing(low, high):
    effect = Effect(
        name="odds ratio", value=(low * high) ** 0.5, interval=Interval(low=low, high=high, level=0.95, method="exact")
    )

    text = float(str(effect).split("[")[1].split(",")[0])

    assert 0 < text < 1
    assert text == pytest.approx(low, rel=0.05)
