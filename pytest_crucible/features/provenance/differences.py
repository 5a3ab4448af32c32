"""Compares the decisions of two runs by their content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.load_decisions import Chain, load_decisions, refuse_unknown
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainDifference:
    """The difference of one reply's decisions in two runs."""

    experiment: str
    arm: str
    sample: str
    repeat: int
    variant: str
    similarity: float
    """Events with equal content, repetitions counted, over the length of the longer chain; 1 if both are empty."""
    added: tuple[Decision, ...]
    """Those that only the first run has."""
    removed: tuple[Decision, ...]
    """Those that only the second run has."""


def compare_runs(store: RunStore, run: str, against: str) -> list[ChainDifference]:
    """Return the difference of each reply with decisions in either run, in the order of the first one.

    Both are names for `find_run`. Replies are paired by experiment, arm, sample, repeat and variant. One without decisions has
    an empty chain. Raises SpecError for a run whose decisions are not known.
    """
    runs = store.find_run(run), store.find_run(against)
    for each in runs:
        refuse_unknown(store, each)
    first, second = ({_place(chain): chain for chain in load_decisions(store, each)} for each in runs)
    return [
        _difference(first[place] if place in first else second[place], *(_events(of, place) for of in (first, second)))
        for place in dict.fromkeys((*first, *second))
    ]


_Place = tuple[str, str, str, int, str]


def _place(chain: Chain) -> _Place:
    return chain.experiment, chain.arm, chain.sample, chain.repeat, chain.variant


def _events(chains: dict[_Place, Chain], place: _Place) -> tuple[Decision, ...]:
    return chains[place].decisions if place in chains else ()


def _difference(chain: Chain, first: Sequence[Decision], second: Sequence[Decision]) -> ChainDifference:
    similarity, added, removed = compare_chains(first, second)
    return ChainDifference(
        experiment=chain.experiment,
        arm=chain.arm,
        sample=chain.sample,
        repeat=chain.repeat,
        variant=chain.variant,
        similarity=similarity,
        added=added,
        removed=removed,
    )


def compare_chains(
    first: Sequence[Decision], second: Sequence[Decision]
) -> tuple[float, tuple[Decision, ...], tuple[Decision, ...]]:
    """Return the similarity of two chains, from 0 to 1, and the events that only the first and only the second one has.

    >>> yes, no = (Decision(number=1, kind="decision", decision=text) for text in ("yes", "no"))
    >>> similarity, added, removed = compare_chains([yes, yes], [yes, no, no])
    >>> round(similarity, 3), len(added), len(removed)
    (0.333, 1, 2)
    """
    added, removed = _without_equal(first, second), _without_equal(second, first)
    longer = max(len(first), len(second))
    return (len(first) - len(added)) / longer if longer else 1.0, added, removed


def _without_equal(chain: Sequence[Decision], other: Sequence[Decision]) -> tuple[Decision, ...]:
    """Return the events of a chain without those that the other one has, too; of equal ones the later are left."""
    others = Counter(map(_content, other))
    left: list[Decision] = []
    for event in chain:
        content = _content(event)
        if others[content]:
            others[content] -= 1
        else:
            left.append(event)
    return tuple(left)


def _content(event: Decision) -> tuple[object, ...]:
    """Return what makes two events equal: neither time nor place in the chain, but who says it."""
    return event.kind, event.decision, event.over, event.because, event.confidence, event.stage, event.is_claim
