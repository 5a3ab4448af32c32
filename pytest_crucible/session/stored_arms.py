"""Arms that are stored replies of an earlier run (`--compare=run:ID`), which must be of the same experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_crucible.plan.fingerprint import differences
from pytest_crucible.records import Arm, Plan
from pytest_crucible.records.errors import SpecError
from pytest_crucible.store.runs import RunStore


def with_stored_runs(plan: Plan, store: Callable[[], RunStore]) -> Plan:
    """Return the plan with the ids of stored runs in its arms; `store` opens the run store, if an arm needs it.

    Raises SpecError if the experiment has changed since.
    """
    # Opened only for an arm that needs it: most sessions plan without a store.
    return replace(
        plan, arms=tuple(arm if arm.stored_run is None else _with_run(arm, plan, store()) for arm in plan.arms)
    )


def _with_run(arm: Arm, plan: Plan, store: RunStore) -> Arm:
    """Return the arm with the id of its stored run, and with the facts that the run recorded."""
    _, run, stored = store.stored_candidate(arm.stored_run or "", plan.nodeid)
    changed = differences(plan.fingerprint, stored.fingerprint)
    changed += ["prompts"] if plan.prompts != stored.prompts else []
    if changed:
        raise SpecError(
            f"--compare={arm.name} cannot be compared with: {' and '.join(changed)} changed since run {run}; "
            "measure the baseline again with --compare=ADAPTER"
        )
    known = stored.candidate
    return replace(arm, stored_run=run, trainings=known.trainings, trained_on=known.trained_on)
