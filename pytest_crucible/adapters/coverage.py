"""Checks that recorded replies and the samples of a dataset match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.backends import KnowsItsSamples
from pytest_crucible.records import Dataset
from pytest_crucible.records.errors import SpecError


def coverage_warnings(
    opened_arms: Sequence[OpenedArm], all_ids: Callable[[], Iterable[str]], dataset: Dataset
) -> Iterable[str]:
    """Yield a warning where recorded replies and samples do not match, with counts and the first name.

    `all_ids` returns the ids of the dataset of which the samples may be a part. Raises SpecError if no sample has a reply.
    """
    problems: list[str] = []
    for arm in opened_arms:
        yield from _members_coverage(arm, dataset)
        if not isinstance(arm.backend, KnowsItsSamples):
            continue
        dataset_ids = set(all_ids())
        answered = arm.backend.samples()
        missing = [sample.id for sample in dataset.samples if sample.id not in answered]
        extra = sorted(answered - dataset_ids)
        if missing and len(missing) == len(dataset.samples):
            problems.append(
                f"adapter {arm.arm.name!r} has a reply to none of the {len(missing)} samples of dataset {dataset.name!r}: "
                f"its replies are to {_first(answered)}, and the samples are {missing[0]!r:.80}, ...: give both the same ids"
            )
        elif missing:
            yield (
                f"adapter {arm.arm.name!r} lacks replies to {len(missing)} of {len(dataset.samples)} samples "
                f"(first: {missing[0]}): they will be lost"
            )
        if extra:
            yield (
                f"adapter {arm.arm.name!r} answers samples that dataset {dataset.name!r} does not have: "
                f"{len(extra)} (first: {extra[0]}); they are ignored"
            )
    if problems:
        raise SpecError("\n".join(problems))


def _first(names: Iterable[str]) -> str:
    name = min(names, default=None)
    return "nothing" if name is None else f"{name!r:.80}, ..."


def _members_coverage(ensemble: OpenedArm, dataset: Dataset) -> Iterable[str]:
    """Yield a warning for each member of an ensemble that lacks replies: the others answer without it."""
    sample_ids = [sample.id for sample in dataset.samples]
    for member in ensemble.members:
        answered = member.backend.samples() if isinstance(member.backend, KnowsItsSamples) else frozenset(sample_ids)
        missing = [name for name in sample_ids if name not in answered]
        if missing:
            yield (
                f"member {member.arm.name!r} of adapter {ensemble.arm.name!r} lacks replies to {len(missing)} of {len(sample_ids)} "
                f"samples (first: {missing[0]}): there the others answer without it"
            )
