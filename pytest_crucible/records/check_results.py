"""Results of data checks: whether a dataset meets the expectations of a suite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CheckState = Literal["passed", "warned", "failed"]
Severity = Literal["error", "warn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one data check on the samples of one dataset."""

    subject: str
    """The check as a part of a nodeid: `expect_no_missing_values(label)`."""
    call: str
    """The check as it is written in Python: `expect_no_missing_values("label")`."""
    state: CheckState
    message: str
    checked: int = 0
    """Values, rows or samples that were checked."""
    missing: int = 0
    """Missing values, which were skipped."""
    failing: int = 0
    """Values, rows or samples that do not meet the expectation."""
    samples: tuple[str, ...] = ()
    """Ids of failing samples, sorted; at most `MOST_IDS`."""

    @property
    def sentence(self) -> str:
        """The check and its result, as errors show it."""
        return f"{self.call}: {self.message}"


# Enough to find the fault; a million ids would be stored with every plan.
MOST_IDS = 100
