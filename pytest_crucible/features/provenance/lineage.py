"""The lineage of an arm: the trainings behind its weights, what they read, and what they started from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_crucible.records import Ancestor, Arm


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmLineage:
    """Some weights and the training that has made them. What is not known is None."""

    weights: str | None
    """SHA-256 of the file with the weights, or their path on a service."""
    name: str | None = None
    """The adapter's name in the configuration when it was trained."""
    recipe: str | None = None
    recipe_sha256: str | None = None
    files: Mapping[str, str] | None = None
    """SHA-256 -> name of each file that this training has read, or that is declared for it."""
    step: int | None = None
    """The step of weights that the recipe has kept before its end."""
    state: str | None = None
    """Path of the state on a service from which training can continue."""
    parent: ArmLineage | None = None
    """What training started from; None for the base, or where nothing is known of the training."""
    earlier_files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 -> name of files of trainings before this one that no parent is known for."""

    @property
    def chain(self) -> Iterator[ArmLineage]:
        """These weights, and those before them."""
        yield self
        if self.parent is not None:
            yield from self.parent.chain

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The names of these weights: their hash, or their paths on a service."""
        return tuple(name for name in (self.weights, self.state) if name is not None)


def arm_lineages(arm: Arm) -> tuple[ArmLineage, ...]:
    """Return the lineage of an arm's weights: one, or several of an ensemble or of several trainings; none for a base.

    Runs from before format 11 know the files of an arm alone.
    """
    attributed = {sha256 for ancestor in arm.ancestry for sha256 in ancestor.files or {}}
    unclaimed = {sha256: name for sha256, name in arm.trained_on.items() if sha256 not in attributed}
    parents = {ancestor.parent for ancestor in arm.ancestry if ancestor.parent is not None}
    heads = [each for each in arm.ancestry if parents.isdisjoint({each.weights, each.state})]
    if not heads:
        return (ArmLineage(weights=None, files=unclaimed),) if unclaimed else ()
    return tuple(_trace(head, arm.ancestry, unclaimed) for head in heads)


def _trace(own: Ancestor, ancestry: Sequence[Ancestor], unclaimed: Mapping[str, str]) -> ArmLineage:
    """Return the lineage of some weights. `unclaimed` are files of the arm that belong to no known training."""
    parent = None
    if own.parent is not None:
        others = (each for each in ancestry if each is not own and own.parent in (each.weights, each.state))
        training = next(others, None)
        parent = ArmLineage(weights=own.parent) if training is None else _trace(training, ancestry, {})
    # What an arm declares for weights of unknown origin is all that is known of their training.
    is_own = own.files is None and bool(unclaimed)
    return ArmLineage(
        weights=own.weights,
        name=own.name,
        recipe=own.recipe,
        recipe_sha256=own.recipe_sha256,
        files=unclaimed if is_own else own.files,
        step=own.step,
        state=own.state,
        parent=parent,
        earlier_files={} if is_own else unclaimed,
    )
