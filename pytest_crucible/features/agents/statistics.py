"""The statistic of agents' trajectories: a row of the table, which computes nothing before it is used."""

from __future__ import annotations

import math
from functools import partial

from pytest_crucible.measures import declarations
from pytest_crucible.measures.statistic import Statistic, lazy_function

_lazy = partial(lazy_function, "pytest_crucible.features.agents.per_success")
ROWS = (
    Statistic(
        name="per_success",
        title="amount per success",
        takes=("amount", "success"),
        example="per_success(cost_usd, solved) <= 0.05",
        prepare=_lazy("prepare"),
        estimate=_lazy("estimate"),
        bound=_lazy("bound"),
        difference=_lazy("compare"),
        value_range=lambda measure, facts: (0.0, math.inf),
        higher_is_better=declarations.metric_direction,
        check=_lazy("check_metrics"),
        no_proof=_lazy("no_proof"),
    ),
)
