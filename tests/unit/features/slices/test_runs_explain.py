"""Features of one's own that a search for slices takes, and those that it refuses with a sentence."""

from __future__ import annotations

import math
import sys

import pytest

from pytest_crucible import Sample, SpecError
from pytest_crucible.features.slices.command import feature_problem, load_feature, read_feature

SAMPLES = [Sample(id=f"s{k}", input="?") for k in range(40)]


@pytest.mark.parametrize(
    "function",
    [
        lambda sample: sample.id < "s2",
        lambda sample: int(sample.id[1:]),
        lambda sample: None if sample.id < "s2" else sample.id[1],
        lambda sample: math.inf if sample.id < "s2" else 1.0,
    ],
    ids=["bool", "number", "some", "infinite"],
)
def test_texts_numbers_and_bools_are_features(function):
    values = read_feature("own:f", function, SAMPLES)

    assert values == [function(sample) for sample in SAMPLES]
    assert feature_problem("own:f", values) == ""


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (lambda sample: 1 / 0, "raised ZeroDivisionError on sample 's0': division by zero; return None where"),
        (lambda sample: sys.exit(3), "raised SystemExit on sample 's0': 3; return None where"),
        (lambda sample: [1], "returned a list on sample 's0': return a text, a number, a bool, or None"),
    ],
)
def test_a_feature_that_raises_or_returns_another_type_is_refused(value, problem):
    with pytest.raises(SpecError) as caught:
        read_feature("own:f", value, SAMPLES)

    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([None] * 40, "own:f makes no slices: it returned 0 different values for 40 samples; return numbers"),
        ([math.nan] * 40, "it returned 0 different values"),
        ([1] * 40, "it returned 1 different value for"),
        (
            [sample.id for sample in SAMPLES],
            "it returned 40 different values for 40 samples; return numbers, or 2 to 20",
        ),
    ],
)
def test_a_feature_without_slices_says_why(values, problem):
    assert problem in feature_problem("own:f", values)


def test_a_module_that_raises_is_refused(tmp_path, monkeypatch):
    (tmp_path / "broken_features.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(SpecError, match="its module raised ZeroDivisionError: division by zero; correct the module"):
        load_feature("broken_features:f")


async def slow(sample):
    return 1


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        (":", "cannot be read: write MODULE:FUNCTION"),
        ("math:", "cannot be read: write MODULE:FUNCTION"),
        ("no_such_module:f", "cannot be loaded: No module named 'no_such_module'; write MODULE:FUNCTION"),
        ("math:pi", "is a number: name a function of a sample"),
        (f"{__name__}:slow", "is an async function: write it with def, and without await"),
    ],
)
def test_a_feature_that_cannot_be_called_is_refused(reference, problem):
    with pytest.raises(SpecError) as caught:
        load_feature(reference)

    assert problem in str(caught.value)
