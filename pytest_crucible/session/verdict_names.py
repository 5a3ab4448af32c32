"""Names of verdicts as arguments: `test_x.py::test_y::exact_match >= 0.8` stands for its experiment."""

from __future__ import annotations

import re

_EXPERIMENT = re.compile(r".+::[^\W\d]\w*(\[.*\])?", re.DOTALL)


def without_verdict_name(argument: str) -> str:
    """Return the nodeid of a verdict's experiment, and any other argument as it is.

    >>> without_verdict_name("test_x.py::test_y[a b]::exact_match >= 0.8"), without_verdict_name("test_x.py::test_y[a::b c]")
    ('test_x.py::test_y[a b]', 'test_x.py::test_y[a::b c]')
    """
    experiment, _, name = argument.rpartition("::")
    # The name of a test, even of one with parameters, begins without spaces.
    is_verdict = " " in name.partition("[")[0] and _EXPERIMENT.fullmatch(experiment)
    return experiment if is_verdict else argument
