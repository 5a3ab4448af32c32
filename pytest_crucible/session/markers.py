"""The lines of `pytest --markers`, names of verdicts as arguments, and arguments that send requests."""

from __future__ import annotations

import re
from collections.abc import Collection

from pytest_crucible.features import all_features

MARKERS = (
    "crucible(dataset, metrics=(), split=None, fold=None, limit=None, stratify=None, epochs=1, timeout=None, fields=None, "
    "budget=None, stage=None, max_calls=None, purpose='gate', arms_differ_in=(), repairs=None): "
    "make a test function an experiment that runs on every sample of a dataset",
    "quality_target(*targets, decide=None): targets such as 'accuracy >= 0.80' that the candidate must meet",
    "ab_compare(*metrics, margin=None, alternative=None, relevant=None): compare the candidate with every --compare adapter",
    "score_bounds(**bounds): the lowest and highest possible values of numbers that the test scores itself, such as "
    "relevance=(0, 1)",
    "score_reach(**reach): the largest change of one sample, between two arms, that is possible for numbers that the test "
    "scores itself, such as relevance=0.25",
)

_TEST = r"[^\W\d]\w*(\[.*\])?"
# Compiled where they are used: every pytest session imports this module, and few have such arguments.
_EXPERIMENT = rf".+::{_TEST}(@.+)?"
# Only in Python files: other plugins' items may have an @ in their names.
_IN_GROUP = rf"(?P<test>.+\.py::(.+::)?{_TEST})@[^\]]+"


def resolve_argument(argument: str) -> str:
    """Return the nodeid of a verdict's experiment or of a test, without the group that `--dist loadgroup` appends to it.

    Any other argument is returned unchanged.

    >>> resolve_argument("test_x.py::test_y[a b]::exact_match >= 0.8"), resolve_argument("test_x.py::test_y[a::b c]")
    ('test_x.py::test_y[a b]', 'test_x.py::test_y[a::b c]')
    >>> resolve_argument("test_x.py::test_y@group::exact_match >= 0.8"), resolve_argument("test_x.py::test_y@group")
    ('test_x.py::test_y', 'test_x.py::test_y')
    """
    experiment, _, name = argument.rpartition("::")
    # The name of a test, even of one with parameters, begins without spaces.
    head = name.partition("[")[0]
    if (" " in head or "(" in head) and re.fullmatch(_EXPERIMENT, experiment, re.DOTALL):
        argument = experiment
    in_group = re.fullmatch(_IN_GROUP, argument, re.DOTALL)
    return in_group["test"] if in_group else argument


def sends_requests(names: Collection[str]) -> bool:
    """Return whether a function with these arguments may send requests to its arm."""
    return "sampler" in names or any(name in names for feature in all_features() for name in feature.senders)
