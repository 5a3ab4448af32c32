"""No option is taken for another: a misspelt one is refused, with what there is instead.

Every public function with an option of named choices is found by its signature.
"""

from __future__ import annotations

import inspect
from functools import cache
from itertools import chain
from typing import Literal, get_args, get_origin

import numpy as np
import pytest

from pytest_crucible import stats

FIRST, SECOND = np.array([0.1, 0.4, 0.35, 0.8, 0.7, 0.55]), np.array([0.3, 0.1, 0.6, 0.2, 0.5, 0.45])
ARMS = [FIRST, SECOND, FIRST + SECOND]
REPEATS = np.stack([FIRST, SECOND, FIRST[::-1]], axis=1)
SOME = [0.1, 0.4, 0.35, 0.8, None, None, None]
LABELS = ["a", "b", "c", "d", "e", "f"]
EXAMPLES = {
    **dict.fromkeys(["values", "x", "candidate", "labels"], FIRST),
    **dict.fromkeys(["y", "baseline", "predictions"], SECOND),
    "unlabelled_predictions": np.tile(FIRST, 3),
    **dict.fromkeys(["candidate_labels", "baseline_labels"], SOME),
    **dict.fromkeys(["candidate_predictions", "baseline_predictions"], np.arange(7) / 7),
    **dict.fromkeys(["clusters", "rater1", "rater2"], LABELS),
    "successes": 5,
    "gained": 3,
    "n": 20,
    "size": 2.0,
    **dict.fromkeys(["icc", "lost_rate", "target"], 0.2),
    **dict.fromkeys(["q", "mean", "effect"], 0.4),
    "gained_rate": 0.35,
    "groups": ARMS,
    "lost": 2,
    "alpha": 0.05,
    "side": "lower",
    "bounds": (0.0, 2.0),
    "p_values": [0.01, 0.2],
    "statistic": np.mean,
}
OTHERS = {  # where the examples do not fit
    "bound_chosen_arm": {"arms": 3},
    "compare_chosen_arm": {"arms": 3},
    "samples_to_prove_proportion": {"rate": 0.6},
    "gaffke_bound": {"end": -9.0},
    "mean_ratio_bound": {"numerator": FIRST, "denominator": SECOND},
    "mean_ratio_p_value": {"numerator": FIRST, "denominator": SECOND, "null": 0.5},
    "false_alarm_rate": {"values": REPEATS, "replicates": 20},
}


def functions():
    return [name for name in dir(stats) if inspect.isfunction(getattr(stats, name))]


@cache
def options(name):
    """The choices of each option of a function."""
    parameters = inspect.signature(getattr(stats, name), eval_str=True).parameters.values()
    result = {single.name: tuple(literals(single.annotation)) for single in parameters}
    return {option: choices for option, choices in result.items() if choices}


def literals(annotation):
    """The texts that an annotation names, of all its parts."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return chain.from_iterable(map(literals, get_args(annotation)))


def example(name):
    """Arguments that the function takes."""
    required = [
        single.name
        for single in inspect.signature(getattr(stats, name)).parameters.values()
        if single.default is single.empty and single.kind is not single.VAR_POSITIONAL
    ]
    arguments = {single: OTHERS.get(name, {}).get(single, EXAMPLES.get(single)) for single in required}
    return arguments | {single: value for single, value in OTHERS.get(name, {}).items() if single not in required}


WITH_OPTIONS = [name for name in functions() if options(name)]


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_the_example_of_a_function_is_taken(name):
    getattr(stats, name)(**example(name))


@pytest.mark.parametrize(("name", "option"), [(name, option) for name in WITH_OPTIONS for option in options(name)])
def test_a_misspelt_option_is_refused_with_what_there_is(name, option):
    with pytest.raises(ValueError, match="upperr") as refused:
        getattr(stats, name)(**example(name) | {option: "upperr"})

    assert all(choice in str(refused.value) for choice in options(name)[option])
