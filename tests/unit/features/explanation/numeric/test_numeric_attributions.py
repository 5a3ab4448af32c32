"""SHAP values and LIME's weights: known answers, the laws of Shapley values, and the packages of both."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pytest_crucible import SpecError, explain

RNG = np.random.default_rng(7)
BACKGROUND = RNG.normal(2.0, 1.5, (30, 6))
ROWS = RNG.normal(1.0, 1.0, (4, 6))


def additive(rows):
    return 2 * rows[:, 0] + 3 * rows[:, 1] + rows[:, 2] + 10


def mixture(rows):
    return np.sin(rows[:, 0]) * rows[:, 1] + rows[:, 2] * rows[:, 3] * rows[:, 4] - rows[:, 5] ** 2


def shapley(predict, row, background):
    """Return Shapley values by their definition: over all sets of the other features."""
    features = range(len(row))

    def value(members):
        mixed = background.copy()
        mixed[:, list(members)] = row[list(members)]
        return predict(mixed).mean()

    values = []
    for feature in features:
        others = [other for other in features if other != feature]
        total = 0.0
        for size in range(len(others) + 1):
            weight = math.factorial(size) * math.factorial(len(others) - size) / math.factorial(len(row))
            sets = itertools.combinations(others, size)
            total += weight * sum(value((*members, feature)) - value(members) for members in sets)
        values.append(total)
    return values


@pytest.mark.slow  # shap takes seconds to import
class TestShap:
    @pytest.fixture(autouse=True)
    def _needs_shap(self):
        pytest.importorskip("shap", reason="the extra [explain] is not installed")

    def test_an_offset_belongs_to_the_base(self):
        result = explain.shap(additive, np.ones((1, 3)), background=np.zeros((1, 3)))

        assert result.values[0] == pytest.approx([2, 3, 1])
        assert (result.base, result.predictions[0], result.is_exact) == (pytest.approx(10), pytest.approx(16), True)

    def test_the_background_may_be_other_than_0(self):
        background = BACKGROUND[:, :3]
        result = explain.shap(additive, np.ones((1, 3)), background=background)

        assert result.values[0] == pytest.approx(np.array([2, 3, 1]) * (1 - background.mean(axis=0)))

    def test_six_features_have_the_values_of_the_definition(self):
        result = explain.shap(mixture, ROWS, background=BACKGROUND)

        assert result.values == pytest.approx(np.array([shapley(mixture, row, BACKGROUND) for row in ROWS]), abs=1e-10)
        assert result.base + result.values.sum(axis=1) == pytest.approx(mixture(ROWS))

    def test_six_features_have_the_values_of_the_exact_explainer(self):
        shap = pytest.importorskip("shap")
        theirs = shap.ExactExplainer(mixture, shap.maskers.Independent(BACKGROUND))(ROWS, silent=True)

        assert explain.shap(mixture, ROWS, background=BACKGROUND).values == pytest.approx(theirs.values, abs=1e-9)

    def test_constant_and_single_features_are_exact(self):
        ones, background = np.ones((1, 3)), np.column_stack([BACKGROUND[:, :2], np.ones(30)])
        single = explain.shap(lambda rows: rows[:, 0] ** 2, [[3.0]], background=[[1.0], [2.0]])

        assert explain.shap(additive, ones, background=background).values[0, 2] == pytest.approx(0, abs=1e-12)
        assert explain.shap(additive, ones, background=ones).values.tolist() == [[0, 0, 0]]
        assert single.values.tolist() == [[pytest.approx(6.5)]]

    def test_ten_features_are_exact(self):
        rows, background = RNG.normal(size=(1, 10)), RNG.normal(size=(4, 10))
        result = explain.shap(
            lambda table: np.prod(table[:, :3], axis=1) + table.sum(axis=1), rows, background=background
        )
        right = np.array(shapley(lambda table: np.prod(table, axis=1), rows[0, :3], background[:, :3]))

        assert result.is_exact
        assert result.values[0] - (rows - background.mean(axis=0))[0] == pytest.approx([*right, *[0.0] * 7], abs=1e-9)

    def test_every_row_of_a_large_background_counts(self):
        background = RNG.normal(size=(400, 3))
        result = explain.shap(lambda rows: rows[:, 0] ** 2, np.zeros((1, 3)), background=background)

        assert result.values[0] == pytest.approx([-(background[:, 0] ** 2).mean(), 0, 0])

    def test_many_features_are_permuted_by_the_seed(self):
        background, rows = RNG.normal(size=(5, 12)), RNG.normal(size=(1, 12))

        def product(table):
            return np.prod(table[:, :4], axis=1)

        first, same, other = (
            explain.shap(product, rows, background=background, seed=seed, permutations=2) for seed in (1, 1, 2)
        )
        more = explain.shap(product, rows, background=background, seed=1, permutations=40)

        assert not first.is_exact
        assert first.values.tolist() == same.values.tolist()
        assert first.values.tolist() != other.values.tolist()
        assert first.base + first.values.sum() == pytest.approx(product(rows)[0])
        right = [*shapley(product, rows[0, :4], background[:, :4]), *[0.0] * 8]
        assert np.abs(more.values[0] - right).max() < np.abs(first.values[0] - right).max()

    def test_permutations_are_exact_for_pairs(self):
        background, rows = RNG.normal(size=(5, 12)), RNG.normal(size=(1, 12))
        result = explain.shap(lambda table: table[:, 0] * table[:, 1], rows, background=background)

        assert result.values[0, :2] == pytest.approx(
            shapley(lambda table: table[:, 0] * table[:, 1], rows[0, :2], background[:, :2])
        )

    def test_it_opens_as_a_data_frame(self):
        frame = explain.shap(additive, [[1, 1, 1]], background=[[0, 0, 0]], names=["a", "b", "c"]).to_frame()

        assert frame.columns.tolist() == ["row", "feature", "feature_value", "shap_value"]
        assert frame["feature"].tolist() == ["a", "b", "c"]
        assert frame["shap_value"].tolist() == pytest.approx([2, 3, 1])


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "shap", None)
    with pytest.raises(SpecError) as caught:
        explain.shap(additive, np.ones((1, 3)), background=np.zeros((1, 3)))

    assert str(caught.value) == 'explain.shap needs shap; pip install "pytest-crucible[explain]"'


class TestLime:
    def test_a_linear_model_has_its_own_slopes(self):
        result = explain.lime(additive, np.ones((2, 3)), background=BACKGROUND[:, :3])

        assert result.slopes == pytest.approx(np.array([[2, 3, 1]] * 2))
        assert result.weights == pytest.approx(np.array([2, 3, 1]) * BACKGROUND[:, :3].std(axis=0) * np.ones((2, 1)))
        assert result.local_predictions == pytest.approx(result.predictions)
        assert result.fits == pytest.approx([1, 1])
        assert result.standard_errors == pytest.approx(0, abs=1e-9)

    @pytest.mark.slow
    def test_the_weights_are_those_of_lime(self):
        lime_tabular = pytest.importorskip("lime.lime_tabular", reason="the package lime is not installed")
        theirs = lime_tabular.LimeTabularExplainer(
            BACKGROUND, mode="regression", discretize_continuous=False, sample_around_instance=True, random_state=3
        ).explain_instance(ROWS[0], mixture, num_features=6, num_samples=20_000)
        weights = dict(theirs.local_exp[1])
        ours = explain.lime(mixture, ROWS[:1], background=BACKGROUND, seed=3, samples=20_000)

        # Both have a Monte Carlo error of this size.
        distance = np.abs(ours.weights[0] - [weights[feature] for feature in range(6)])
        assert (distance < 4 * math.sqrt(2) * ours.standard_errors[0]).all()
        assert ours.local_predictions[0] == pytest.approx(theirs.local_pred[0], abs=0.2)

    def test_standard_errors_are_those_of_the_seeds(self):
        results = [explain.lime(mixture, ROWS[:1], background=BACKGROUND, seed=seed, samples=500) for seed in range(60)]
        spread = np.std([result.weights[0] for result in results], axis=0, ddof=1)
        stated = np.mean([result.standard_errors[0] for result in results], axis=0)

        assert np.abs(np.log(spread / stated)).max() < np.log(1.4)

    def test_a_row_has_its_own_draws(self):
        both = explain.lime(mixture, ROWS[:2], background=BACKGROUND, seed=5, samples=300)
        first, other = (explain.lime(mixture, ROWS[:1], background=BACKGROUND, seed=k, samples=300) for k in (5, 6))

        assert both.weights[0].tolist() == first.weights[0].tolist() != other.weights[0].tolist()

    def test_a_narrow_width_looks_closer(self):
        slopes = [
            explain.lime(lambda rows: rows[:, 0] ** 3, [[1.0]], background=BACKGROUND[:, :1], width=width).slopes[0, 0]
            for width in (0.05, None, 3.0)
        ]

        assert slopes[0] == pytest.approx(3, rel=0.05)
        assert slopes[0] < slopes[1] < slopes[2]

    def test_a_constant_model_has_no_fit(self):
        result = explain.lime(lambda rows: np.full(len(rows), 0.3), [[1.0, 2.0]], background=BACKGROUND[:, :2])

        assert result.weights == pytest.approx(0, abs=1e-12)
        assert np.isnan(result.fits).all()

    def test_it_opens_as_a_data_frame(self):
        frame = explain.lime(additive, np.ones((2, 3)), background=BACKGROUND[:, :3], names=["a", "b", "c"]).to_frame()

        assert frame["row"].tolist() == [0, 0, 0, 1, 1, 1]
        assert frame["feature"].tolist() == ["a", "b", "c"] * 2
        assert frame["slope"].tolist() == pytest.approx([2, 3, 1] * 2)
        assert set(frame.columns) >= {"feature_value", "weight", "standard_error", "fit"}

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"width": 0}, "explain.lime: width is 0; expected a number above 0, in standard deviations"),
            ({"width": 1e-9}, "explain.lime: width is 1e-09, so that too few points have a weight"),
            ({"samples": 4}, "explain.lime: samples is 4; expected a whole number from 5 on"),
            (
                {"background": np.column_stack([BACKGROUND[:, :2], np.ones(30)])},
                "explain.lime: feature 'x2' has one value (1) in background (n = 30), so that its effect cannot be seen",
            ),
        ],
    )
    def test_an_invalid_setting_is_a_sentence(self, settings, sentence):
        with pytest.raises(SpecError) as caught:
            explain.lime(additive, np.ones((1, 3)), **{"background": BACKGROUND[:, :3], **settings})

        assert str(caught.value).startswith(sentence)
