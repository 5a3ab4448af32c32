"""Tables, names and models that cannot be explained are refused in one sentence, by every function."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from pytest_crucible import SpecError, explain

ROWS = np.random.default_rng(3).normal(size=(12, 2))


def model(rows):
    return rows[:, 0] * rows[:, 1]


def call(function, predict, rows, **settings):
    if function in (explain.shap, explain.lime):
        return function(predict, rows, **{"background": ROWS, **settings})
    if function is explain.permutation_importance:
        return function(predict, rows, np.arange(12.0), **settings)
    return (
        function(predict, rows, **settings)
        if function is explain.h_statistic
        else function(predict, rows, 0, **settings)
    )


NEEDED = {explain.shap: "shap", **dict.fromkeys([explain.pdp, explain.ice, explain.permutation_importance], "sklearn")}
FUNCTIONS = [
    pytest.param(explain.shap, marks=pytest.mark.slow),  # its package takes seconds to import
    *(explain.pdp, explain.ice, explain.permutation_importance, explain.lime, explain.ale, explain.h_statistic),
]
functions = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)


@functions
@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([1.0, 2.0], "rows has the shape (2,); expected rows x features, for example [[1, 2]] for one row"),
        (np.empty((0, 2)), "rows has the shape (0, 2); expected rows x features"),
        ([[1.0], [1.0, 2.0]], "rows has rows of different lengths, or values that are not numbers"),
        ([["red", 1.0]], "rows has rows of different lengths, or values that are not numbers"),
        ([[1.0, 2.0], [np.nan, 3.0]], "rows has nan in feature 'x0' (row 1); fill or drop such rows"),
        ([[1.0, np.inf]], "rows has inf in feature 'x1' (row 0); fill or drop such rows"),
    ],
)
def test_a_table_that_is_no_table_of_numbers_is_refused(function, rows, sentence):
    with pytest.raises(SpecError) as caught:
        call(function, model, rows)

    assert str(caught.value).startswith(f"explain.{function.__name__}: {sentence}")


@functions
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"names": ["a"]}, "1 names for 2 features; give one name for each column"),
        ({"names": "a"}, "1 names for 2 features; give one name for each column"),
        ({"names": ["a", "a"]}, "two features have the name 'a'; give each its own"),
        ({"seed": -1}, "seed is -1; expected a whole number from 0 to 4294967295"),
        ({"seed": "x"}, "seed is 'x'; expected a whole number from 0 to 4294967295"),
    ],
)
def test_names_and_seeds_are_checked(function, settings, sentence):
    with pytest.raises(SpecError) as caught:
        call(function, model, ROWS, **settings)

    assert str(caught.value) == f"explain.{function.__name__}: {sentence}"


@functions
@pytest.mark.parametrize(
    ("predict", "sentence"),
    [
        (lambda rows: rows[:-1, 0], "predict returned the shape "),
        (lambda rows: rows, "predict returned the shape "),
        (lambda rows: 1.0, "predict returned the shape ()"),
        (lambda rows: ["yes"] * len(rows), "predict returned 'yes'; expected a number for each row"),
        (lambda rows: np.full(len(rows), np.nan), "predict returned NaN or an infinite value"),
        ("model", "predict is 'model'; expected a function, such as model.predict"),
    ],
)
def test_a_model_that_does_not_return_a_number_for_each_row_is_refused(function, predict, sentence):
    pytest.importorskip(NEEDED.get(function, "numpy"), reason="the extra [explain] is not installed")
    with pytest.raises(SpecError) as caught:
        call(function, predict, ROWS)

    assert str(caught.value).startswith(f"explain.{function.__name__}: {sentence}")


@functions
def test_a_model_may_change_its_argument_and_return_a_column(function):
    pytest.importorskip(NEEDED.get(function, "numpy"), reason="the extra [explain] is not installed")

    def scaling(rows):
        rows *= 2
        return (rows[:, :1] * rows[:, 1:]) / 4

    frames = [call(function, predict, ROWS.copy(), seed=1).to_frame() for predict in (model, scaling)]
    numbers = [frame.select_dtypes("number").to_numpy() for frame in frames]

    assert numbers[0] == pytest.approx(numbers[1], abs=1e-9)


@functions
def test_a_data_frame_has_the_names_of_its_columns(function):
    pytest.importorskip(NEEDED.get(function, "numpy"), reason="the extra [explain] is not installed")
    frame = call(function, model, pd.DataFrame(ROWS, columns=["size", "age"])).to_frame()

    assert set(frame["feature"]) <= {"size", "age"}


@pytest.mark.parametrize("function", [explain.shap, explain.lime])
@pytest.mark.parametrize(
    ("background", "sentence"),
    [
        (ROWS[:, :1], "background has 1 features and rows has 2; give both the same columns"),
        ([1, 2], "background has the shape (2,); expected rows x features"),
        ([[np.nan, 1]], "background has nan in feature 'x0' (row 0); fill or drop such rows"),
    ],
)
def test_an_invalid_background_is_a_sentence(function, background, sentence):
    with pytest.raises(SpecError) as caught:
        call(function, model, ROWS, background=background)

    assert str(caught.value).startswith(f"explain.{function.__name__}: {sentence}")


@pytest.mark.parametrize("function", [explain.shap, explain.lime])
@pytest.mark.parametrize("columns", [["age", "size"], ["size", "weight"]])
def test_a_background_with_other_columns_than_the_rows_is_refused(function, columns):
    rows, background = pd.DataFrame(ROWS, columns=["size", "age"]), pd.DataFrame(ROWS, columns=columns)
    with pytest.raises(SpecError) as caught:
        function(model, rows, background=background)

    assert str(caught.value) == (
        f"explain.{function.__name__}: background has the columns {', '.join(columns)} and rows has size, age; "
        "give both the same columns, in one order"
    )


@pytest.mark.parametrize("feature", ["size", 2, -1, None])
def test_an_unknown_feature_is_a_sentence(feature):
    with pytest.raises(
        SpecError, match=r"explain\.ale: there is no feature .*; write one of 'x0', 'x1', or a position"
    ):
        explain.ale(model, ROWS, feature)


@pytest.mark.parametrize("sample", [0, 1, 2.5, True])
def test_an_invalid_sample_is_a_sentence(sample):
    with pytest.raises(SpecError, match=r"explain\.ale: sample is .*; expected a whole number from 2 on"):
        explain.ale(model, ROWS, 0, sample=sample)


def test_the_packages_are_imported_when_they_are_called():
    code = "import sys; from pytest_crucible import explain; print(sorted({'shap', 'sklearn', 'pandas'} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
