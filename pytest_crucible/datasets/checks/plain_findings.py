"""Findings as JSON, by which the workers of a run share them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_crucible.datasets.checks.check import Finding


def finding_to_plain(finding: Finding | str) -> Any:
    """Return a finding, adjusted already, or an error as a JSON value."""
    if isinstance(finding, str):
        return finding
    # Numbers and truth values of numpy have no JSON form.
    return {
        "message": finding.message,
        "fault": finding.fault,
        "checked": int(finding.checked),
        "missing": int(finding.missing),
        "is_met": bool(finding.is_met),
        "is_open": bool(finding.is_open),
        "failing": finding.failing.tolist(),
    }


def finding_from_plain(plain: Any) -> Finding | str:
    """Return the finding or the error of a JSON value.

    >>> finding_from_plain(finding_to_plain(Finding(message="unique", failing=np.array([3])))).failing.tolist()
    [3]
    """
    if isinstance(plain, str):
        return plain
    return Finding(**plain | {"failing": np.array(plain["failing"], dtype=np.intp)})
