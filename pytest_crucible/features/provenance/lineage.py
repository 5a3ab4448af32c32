"""The lineage of an arm: the trainings behind its weights, what they read, and what they started from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Ancestor, Arm


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmLineage:
    """Some weights with the training that has made them, and the weights that this started from."""

    training: Ancestor
    parent: ArmLineage | None = None
    """None for the base, or where nothing is known of the training."""
    earlier_files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 -> name of files of trainings before this one that no parent is known for."""

    @property
    def chain(self) -> Iterator[ArmLineage]:
        """These weights, and those before them."""
        yield self
        if self.parent is not None:
            yield from self.parent.chain


def arm_lineages(arm: Arm) -> tuple[ArmLineage, ...]:
    """Return the lineage of an arm's weights: one, or several of an ensemble or of several trainings; none for a base.

    Runs from before format 11 know the files of an arm alone.
    """
    attributed = {sha256 for ancestor in arm.ancestry for sha256 in ancestor.files or {}}
    unclaimed = {sha256: name for sha256, name in arm.trained_on.items() if sha256 not in attributed}
    parents = {ancestor.parent for ancestor in arm.ancestry if ancestor.parent is not None}
    heads = [each for each in arm.ancestry if parents.isdisjoint({each.weights, each.state})]
    if not heads:
        return (ArmLineage(training=Ancestor(weights=None, files=unclaimed)),) if unclaimed else ()
    return tuple(_trace(head, arm.ancestry, unclaimed) for head in heads)


def _trace(own: Ancestor, ancestry: Sequence[Ancestor], unclaimed: Mapping[str, str]) -> ArmLineage:
    """Return the lineage of some weights. `unclaimed` are files of the arm that belong to no known training."""
    parent = None
    if own.parent is not None:
        others = (each for each in ancestry if each is not own and own.parent in (each.weights, each.state))
        training = next(others, None)
        parent = _trace(training or Ancestor(weights=own.parent), ancestry, {})
    # What an arm declares for weights of unknown origin is all that is known of their training.
    is_own = own.files is None and bool(unclaimed)
    return ArmLineage(
        training=replace(own, files=unclaimed) if is_own else own,
        parent=parent,
        earlier_files={} if is_own else unclaimed,
    )
