"""The difference of two proportions from independent samples: x1 of n1 against x2 of n2.

`compare_proportions` is the one to show: its interval and p-value come from one statistic and never contradict each
other. The other intervals are for comparison with reports.
"""

from __future__ import annotations


def describe_degenerate(x1: int, n1: int, x2: int, n2: int) -> str:
    """Return why a statistic does not exist; empty if it does."""
    if not (n1 and n2):
        return "an arm without values cannot be compared"
    return "all samples of both arms have the same outcome" if x1 + x2 in (0, n1 + n2) else ""
