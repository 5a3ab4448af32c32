"""The samples of a stored experiment that every arm has answered, in look order."""

from __future__ import annotations

from collections import Counter

from pytest_crucible.analyse.stopping import answered_by_arm
from pytest_crucible.plan.arms import complete_length, look_order
from pytest_crucible.store.experiments import StoredExperiment


def complete_samples(stored: StoredExperiment) -> list[int]:
    """Return the samples in look order, up to the first that some arm has not answered."""
    plan, order = stored.plan, look_order(stored.all_sample_ids(), stored.groups)
    queried = [
        (Counter(units), plan.draws(number).size)
        for number, units in enumerate(answered_by_arm(stored.arms, stored.variants))
        if plan.arms[number].stored_run is None
    ]
    without_twin = list(stored.samples_without_twin().values())

    def is_complete(position: int) -> bool:
        forms = 1 + sum(position not in samples for samples in without_twin)
        return all(counts[position] >= size * forms for counts, size in queried)

    return order[: complete_length(order, stored.groups, is_complete)]
