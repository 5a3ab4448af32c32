"""Details of an experiment that was put together from arms of two stored runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Sample
from pytest_crucible.records.calls import CallColumns, ReplyColumns, move_rows
from pytest_crucible.records.outcomes import Place
from pytest_crucible.sections.inputs import NoStoredDetails
from pytest_crucible.store import samples
from pytest_crucible.store.experiments import StoredExperiment
from pytest_crucible.store.prompts import first_prompts
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True, kw_only=True)
class ComparedArm:
    """One arm of a stored experiment, with its places in the comparison."""

    stored: StoredExperiment
    number: int
    positions: Mapping[int, int]
    """Position of a sample -> its position in the comparison."""
    repeats: Mapping[int, int]

    def place(self, unit: Place) -> Place | None:
        """Return the place of a reply in the comparison; None if it has none there."""
        position, repeat = self.positions.get(unit[0]), self.repeats.get(unit[1])
        return None if position is None or repeat is None else (position, repeat)


@dataclass(frozen=True, kw_only=True)
class ComparedDetails(NoStoredDetails):
    """Stored details of the arms of a comparison, and of its samples, which are the candidate's."""

    store: RunStore
    dataset: str
    """The SHA-256 of the candidate's samples."""
    arms: Sequence[ComparedArm]

    def calls(self, arm: int) -> CallColumns:
        """Return all calls of an arm, at their places in the comparison."""
        side = self.arms[arm]
        return move_rows(side.stored.calls(side.number), side.place)

    def prompts(self, arms: Sequence[CallColumns]) -> Sequence[Mapping[int, tuple[int, ...]]]:
        """Return, for each arm, a hash of each prompt of its first reply to a sample, by its place in the comparison."""
        # The calls of each side refer to the samples of its own run.
        own = ((side, side.stored.prompts([side.stored.calls(side.number)])[0]) for side in self.arms)
        return [{side.positions[k]: hashes for k, hashes in sent.items() if k in side.positions} for side, sent in own]

    def reply_columns(self, arm: int) -> ReplyColumns:
        """Return all replies of an arm, at their places in the comparison."""
        side = self.arms[arm]
        return move_rows(side.stored.reply_columns(side.number), side.place)

    def reply_texts(self, arm: int, twin: int) -> Mapping[Place, str]:
        """Return the texts of an arm's replies, at their places in the comparison."""
        side = self.arms[arm]
        texts = side.stored.reply_texts(side.number, twin)
        return {place: text for unit, text in texts.items() if (place := side.place(unit)) is not None}

    def long_texts(self, keys: Collection[bytes]) -> Mapping[bytes, str]:
        """Return texts of calls and replies by the keys that stand for them."""
        return self.arms[0].stored.long_texts(keys)

    def first_prompts(self, forms: Mapping[int, int | None]) -> Mapping[int, tuple[Any, Any]]:
        """Return first prompts by position, from the forms of their messages: each as it was sent, and with references in it."""
        return first_prompts(self.store, self.samples(list(forms)), forms)

    def samples(self, positions: Sequence[int]) -> Mapping[int, Sample]:
        """Return the samples at some positions."""
        return samples.samples(self.store, self.dataset, positions)

    def replies(self, arm: int, positions: Sequence[int]) -> Mapping[int, str]:
        """Return an arm's first reply to the samples at some positions."""
        side = self.arms[arm]
        own = {place: position for position, place in side.positions.items()}
        texts = side.stored.replies(side.number, [own[position] for position in positions if position in own])
        return {side.positions[position]: text for position, text in texts.items()}
