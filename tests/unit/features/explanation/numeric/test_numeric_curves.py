"""Curves over one feature: equal to scikit-learn's and PyALE's, and known answers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pytest_crucible import SpecError, explain

RNG = np.random.default_rng(11)
ROWS = np.column_stack([RNG.normal(size=80), RNG.uniform(-2, 3, 80), RNG.integers(0, 4, 80)])


def model(rows):
    return rows[:, 0] ** 2 + rows[:, 0] * rows[:, 1] + 3 * rows[:, 2] + 10


def scikit_learn_curves(feature, **settings):
    inspection = pytest.importorskip("sklearn.inspection", reason="the extra [explain] is not installed")
    from sklearn.base import BaseEstimator, RegressorMixin

    class Model(RegressorMixin, BaseEstimator):
        def __sklearn_is_fitted__(self):
            return True

        def fit(self, x, y):
            return self

        def predict(self, x):
            return model(x)

    return inspection.partial_dependence(Model(), ROWS, [feature], kind="both", **settings)


@pytest.mark.parametrize("settings", [{}, {"points": 7}, {"points": 5, "percentiles": (0, 1)}])
@pytest.mark.parametrize("feature", [0, 1, 2])
def test_partial_dependence_and_individual_curves_are_those_of_scikit_learn(feature, settings):
    translated = {"grid_resolution" if name == "points" else name: value for name, value in settings.items()}
    theirs = scikit_learn_curves(feature, **translated)
    mean, single = explain.pdp(model, ROWS, feature, **settings), explain.ice(model, ROWS, feature, **settings)

    assert mean.values.tolist() == single.values.tolist() == theirs["grid_values"][0].tolist()
    assert mean.predictions.tolist() == theirs["average"][0].tolist()
    assert single.predictions.tolist() == theirs["individual"][0].tolist()


def test_partial_dependence_is_the_mean_over_all_rows():
    pytest.importorskip("sklearn", reason="the extra [explain] is not installed")
    result = explain.pdp(model, ROWS, "kind", names=["size", "age", "kind"])
    expected = [model(np.column_stack([ROWS[:, :2], np.full(80, k)])).mean() for k in range(4)]

    assert (result.feature, result.values.tolist()) == ("kind", [0, 1, 2, 3])
    assert result.predictions == pytest.approx(expected)
    assert result.to_frame()["prediction"].tolist() == pytest.approx(expected)


def test_a_sample_of_rows_follows_the_seed():
    pytest.importorskip("sklearn", reason="the extra [explain] is not installed")
    first, same, other = (explain.ice(model, ROWS, 2, sample=10, seed=seed) for seed in (1, 1, 2))

    assert first.positions.tolist() == same.positions.tolist() != other.positions.tolist()
    assert first.predictions.shape == (10, len(first.values))
    frame = first.to_frame()
    assert frame["row"].tolist() == np.repeat(first.positions, len(first.values)).tolist()
    picked = frame[frame["row"] == first.positions[3]]["prediction"].tolist()
    row = np.tile(ROWS[first.positions[3]], (len(first.values), 1))
    row[:, 2] = first.values
    assert picked == pytest.approx(model(row).tolist())


@pytest.mark.parametrize("percentiles", [(0.9, 0.1), (0.5, 0.5), (-1, 2), "both"])
def test_invalid_percentiles_are_a_sentence(percentiles):
    pytest.importorskip("sklearn", reason="the extra [explain] is not installed")
    with pytest.raises(SpecError, match=r"explain\.pdp: percentiles is .* expected two shares from 0 to 1"):
        explain.pdp(model, ROWS, 0, points=5, percentiles=percentiles)


def test_an_error_of_the_model_is_its_own():
    pytest.importorskip("sklearn", reason="the extra [explain] is not installed")

    def failing_model(rows):
        raise ValueError("no such column")

    with pytest.raises(ValueError, match="no such column"):
        explain.pdp(failing_model, ROWS, 0)


def pyale_effects(rows, feature, bins):
    pyale = pytest.importorskip("PyALE", reason="the package PyALE is not installed")

    class Model:
        def predict(self, frame):
            return model(frame.to_numpy())

    frame = pd.DataFrame(rows, columns=list("abc"))
    settings = {"feature_type": "continuous", "grid_size": bins, "include_CI": False, "plot": False}
    return pyale.ale(frame, Model(), feature=["abc"[feature]], **settings)


@pytest.mark.slow
@pytest.mark.parametrize("bins", [1, 3, 20, 500])
@pytest.mark.parametrize("feature", [0, 1, 2])
def test_accumulated_effects_are_those_of_pyale(monkeypatch, feature, bins):
    module = pytest.importorskip("PyALE._src.ALE_1D", reason="the package PyALE is not installed")

    def quantiles(values, shares):
        return pd.Series(np.quantile(values, shares, method="inverted_cdf"))

    # Its own are not those of the definition, by one row.
    monkeypatch.setattr(module, "quantile_ied", quantiles)
    theirs, ours = pyale_effects(ROWS, feature, bins), explain.ale(model, ROWS, feature, bins=bins)

    assert ours.values.tolist() == pytest.approx(theirs.index.tolist())
    assert ours.effects == pytest.approx(theirs["eff"].to_numpy(), abs=1e-10)
    assert ours.counts.tolist() == theirs["size"].tolist()[1:]


@pytest.mark.slow
def test_with_many_rows_its_quantiles_make_no_difference():
    rows = np.column_stack([RNG.normal(size=4000), RNG.uniform(-2, 3, 4000), RNG.integers(0, 4, 4000)])
    theirs, ours = pyale_effects(rows, 0, 20), explain.ale(model, rows, 0)
    at = np.linspace(-2, 2, 50)
    distance = np.interp(at, ours.values, ours.effects) - np.interp(at, theirs.index, theirs["eff"])

    assert np.abs(distance).max() < 0.01 * np.ptp(ours.effects)


def test_an_additive_effect_is_itself_with_mean_0():
    result = explain.ale(lambda rows: 3 * rows[:, 0] + rows[:, 1] ** 2, ROWS, 0)

    assert np.diff(result.effects) == pytest.approx(3 * np.diff(result.values))
    assert result.counts.sum() == 80
    middles = (result.effects[1:] + result.effects[:-1]) / 2
    assert result.counts @ middles == pytest.approx(0, abs=1e-10)


def test_correlated_features_do_not_lend_their_effect():
    """Partial dependence asks for points that do not exist; accumulated effects stay near the rows."""
    size = RNG.uniform(-2, 2, 300)
    rows = np.column_stack([size, size + RNG.normal(0, 0.01, 300)])
    result = explain.ale(lambda table: table[:, 0] + 100 * (abs(table[:, 0] - table[:, 1]) > 1), rows, 0, bins=30)

    assert np.diff(result.effects) == pytest.approx(np.diff(result.values))


def test_a_sample_for_accumulated_effects_follows_the_seed():
    whole, part, other = (
        explain.ale(model, ROWS, 0, sample=sample, seed=seed) for sample, seed in ((None, 0), (20, 0), (20, 1))
    )

    assert (whole.counts.sum(), part.counts.sum()) == (80, 20)
    assert part.values.tolist() != other.values.tolist()
    assert part.to_frame()["rows"].sum() == 20


@pytest.mark.parametrize("function", [explain.pdp, explain.ice, explain.ale])
def test_a_constant_feature_is_a_sentence(function):
    rows = np.column_stack([ROWS, np.full(80, 2.5)])
    with pytest.raises(SpecError) as caught:
        function(model, rows, 3)

    assert str(caught.value) == (
        f"explain.{function.__name__}: feature 'x3' has one value (2.5) in rows (n = 80), so that its effect cannot be seen; "
        "give rows in which it varies, or another feature"
    )


@pytest.mark.parametrize("function", [explain.pdp, explain.ice])
def test_a_missing_package_names_the_extra(monkeypatch, function):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.inspection", None)
    with pytest.raises(SpecError, match=r'needs scikit-learn; pip install "pytest-crucible\[explain\]"'):
        function(model, ROWS, 0)
