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
BITS = np.array([0, 1, 1, 0, 1, 1])
ARMS = [FIRST, SECOND, FIRST + SECOND]
REPEATS = np.stack([FIRST, SECOND, FIRST[::-1]], axis=1)
SOME = [0.1, 0.4, 0.35, 0.8, None, None, None]
LABELS = ["a", "b", "c", "d", "e", "f"]
TABLE = [[9, 3], [4, 8]]
EXAMPLES = {
    **dict.fromkeys(["values", "x", "differences", "candidate", "labels"], FIRST),
    **dict.fromkeys(["y", "baseline", "predictions"], SECOND),
    **dict.fromkeys(["unlabelled_predictions"], np.tile(FIRST, 3)),
    **dict.fromkeys(["candidate_labels", "baseline_labels"], SOME),
    **dict.fromkeys(["candidate_predictions", "baseline_predictions"], np.arange(7) / 7),
    **dict.fromkeys(["clusters", "candidate_clusters", "baseline_clusters", "rater1", "rater2"], LABELS),
    **dict.fromkeys(["successes", "events", "events1", "x1"], 5),
    **dict.fromkeys(["events2", "x2", "gained"], 3),
    **dict.fromkeys(["n", "n1", "n2", "first_n", "second_n"], 20),
    **dict.fromkeys(["exposure", "exposure1", "exposure2", "size", "deviation"], 2.0),
    **dict.fromkeys(["first", "icc", "lost_rate", "target", "value"], 0.2),
    **dict.fromkeys(["second", "correlation", "discordance", "q", "best_at", "mean", "effect"], 0.4),
    **dict.fromkeys(["rate", "gained_rate", "baseline_rate"], 0.35),
    "groups": ARMS,
    "arms": ARMS,
    "lost": 2,
    "alpha": 0.05,
    "side": "lower",
    "bounds": (0.0, 2.0),
    "p_values": [0.01, 0.2],
    "families": [[0.01, 0.2]],
    "statistic": np.mean,
    "table": TABLE,
    "counts": [[3, 0], [2, 1], [0, 3]],
    "ratings": [[1, 1, 2], [2, 2, 2], [1, 2, 1]],
    "matrix": [[1, 2], [4, 3], [5, 5]],
    "given": np.arange(6.0),
    "estimates": [0.1, 0.3, 0.2],
    "standard_errors": [0.1, 0.1, 0.2],
    "fractions": 2,
    "paired": True,
}
OTHERS = {  # where the examples do not fit
    "bound_chosen_arm": {"arms": 3},
    "compare_chosen_arm": {"arms": 3},
    "clustered_interval": {"mean": "clustered"},
    "clustered_p_value": {"mean": "clustered"},
    "samples_for_proportions": {"rate": 0.6},
    "samples_to_prove_proportion": {"rate": 0.6},
    "korn_graubard_bound": {"values": BITS},
    "gaffke_bound": {"end": -9.0},
    "gaffke_p_value": {"end": -9.0, "null": 0.1},
    "betting_p_value": {"null": 0.1},
    "mean_ratio_bound": {"numerator": FIRST, "denominator": SECOND},
    "mean_ratio_p_value": {"numerator": FIRST, "denominator": SECOND, "null": 0.5},
    "melded_p_value": {"null": 0.1},
    "ks_normal": {"mean": 0.5},
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
    if arguments.get("mean") == "clustered":
        arguments["mean"] = stats.clustered_mean(FIRST, LABELS)
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
