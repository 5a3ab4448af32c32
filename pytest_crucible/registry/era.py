"""The era of a production version: all runs that compare candidates with it share one error rate, `era_alpha`.

The k-th run with new answers of a candidate is decided at era_alpha / (k (k + 1)). The rates of all runs add up to era_alpha, so
that however many candidates are tried, one that is not better passes with at most that probability (Bonferroni over an endless
sequence; Foster & Stine 2008, doi:10.1111/j.1467-9868.2007.00643.x, call it alpha spending).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from pytest_crucible.records import Arm
from pytest_crucible.records.registry import Version
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.registry.rules import is_version_arm
from pytest_crucible.store import schema
from pytest_crucible.store.engine import explain_errors
from pytest_crucible.store.past_comparisons import arms_with_new_replies
from pytest_crucible.store.runs import RunStore


def alpha_of_look(era_alpha: float, look: int) -> float:
    """Return the error rate of the k-th run of an era, from 1.

    >>> alpha_of_look(0.06, 1), alpha_of_look(0.06, 2)
    (0.03, 0.01)
    """
    return era_alpha / (look * (look + 1))


def era_runs(store: RunStore, production: Version) -> list[str]:
    """Return the runs that brought new answers of a candidate against this version, in the order in which they began."""
    experiments, arms = schema.experiments, schema.arms
    query = (
        select(experiments.c.run, experiments.c.plan["arms"], arms.c.id)
        .join(arms, arms.c.experiment == experiments.c.id)
        .where(arms.c.number == 0)
        .order_by(experiments.c.id)
    )
    with explain_errors(store.location), store.engine.connect() as connection:
        compared = [(run, key) for run, plan, key in connection.execute(query) if _is_in_era(plan, production)]
        new = arms_with_new_replies(connection, [key for _, key in compared])
    return list(dict.fromkeys(run for run, key in compared if key in new))


def look_of_run(runs: list[str], run: str) -> int:
    """Return the number of a run's look; a run without new answers has the number of the last one before the session."""
    return runs.index(run) + 1 if run in runs else max(len(runs), 1)


def _is_in_era(arms: list[Mapping[str, Any]], production: Version) -> bool:
    # Most runs have other arms: only those with the version's identity are built as records.
    baselines = [arm for arm in arms[1:] if arm["identity"] == production.identity]
    return arms[0]["identity"] != production.identity and any(
        is_version_arm(from_plain(Arm, arm), production) for arm in baselines
    )
