"""The planning functions that the rest of the program calls, under one name."""

from __future__ import annotations

from pytest_crucible.stats.planning.margin_power import samples_for_margin as samples_for_margin
from pytest_crucible.stats.planning.paired_proportions import (
    detectable_paired_proportions as detectable_paired_proportions,
)
from pytest_crucible.stats.planning.paired_proportions import power_paired_proportions as power_paired_proportions
from pytest_crucible.stats.planning.paired_proportions import (
    samples_for_paired_proportions as samples_for_paired_proportions,
)
from pytest_crucible.stats.planning.t_tests import detectable_mean as detectable_mean
from pytest_crucible.stats.planning.t_tests import t_power as t_power
