"""The fragility of a verdict: the fewest answers, and the fewest lost samples, that would change it.

All answers of a set are of one arm, and turn the same way: to right (or the best score), or to wrong (or the worst).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from pytest_crucible.features.provenance.lost_samples import count_lost
from pytest_crucible.features.provenance.movable import (
    Moves,
    Places,
    is_counted,
    movable_answers,
    pair_kinds,
    set_kinds,
    undefined_reason,
)
from pytest_crucible.features.provenance.rough_decision import guess_fewest, guess_fewest_scores, promising_splits
from pytest_crucible.features.provenance.verdict_facts import Flip, Fragility
from pytest_crucible.features.provenance.what_if import Question
from pytest_crucible.gate.decide import Decision
from pytest_crucible.records import Contrast
from pytest_crucible.stats.fragility import fewest_answers, smallest_set, splits

SMALL = 16
"""Up to so many samples all sets of scores are tried."""
MOST_SETS = 5_000
"""Sets that are tried for one arm and direction. It takes seconds, and is enough for any set of twelve answers."""

LARGE = 20_000
"""Of more samples the baseline's answers are tried only if the candidate's change nothing: a decision takes 0.1 s and more."""

Differs = Callable[[Decision], bool]


def measure_fragility(question: Question) -> Fragility:
    """Return the fewest answers, and lost samples, that change a verdict."""
    undefined = undefined_reason(question)
    if undefined:
        return Fragility(undefined=undefined, lost=count_lost(question), counts_lost=True)
    moves = [movable_answers(question, number, is_better) for number in question.numbers for is_better in (True, False)]
    decided = question.decide()
    change, is_exact = _fewest(question, moves, lambda other: other != decided)
    of_state = change
    if change is not None and change.state == decided[0]:
        of_state, is_exact = _fewest(question, moves, lambda other: other[0] != decided[0])
    return Fragility(
        change=change, change_of_state=of_state, is_exact=is_exact, lost=count_lost(question), counts_lost=True
    )


def _fewest(question: Question, all_moves: Sequence[Moves], differs: Differs) -> tuple[Flip | None, bool]:
    """Return the smallest set of answers after which the decision differs, and whether there is no smaller one.

    Of two arms it is the candidate's, if that is as small.
    """
    fewest: Flip | None = None
    is_exact, is_large = True, not is_counted(question) and int(question.chosen.sum()) > LARGE
    for moves in all_moves:
        if moves.arm and fewest is not None and (is_large or _has_room(question, all_moves, fewest)):
            continue
        below = len(moves.answers) + 1 if fewest is None else min(fewest.answers, len(moves.answers) + 1)
        find = _fewest_of_kinds if is_counted(question) else _fewest_of_scores
        places, tried_all = find(question, moves, differs, below)
        is_exact = is_exact and tried_all
        fewest = fewest if places is None else _flip(question, moves, places)
    return fewest and replace(fewest, is_exact=is_exact), is_exact


def _has_room(question: Question, all_moves: Sequence[Moves], flip: Flip) -> bool:
    """Return whether the candidate has as many answers of each kind as its set: then the baseline has no smaller one.

    Where only numbers of pairs matter, an answer of either arm moves the same pairs.
    """
    measure = question.measure
    if not is_counted(question) or not isinstance(measure, Contrast) or measure.unpaired:
        return False
    moves = next(moves for moves in all_moves if not moves.arm and moves.is_better == flip.is_better)
    return all(places.size >= flip.answers for places in pair_kinds(question, moves))


def _flip(question: Question, moves: Moves, places: Places) -> Flip:
    answers = moves.answers.at(places)
    state, proven = question.decide(answers)
    ids = question.inputs.sample_ids
    return Flip(
        answers=len(answers),
        is_exact=False,
        arm=question.analysis.plan.arms[moves.arm].name,
        is_better=moves.is_better,
        state=state,
        proven=proven,
        samples=tuple(ids[position] if ids else str(position) for position in answers.positions.tolist()),
    )


def _fewest_of_kinds(question: Question, moves: Moves, differs: Differs, below: int) -> tuple[Places | None, bool]:
    """Return the places of the fewest of at most two kinds of answers, which are exchangeable within each kind."""
    first, second = pair_kinds(question, moves)
    rooms = first.size, second.size

    def sets(number: int) -> Iterator[Places]:
        return (np.concatenate((first[:ours], second[:theirs])) for ours, theirs in splits(number, rooms))

    def changes(number: int) -> bool:
        return any(differs(question.decide(moves.answers.at(places))) for places in sets(number))

    guess = guess_fewest(question, moves.arm, moves.is_better, differs)
    fewest = fewest_answers(changes, below - 1, guess=guess)
    if fewest is None:
        return None, True
    best = next(places for places in sets(fewest) if differs(question.decide(moves.answers.at(places))))
    while (smaller := _more_even_set(question, moves, differs, best.size - 1)) is not None:
        best = smaller
    return best, True


def _more_even_set(question: Question, moves: Moves, differs: Differs, number: int) -> Places | None:
    """Return a set of a number of answers that changes the decision although the most unequal splits do not; None without one.

    For a bound far from 0 a split between them may be the one that moves it most.
    """
    kinds = pair_kinds(question, moves)
    for ours in promising_splits(question, moves.arm, moves.is_better, number, (kinds[0].size, kinds[1].size)):
        places = np.concatenate((kinds[0][:ours], kinds[1][: number - ours]))
        if differs(question.decide(moves.answers.at(places))):
            return places
    return None


def _fewest_of_scores(question: Question, moves: Moves, differs: Differs, below: int) -> tuple[Places | None, bool]:
    """Return the places of few answers, and whether no fewer do: for few samples all sets are tried."""

    def changes(places: Places | Sequence[int]) -> bool:
        return differs(question.decide(moves.answers.at(np.asarray(places, dtype=np.int64))))

    best: Places | None = None
    for order in _orders(question, moves):
        guess = guess_fewest_scores(question, moves, order, differs)
        few = fewest_answers(lambda number, order=order: changes(order[:number]), below - 1, guess=guess)  # type: ignore[misc]
        if few is not None:
            best, below = order[:few], few
    if int(question.chosen.sum()) > SMALL:
        return best, False
    smaller, is_exact = smallest_set(set_kinds(question, moves), changes, below=below, most_sets=MOST_SETS)
    return (best if smaller is None else np.asarray(smaller, dtype=np.int64)), is_exact


def _orders(question: Question, moves: Moves) -> Iterator[Places]:
    """Yield orders of the answers, the most influential first: by how far each moves, and group by group."""
    every: Places = np.arange(len(moves.answers))
    yield every
    clusters = question.table.attributes.clusters
    if clusters is not None:
        groups = clusters[moves.answers.positions]
        far = np.bincount(groups, moves.distances)
        yield np.lexsort((every, groups, -far[groups]))
