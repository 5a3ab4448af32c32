"""The fragility of a verdict: the fewest answers, and the fewest lost samples, that would change it.

All answers of a set are of one arm, and turn the same way: to right (or the best score), or to wrong (or the worst).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pytest_crucible.analyse.analysis import ScoreTable
from pytest_crucible.analyse.comparisons import paired_samples
from pytest_crucible.analyse.scores import Flags, Scores
from pytest_crucible.analyse.statistics import inapplicable_samples, lost_samples, row_of
from pytest_crucible.features.provenance.movable import (
    Moves,
    Places,
    is_by_sum,
    is_counted,
    is_one_sided,
    movable_answers,
    pair_kinds,
    scores_of,
    set_kinds,
    undefined_reason,
)
from pytest_crucible.features.provenance.rough_decision import guess_fewest, guess_fewest_scores, promising_splits
from pytest_crucible.features.provenance.verdict_facts import Flip, Fragility, LostFlip
from pytest_crucible.features.provenance.what_if import Question, leave_out
from pytest_crucible.gate.decide import Decision
from pytest_crucible.records import Contrast
from pytest_crucible.stats.fragility import count_sets, fewest_answers, smallest_set, splits

SMALL = 16
"""Up to so many samples all sets of scores are tried."""
MOST_SETS = 5_000
"""Sets that `crucible why` tries for one arm and direction, 3 ms each: enough for any set of twelve answers."""
MOST_SETS_OF_REPORTS = 100
"""Those that reports try, in which every session that writes one has to wait: about a second a verdict."""
MOST_SETS_OF_MANY = 150
"""Of more samples all sets are tried if they are so few, as those of up to three of four kinds of answers: about a second."""

FULL_COST = 20
"""A decision that weighs all evidence takes ten to thirty times as long as one that needs a part: so many fewer sets are tried."""

LARGE = 20_000
"""Of more samples the baseline's answers are tried only if the candidate's change nothing: a decision takes 0.1 s and more."""

Differs = Callable[[Decision], bool]


def measure_fragility(question: Question, most_sets: int = MOST_SETS) -> Fragility:
    """Return the fewest answers, and lost samples, that change a verdict; of few samples up to `most_sets` sets are tried."""
    undefined = undefined_reason(question)
    most_sets = most_sets if question.is_weighed_in_part else most_sets // FULL_COST
    if undefined:
        return Fragility(undefined=undefined, lost=count_lost(question), counts_lost=True)
    moves = [movable_answers(question, number, is_better) for number in question.numbers for is_better in (True, False)]
    decided = question.decide()
    change, is_exact = _fewest(question, moves, lambda other: other != decided, most_sets)
    of_state = change
    if change is not None and change.state == decided[0]:
        of_state, is_exact = _fewest(question, moves, lambda other: other[0] != decided[0], most_sets, only_state=True)
    return Fragility(
        change=change, change_of_state=of_state, is_exact=is_exact, lost=count_lost(question), counts_lost=True
    )


def _fewest(
    question: Question, all_moves: Sequence[Moves], differs: Differs, most_sets: int, *, only_state: bool = False
) -> tuple[Flip | None, bool]:
    """Return the smallest set of answers after which the decision differs, and whether no smaller one can exist.

    Of sets of two arms that are as small it is the candidate's.
    """
    is_exact = is_counted(question) or (only_state and is_by_sum(question))
    is_large = not is_counted(question) and int(question.chosen.sum()) > LARGE
    fewest: tuple[Moves, Places] | None = None
    for moves in all_moves:
        if moves.arm and fewest is not None and (is_large or _has_room(question, all_moves, *fewest)):
            continue
        places = _few(question, moves, differs)
        if places is not None and (fewest is None or places.size < fewest[1].size):
            fewest = moves, places
    if not is_exact:
        fewest, is_exact = _try_smaller(question, all_moves, differs, fewest, most_sets)
    return None if fewest is None else _flip(question, *fewest, is_exact=is_exact), is_exact


def _few(question: Question, moves: Moves, differs: Differs) -> Places | None:
    """Return the places of few answers of an arm that turn one way; of answers that are only counted, the fewest."""
    if not len(moves.answers):
        return None
    return (_fewest_of_kinds if is_counted(question) else _few_of_scores)(question, moves, differs)


def _try_smaller(
    question: Question,
    all_moves: Sequence[Moves],
    differs: Differs,
    fewest: tuple[Moves, Places] | None,
    most_sets: int,
) -> tuple[tuple[Moves, Places] | None, bool]:
    """Return the smallest set, and whether all smaller ones were tried: of few samples, or few kinds of answers."""
    is_small, is_exact = int(question.chosen.sum()) <= SMALL, True
    left = MOST_SETS_OF_MANY if question.is_weighed_in_part else MOST_SETS_OF_MANY // FULL_COST
    for moves in all_moves:
        below = len(moves.answers) + 1 if fewest is None else fewest[1].size
        # There are as many sets as sizes, and more.
        kinds = set_kinds(question, moves) if is_small or 1 < below <= left else []
        left -= below - 1 if not kinds else count_sets(kinds, below=below)
        if left < 0 and not is_small:
            return fewest, False
        smaller, tried_all = smallest_set(kinds, _changes(question, moves, differs), below=below, most_sets=most_sets)
        fewest = fewest if smaller is None else (moves, np.asarray(smaller, dtype=np.int64))
        is_exact = is_exact and tried_all
    return fewest, is_exact


def _changes(question: Question, moves: Moves, differs: Differs) -> Callable[[Places | Sequence[int]], bool]:
    return lambda places: differs(question.decide(moves.answers.at(np.asarray(places, dtype=np.int64))))


def _has_room(question: Question, all_moves: Sequence[Moves], fewest: Moves, places: Places) -> bool:
    """Return whether the candidate has as many answers of each kind as its set: then the baseline has no smaller one.

    Where only numbers of pairs matter, an answer of either arm moves the same pairs.
    """
    measure = question.measure
    if not is_counted(question) or not isinstance(measure, Contrast) or measure.unpaired:
        return False
    moves = next(moves for moves in all_moves if not moves.arm and moves.is_better == fewest.is_better)
    return all(kind.size >= places.size for kind in pair_kinds(question, moves))


def _flip(question: Question, moves: Moves, places: Places, *, is_exact: bool) -> Flip:
    answers = moves.answers.at(places)
    state, proven = question.decide(answers)
    ids = question.inputs.sample_ids
    return Flip(
        answers=len(answers),
        is_exact=is_exact,
        arm=question.analysis.plan.arms[moves.arm].name,
        is_better=moves.is_better,
        state=state,
        proven=proven,
        samples=tuple(ids[position] if ids else str(position) for position in answers.positions.tolist()),
    )


def _fewest_of_kinds(question: Question, moves: Moves, differs: Differs) -> Places | None:
    """Return the places of the fewest of at most two kinds of answers, which are exchangeable within each kind."""
    first, second = pair_kinds(question, moves)
    rooms = first.size, second.size

    def sets(number: int) -> Iterator[Places]:
        return (np.concatenate((first[:ours], second[:theirs])) for ours, theirs in splits(number, rooms))

    def changes(number: int) -> bool:
        return any(differs(question.decide(moves.answers.at(places))) for places in sets(number))

    guess = guess_fewest(question, moves.arm, moves.is_better, differs)
    fewest = fewest_answers(changes, len(moves.answers), guess=guess, is_one_sided=is_one_sided(question))
    if fewest is None:
        return None
    best = next(places for places in sets(fewest) if differs(question.decide(moves.answers.at(places))))
    while (smaller := _more_even_set(question, moves, differs, best.size - 1)) is not None:
        best = smaller
    return best


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


def _few_of_scores(question: Question, moves: Moves, differs: Differs) -> Places | None:
    """Return the places of few answers: the first in one of the orders."""
    best: Places | None = None
    changes = _changes(question, moves, differs)
    for order in _orders(question, moves):
        few = fewest_answers(
            lambda number, order=order: changes(order[:number]),  # type: ignore[misc]
            order.size,
            guess=guess_fewest_scores(question, moves, order, differs),
            is_one_sided=is_one_sided(question),
        )
        if few is not None and (best is None or few < best.size):
            best = order[:few]
    return best


def _orders(question: Question, moves: Moves) -> Iterator[Places]:
    """Yield orders of the answers, the most influential first: by how far each moves, and group by group."""
    every: Places = np.arange(len(moves.answers))
    yield every
    clusters = question.table.attributes.clusters
    if clusters is not None:
        groups = clusters[moves.answers.positions]
        far = np.bincount(groups, moves.distances)
        yield np.lexsort((every, groups, -far[groups]))


def count_lost(question: Question) -> LostFlip | None:
    """Return the fewest lost samples that change what the scored ones decide, by the verdict's own worst and best values."""
    lost = _lost(question)
    if not lost.any():
        return None
    decided = question.decide_on(*_tables(question, lost))
    flips = [_count_lost(question, lost, is_better, decided) for is_better in (False, True)]
    return min(filter(None, flips), key=lambda flip: flip.samples, default=None)


def _lost(question: Question) -> Flags:
    """Return the samples that the verdict counts as lost."""
    arms = [question.table.arm(question.measure, number) for number in question.numbers]
    lost = np.any([lost_samples(metrics) for metrics in arms], axis=0)
    if isinstance(question.measure, Contrast):
        return np.asarray(lost & paired_samples(question.measure, *arms)[1])
    return np.asarray(lost & ~inapplicable_samples(arms[0]))


def _tables(question: Question, forgotten: Flags) -> tuple[ScoreTable, ...]:
    """Return the scores as if what is lost of some samples had never been asked for."""
    name = question.measure.metric
    unscored = np.any([np.isnan(scores_of(question, number).scores.values) for number in question.numbers], axis=0)

    def forget(scores: Scores) -> Scores:
        return leave_out(_without_lost(scores, forgotten), forgotten & unscored)

    tables = (question.table, question.rest) if question.rest else (question.table,)
    return tuple(
        replace(table, scores={**table.scores, name: tuple(map(forget, table.scores[name]))}) for table in tables
    )


def _without_lost(scores: Scores, samples: Flags) -> Scores:
    """Return the scores with those replies of some samples alone that are scored."""
    low, high = (np.where(samples, scores.values, end) for end in (scores.low, scores.high))
    units = scores.units
    if units is not None:
        wide = samples.reshape(-1, *[1] * (units.values.ndim - 1))
        units = replace(
            units,
            low=np.where(wide, units.values, units.low),
            high=np.where(wide, units.values, units.high),
            lost=units.lost & ~wide,
        )
    return replace(scores, low=low, high=high, lost=scores.lost & ~samples, units=units)


def _count_lost(question: Question, lost: Flags, is_better: bool, decided: Decision) -> LostFlip | None:
    order = _by_harm(question, lost, is_better)
    decisions: dict[int, Decision] = {}

    def changes(number: int) -> bool:
        left = lost.copy()
        left[order[:number]] = False
        evidence = question.weigh(_tables(question, left)[0])
        decisions[number] = question.decide_as_if(
            evidence.best if is_better == _is_best_up(question) else evidence.worst
        )
        return decisions[number] != decided

    fewest = fewest_answers(changes, len(order))
    if fewest is None:
        return None
    state, proven = decisions[fewest]
    return LostFlip(
        samples=fewest, is_exact=is_counted(question), of=len(order), is_better=is_better, state=state, proven=proven
    )


def _is_best_up(question: Question) -> bool:
    """Return whether the `best` reading is that of good answers: of a target it is the one with the highest values."""
    if isinstance(question.measure, Contrast):
        return True
    return row_of(question.measure).higher_is_better(question.measure, question.facts)


def _by_harm(question: Question, lost: Flags, is_better: bool) -> npt.NDArray[np.int64]:
    """Return the places of lost samples, first those that move the estimate most."""
    values = []
    for number in question.numbers:
        scores = scores_of(question, number).scores
        is_up = (is_better == (number == 0)) == (question.facts.direction == "higher")
        values.append(scores.high if is_up else scores.low)
    effect = values[0] - values[1] if len(values) == 2 else values[0]
    sign = 1.0 if is_better == (question.facts.direction == "higher") else -1.0
    places = np.flatnonzero(lost)
    with np.errstate(invalid="ignore"):
        return places[np.argsort(-sign * np.nan_to_num(effect[places]), kind="stable")]
