"""The demands of a suite on a candidate, as each run records them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from pytest_crucible.quick_dataclass import dataclass

Demands = Mapping[str, str]
"""Everything that can make a verdict easier to meet, by name, as text in full precision: `comparison of exact_match` ->
`non-inferior by 0.05`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRecord:
    """The part of a suite that pytest collected, before any request was sent."""

    settings: Demands
    """The settings of the session that decide how hard its verdicts are to meet."""
    experiments: Mapping[str, Demands] = field(default_factory=dict)
    """The experiments and joined tests with a target or a comparison, by nodeid."""
    without_verdict: tuple[str, ...] = ()
    """Experiments that only show numbers: those for practice, and those without a target and a comparison."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Experiments, and files that may hold some, that give no verdict or whose verdict is not believed, with the reason."""
