"""Names of verdicts as arguments: `test_x.py::test_y::exact_match >= 0.8` means its experiment."""

from __future__ import annotations

import re

_TEST = r"[^\W\d]\w*(\[.*\])?"
_EXPERIMENT = re.compile(rf".+::{_TEST}(@.+)?", re.DOTALL)
# Only in Python files: other plugins' items may have an @ in their names.
_IN_GROUP = re.compile(rf"(?P<test>.+\.py::(.+::)?{_TEST})@[^\]]+", re.DOTALL)


def resolve_argument(argument: str) -> str:
    """Return the nodeid of a verdict's experiment or of a test, without the group that `--dist loadgroup` appends to it.

    Any other argument is returned unchanged.

    >>> resolve_argument("test_x.py::test_y[a b]::exact_match >= 0.8"), resolve_argument("test_x.py::test_y[a::b c]")
    ('test_x.py::test_y[a b]', 'test_x.py::test_y[a::b c]')
    >>> resolve_argument("test_x.py::test_y@group::exact_match >= 0.8"), resolve_argument("test_x.py::test_y@group")
    ('test_x.py::test_y', 'test_x.py::test_y')
    """
    return _without_group(_without_verdict(argument))


def _without_verdict(argument: str) -> str:
    experiment, _, name = argument.rpartition("::")
    # The name of a test, even of one with parameters, begins without spaces.
    head = name.partition("[")[0]
    is_verdict = (" " in head or "(" in head) and _EXPERIMENT.fullmatch(experiment)
    return experiment if is_verdict else argument


def _without_group(argument: str) -> str:
    in_group = _IN_GROUP.fullmatch(argument)
    return in_group["test"] if in_group else argument
