"""Arms of two stored runs as one experiment: paired by sample, analysed and judged as a session's own arms are."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_crucible import gate
from pytest_crucible.analyse.analysis import Given, analyse, metric_facts
from pytest_crucible.analyse.rearranged import rearranged
from pytest_crucible.conclusion import concluded_run
from pytest_crucible.errors import SpecError
from pytest_crucible.numerals import counted
from pytest_crucible.plan.fingerprint import differences
from pytest_crucible.records import Contrast, Plan, Run
from pytest_crucible.store.answers import asked_samples, group_names, load_answers
from pytest_crucible.store.runs import RunStore

Ask = Callable[[Sequence[str]], tuple[Contrast, ...]]
"""The comparisons that are wanted, of the metrics that both arms have; none for those that the suite declares."""


@dataclass(frozen=True)
class Side:
    """An arm of a stored run."""

    run: str
    arm: str = ""
    """Empty: the candidate."""

    def number(self, plan: Plan) -> int | None:
        """Its place among the arms of an experiment; None where it has no part."""
        names = [one.name for one in plan.arms]
        return 0 if not self.arm else names.index(self.arm) if self.arm in names else None


def paired(store: RunStore, ours: Side, theirs: Side, ask: Ask, *, alpha: float) -> tuple[Run, tuple[str, ...]]:
    """The comparison as a run that is stored nowhere, and what differs besides the arms. Raises SpecError."""
    for side in (ours, theirs):
        _check_arm(store, side)
    other = {plan.nodeid: (key, plan, whole) for key, plan, whole in store.experiments(theirs.run)}
    both = [(one, other[one[1].nodeid]) for one in store.experiments(ours.run) if one[1].nodeid in other]
    tables = [_table(store, ours, theirs, *pair, ask) for pair in both]
    found = [one for one in tables if one is not None]
    if not found:
        raise SpecError(
            f"{_shown(ours)} and {_shown(theirs)} have no experiment in common: compare runs of one suite, "
            "and arms that it asked"
        )
    questions = sum(len(given.plan.contrasts) for given, _ in found)
    analyses = [analyse(given, alpha=alpha, questions=questions)[0] for given, _ in found]
    adjusted = gate.adjust(analyses, questions=questions)
    verdicts = gate.judge(adjusted, alpha=alpha, strict=False, questions=questions)
    whole = concluded_run(store, ours.run, "", questions, adjusted, verdicts)
    run = dataclasses.replace(whole, id=f"{_shown(ours)} vs {_shown(theirs)}", alpha=alpha)
    return run, tuple(note for _, notes in found for note in notes)


def _check_arm(store: RunStore, side: Side) -> None:
    """Raises SpecError, with the nearest name, for an arm that no experiment of the run has."""
    known = sorted({arm.name for _, plan, _ in store.experiments(side.run) for arm in plan.arms})
    if side.arm and side.arm not in known:
        near = difflib.get_close_matches(side.arm, known, n=1)
        hint = f"did you mean {near[0]!r}" if near else f"it has {', '.join(known)}"
        raise SpecError(f"run {side.run} has no arm {side.arm!r}: {hint}")


Entered = tuple[int, Plan, bool]
"""Key, plan and whether all samples were asked."""


def _table(
    store: RunStore, ours: Side, theirs: Side, one: Entered, other: Entered, ask: Ask
) -> tuple[Given, list[str]] | None:
    """Both arms over the samples of ours; None where one has no part in the experiment."""
    numbers = ours.number(one[1]), theirs.number(other[1])
    if numbers[0] is None or numbers[1] is None or not (store.has_arms(one[0]) and store.has_arms(other[0])):
        return None
    plan = _plan(one[1], other[1], numbers[0], numbers[1], ours, theirs)
    places, notes = _places(store, one[1], other[1])
    answers = (
        rearranged(load_answers(store, one[0], numbers[0]), {k: k for k in range(plan.planned)}, epochs=plan.epochs),
        rearranged(load_answers(store, other[0], numbers[1]), places, epochs=plan.epochs),
    )
    kinds = store.known_kinds(plan, one[0] + 1)
    groups = group_names(store, plan.dataset_sha256)
    given = Given(plan=plan, answers=answers, groups=groups, finished=one[2] and other[2], known_kinds=kinds)
    scored = [
        name for name, facts in metric_facts(given).items()
        if facts.kind != "text" and all(name in arm.scores for arm in answers)
    ]  # fmt: skip
    contrasts = ask(scored) or _declared(one[1], scored)
    wanted = tuple(dataclasses.replace(contrast, baseline=plan.arms[1].name) for contrast in contrasts)
    changed = [*notes, *_changes(one[1], other[1])]
    told = [f"{plan.nodeid.partition('::')[2]}: {note}" for note in changed]
    return dataclasses.replace(given, plan=dataclasses.replace(plan, contrasts=wanted)), told


def _plan(one: Plan, other: Plan, number: int, other_number: int, ours: Side, theirs: Side) -> Plan:
    candidate, baseline = one.arms[number], other.arms[other_number]
    names = [candidate.name, baseline.name]
    if names[0] == names[1]:
        names = [f"{name}@{side.run[:6]}" for name, side in zip(names, (ours, theirs), strict=True)]
    return dataclasses.replace(
        one,
        arms=(
            dataclasses.replace(candidate, role="candidate", name=names[0]),
            dataclasses.replace(baseline, role="baseline", name=names[1]),
        ),
        epochs=min(one.epochs, other.epochs),
        targets=(),
        contrasts=(),
    )


def _places(store: RunStore, one: Plan, other: Plan) -> tuple[Mapping[int, int], list[str]]:
    """Their positions to ours: by position in one dataset, else by the id of a sample that asks the same."""
    if one.dataset_sha256 == other.dataset_sha256:
        return {k: k for k in range(one.planned)}, []
    ours, theirs = (asked_samples(store, plan.dataset_sha256) for plan in (one, other))
    known = {name: (place, asked) for place, (name, asked) in enumerate(ours)}
    same = {place: known[name][0] for place, (name, asked) in enumerate(theirs) if known.get(name, (0, ""))[1] == asked}
    if not same:
        raise SpecError(f"{one.nodeid}: the two runs have no sample in common (ids and questions are compared)")
    there = {name for name, _ in theirs}
    apart = [name for name in known if name not in there] + [name for name in there if name not in known]
    changed = [name for name, asked in theirs if name in known and known[name][1] != asked]
    return same, [*_counted(apart, "in one run only"), *_counted(changed, "asked something else in the other run")]


def _counted(samples: Sequence[str], what: str) -> Iterator[str]:
    if samples:
        yield f"{counted(len(samples), 'sample')} {what} (first: {min(samples)}), left out"


def _declared(plan: Plan, scored: Sequence[str]) -> tuple[Contrast, ...]:
    """As the suite has it, where it compares anything; else every metric that both arms have."""
    declared = dict.fromkeys(dataclasses.replace(one, baseline="") for one in plan.contrasts if one.metric in scored)
    return tuple(declared) or tuple(Contrast(metric=name, baseline="") for name in scored)


def _changes(one: Plan, other: Plan) -> Iterator[str]:
    changed = [part for part in differences(one.fingerprint, other.fingerprint) if part != "dataset rows"]
    if changed:
        yield f"{' and '.join(changed)} differ between the runs: a difference is theirs and the arms' together"


def _shown(side: Side) -> str:
    return f"{side.run}:{side.arm}" if side.arm else side.run
