"""Importance and interactions over all rows: equal to scikit-learn's, to the definition, and to closed forms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pytest_crucible import SpecError, explain

RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(60, 4))
FACTORIAL = np.array(list(itertools.product([-1.0, 1.0], repeat=3)))


def model(rows):
    return 3 * rows[:, 0] + rows[:, 1] + rows[:, 2] * rows[:, 3]


OUTCOMES = model(ROWS) + RNG.normal(size=60)


def h_by_definition(predict, rows, pair):
    """Return equation 44 of Friedman & Popescu (2008), row by row."""

    def dependence(columns):
        values = []
        for row in rows:
            table = rows.copy()
            table[:, columns] = row[columns]
            values.append(predict(table).mean())
        return np.array(values) - np.mean(values)

    first, second = pair
    joint = dependence([first, second])
    rest = joint - dependence([first]) - dependence([second])
    return math.sqrt((rest**2).sum() / (joint**2).sum())


class TestPermutationImportance:
    @pytest.fixture(autouse=True)
    def _needs_scikit_learn(self):
        pytest.importorskip("sklearn", reason="the extra [explain] is not installed")

    @pytest.mark.parametrize("scoring", ["r2", "neg_mean_absolute_error"])
    def test_it_is_that_of_scikit_learn(self, scoring):
        from sklearn.inspection import permutation_importance
        from sklearn.linear_model import LinearRegression

        fitted = LinearRegression().fit(ROWS, OUTCOMES)
        theirs = permutation_importance(fitted, ROWS, OUTCOMES, scoring=scoring, n_repeats=7, random_state=4)
        ours = explain.permutation_importance(fitted.predict, ROWS, OUTCOMES, seed=4, repeats=7, scoring=scoring)

        assert ours.losses == pytest.approx(theirs.importances)
        frame = ours.to_frame()
        assert frame["importance"].tolist() == pytest.approx(theirs.importances_mean.tolist())
        assert frame["standard_deviation"].tolist() == pytest.approx(theirs.importances_std.tolist())

    def test_it_follows_the_seed(self):
        first, same, other = (explain.permutation_importance(model, ROWS, OUTCOMES, seed=seed) for seed in (0, 0, 1))

        assert first.losses.tolist() == same.losses.tolist() != other.losses.tolist()
        assert first.score == pytest.approx(1 - ((OUTCOMES - model(ROWS)) ** 2).sum() / (len(ROWS) * OUTCOMES.var()))

    def test_a_feature_that_the_model_does_not_read_has_0(self):
        result = explain.permutation_importance(lambda rows: rows[:, 0], ROWS, OUTCOMES)

        assert result.means[0] > 0.3
        assert result.means[1:].tolist() == [0, 0, 0]

    @pytest.mark.parametrize(
        ("outcomes", "settings", "sentence"),
        [
            (OUTCOMES[:-1], {}, "outcomes has the shape (59,) for 60 rows; give one number for each row"),
            (np.ones(60), {}, "outcomes has one value (1), so that no feature can matter; give outcomes that vary"),
            ([math.nan, *OUTCOMES[1:]], {}, "outcomes has NaN or an infinite value; fill or drop such rows"),
            (["yes"] * 60, {}, "outcomes has values that are not numbers; code classes as 0 and 1"),
            (OUTCOMES, {"scoring": "best"}, "scoring is 'best'; expected a scorer of scikit-learn, such as"),
            (OUTCOMES, {"scoring": "roc_auc"}, "scoring is 'roc_auc', which scores classifiers; write one for numbers"),
            (OUTCOMES, {"repeats": 0}, "repeats is 0; expected a whole number from 1 on"),
        ],
    )
    def test_invalid_input_is_a_sentence(self, outcomes, settings, sentence):
        with pytest.raises(SpecError) as caught:
            explain.permutation_importance(model, ROWS, outcomes, **settings)

        assert str(caught.value).startswith(f"explain.permutation_importance: {sentence}")


class TestHStatistic:
    @pytest.mark.parametrize("c", [0.5, 1.0, 4.0])
    def test_a_factorial_has_the_closed_form(self, c):
        """It is c / sqrt(2 + c^2) for a + b + c ab on all combinations of -1 and 1."""
        result = explain.h_statistic(lambda rows: rows[:, 0] + rows[:, 1] + c * rows[:, 0] * rows[:, 1], FACTORIAL)

        assert result.pairs == (("x0", "x1"), ("x0", "x2"), ("x1", "x2"))
        assert result.values == pytest.approx([c / math.sqrt(2 + c * c), 0, 0], abs=1e-12)
        assert result.strengths == pytest.approx([c, 0, 0], abs=1e-12)

    def test_an_interaction_without_own_effects_is_1(self):
        result = explain.h_statistic(lambda rows: 7 + rows[:, 0] * rows[:, 1], FACTORIAL, ["x0", "x1"])

        assert result.values == pytest.approx([1])

    def test_it_is_that_of_the_definition(self):
        result = explain.h_statistic(model, ROWS)

        expected = [h_by_definition(model, ROWS, pair) for pair in itertools.combinations(range(4), 2)]
        assert result.values == pytest.approx(expected, abs=1e-10)

    def test_its_square_is_the_number_of_artemis(self):
        """The numbers are those of pyartemis 0.1.5, FriedmanHStatisticMethod."""
        a = [0.5, 1.5, -0.4, 2.0, -1.2, 0.9, 3.1]
        b = [-1.0, 0.3, 2.2, 1.1, 0.6, -0.8, 0.2]
        c = [2.0, -0.7, 0.1, 1.3, -2.5, 0.4, -1.1]

        def predict(rows):
            return rows[:, 0] * rows[:, 1] + np.exp(rows[:, 2] / 2) * rows[:, 0] + rows[:, 1] ** 2

        result = explain.h_statistic(predict, np.column_stack([a, b, c]))

        assert result.values**2 == pytest.approx([1.714538912882e-01, 3.223994592482e-01, 0], rel=1e-10, abs=1e-12)

    def test_a_pair_without_an_effect_is_undefined_whatever_the_offset(self):
        result = explain.h_statistic(lambda rows: 1e6 + np.sin(rows[:, 0]), ROWS, [1, 2])

        assert np.isnan(result.values).all()
        assert result.strengths == pytest.approx(0, abs=1e-6)

    def test_more_rows_than_the_sample_are_drawn_by_the_seed(self):
        first, same, other = (explain.h_statistic(model, ROWS, [2, 3], sample=20, seed=seed) for seed in (0, 0, 1))

        assert first.values.tolist() == same.values.tolist() != other.values.tolist()
        assert (first.n, explain.h_statistic(model, ROWS, [2, 3], sample=None).n) == (20, 60)

    def test_batches_change_nothing(self, monkeypatch):
        whole = explain.h_statistic(model, ROWS)
        monkeypatch.setattr("pytest_crucible.features.explanation.numeric.whole_model._BATCH", 130)

        assert explain.h_statistic(model, ROWS).values == pytest.approx(whole.values, abs=1e-12)

    def test_it_opens_as_a_data_frame(self):
        frame = explain.h_statistic(model, ROWS, ["c", "d", "a"], names=list("abcd")).to_frame()

        assert frame[["feature", "other"]].to_numpy().tolist() == [["c", "d"], ["c", "a"], ["d", "a"]]
        assert frame["h"][0] > 0.9 > 0.3 > frame["h"][1]

    @pytest.mark.parametrize(
        ("features", "sentence"),
        [
            (["x0"], "features is ['x0']; expected at least two features"),
            ("x0", "features is 'x0'; expected at least two features"),
            (["x0", 0], "features is ['x0', 0], which names a feature twice; name each once"),
            (["x0", "size"], "there is no feature 'size'; write one of 'x0', 'x1', 'x2', 'x3', or a position"),
        ],
    )
    def test_invalid_features_are_a_sentence(self, features, sentence):
        with pytest.raises(SpecError) as caught:
            explain.h_statistic(model, ROWS, features)

        assert str(caught.value) == f"explain.h_statistic: {sentence}"
