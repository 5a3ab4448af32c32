"""Decides which stored replies answer the calls that this session sends; the others are sent again.

What a test passes to its sampler is unknown before it runs. So stored replies are used provisionally:

a candidate's calls     are compared with those of a baseline's stored reply to the same sample
an arm's own calls      are compared with those of its stored replies, of a resumed run or of others to the sample: where all of
                        these have a value and the new call has another, one of them is sent again. If its own calls have
                        changed, all that have the old value are; if not, the value is one of each sample
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_crucible.backends.protocol import system_prompt
from pytest_crucible.records import Outcome, SentAgain, Unit
from pytest_crucible.records.call_differences import (
    MESSAGES,
    Differences,
    SentCalls,
    SentComparison,
    parameters_of,
    value_text,
)
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.store.reused_outcomes import copied_from
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.sent_calls import CallReader, load_paid_calls


class PaidCalls(NamedTuple):
    """The calls of a unit, and the run that has paid for them: one run sends its units what its test has sent then."""

    sent: SentCalls
    run: str


ArmUnits = dict[Unit, PaidCalls]
FEW_KINDS = 8
"""Different calls of an arm, with all of which those of a reply are compared at once."""


def open_stored_calls(
    store: RunStore, run: str, experiment: Experiment, keys: Sequence[Sequence[int]], *, with_messages: bool
) -> StoredCalls:
    """Return the calls of the replies that were copied into an experiment; none if it has no `sampler`.

    `keys` are the store's keys of the arms, by arm and variant.
    """
    reader = CallReader(store.redact_once, experiment.plan.arms)
    own: list[ArmUnits] = [{} for _ in keys]
    copied: list[ArmUnits] = [{} for _ in keys]
    sources = copied_from(store, [key for of_arm in keys for key in of_arm]) if experiment.sends_requests else {}
    if set(sources.values()) - {run}:
        for arm, of_arm in enumerate(keys):
            for variant, key in enumerate(of_arm):
                for (position, repeat), (sent, payer) in load_paid_calls(store, key, reader.own[arm]).items():
                    # A helper of this session, such as the search of a sweep, has sent what the test sends now.
                    is_own = payer in ("", run) or sources.get(key, run) == run
                    (own if is_own else copied)[arm][Unit(position, variant, arm, repeat)] = PaidCalls(sent, payer)
    return StoredCalls(experiment, reader, copied, own, with_messages=with_messages)


class StoredCalls:
    """The stored units of an experiment that are used as long as they answer the calls of this session."""

    def __init__(
        self,
        experiment: Experiment,
        reader: CallReader,
        stored: list[ArmUnits],
        own: Sequence[ArmUnits] = (),
        *,
        with_messages: bool = True,
    ) -> None:
        """`stored` are copied units by arm, `own` units that this session has sent."""
        self._experiment, self._plan, self._reader = experiment, experiment.plan, reader
        self._stored, self._with_messages = stored, with_messages
        self._of_training = self._plan.repeats
        self._systems = [_system(experiment, arm) for arm in range(len(stored))]
        self._comparisons: dict[tuple[int, int], SentComparison] = {}
        self._kinds = [_kinds_by_run(units) for units in stored]
        """By arm and run: the different calls."""
        self._varying = [{run: self._varying_names(arm, run) for run in kinds} for arm, kinds in enumerate(self._kinds)]
        """By arm and run: names of what differs between samples."""
        self._suspected: dict[tuple[int, str], set[str]] = {}
        """By arm and run: names that one unit is sent again for, to see whether they have changed."""
        self._few_kinds = [_few_kinds(kinds) for kinds in self._kinds]
        self._opposite = [range(1, len(stored)), *[(0,)] * (len(stored) - 1)]
        """By arm: those that it is compared with. Two baselines are not compared."""
        pairs = ((ours, theirs) for ours, opposite in enumerate(self._opposite) for theirs in opposite)
        self._usual = {pair: self._usual_differences(*pair) for pair in pairs}
        self._alike: dict[tuple[int, int, SentCalls], bool] = {}
        """By our arm, theirs and our calls: whether these differ from none of their stored ones, as those of most tests."""
        self._awaited: ArmUnits = {}
        """Units that are sent again, with what was sent before."""
        self.sent_again: dict[int, SentAgain] = {}
        """By arm: the replies that answered other calls."""
        self.waiting: deque[Unit] = deque()
        """Units to send again."""
        self.removed: list[Unit] = []
        """Units whose stored replies are not used, until they are taken by `pop_removed`."""
        # Also stored replies with each other: the candidate's may be of one run, and a baseline's of another.
        for units in (*own, dict(stored[0])):
            for unit, paid in units.items():
                self._compare_with_others(unit, *paid)

    def add(self, outcome: Outcome) -> list[Unit]:
        """Compare what an outcome has sent with stored calls; return the units whose stored replies are not used any more.

        They wait to be sent. Raises SpecError for a stored run, which sends nothing.
        """
        if not self._has_stored:
            return []
        return self._add(outcome.unit, self._reader.read(outcome, with_messages=self._with_messages), outcome)

    def add_rows(self, unit: Unit, calls: Sequence[Mapping[str, Any]]) -> list[Unit]:
        """Return what `add` returns, for a unit that another process has sent, by its rows of the table `calls`."""
        if not self._has_stored:
            return []
        return self._add(unit, self._reader.read_rows(unit.arm, calls, with_messages=self._with_messages))

    @property
    def _has_stored(self) -> bool:
        return bool(self._awaited) or any(self._stored)

    def _add(self, unit: Unit, sent: SentCalls | None, outcome: Outcome | None = None) -> list[Unit]:
        if sent is None:
            return []
        if self._awaited or self._stored[unit.arm]:
            self._compare_with_own(unit, sent)
        self._compare_with_others(unit, sent, "", outcome)
        return self.pop_removed() if self.removed else []

    def pop_removed(self) -> list[Unit]:
        """Return the units that were removed since the last call."""
        removed, self.removed = self.removed, []
        return removed

    def count_waiting(self) -> list[int]:
        """Return how many units wait to be sent again, by arm."""
        return [sum(unit.arm == arm for unit in self.waiting) for arm in range(len(self._stored))]

    def with_waiting(self, units: Iterable[Unit]) -> Iterator[Unit]:
        """Yield units, and between them those that wait to be sent again."""
        for unit in units:
            while self.waiting:
                yield self.waiting.popleft()
            yield unit
        while self.waiting:
            yield self.waiting.popleft()

    # -- one arm at two times -----------------------------------------------------------------------------------

    def _compare_with_own(self, unit: Unit, sent: SentCalls) -> None:
        before = self._awaited.pop(unit, None)
        if before is not None:
            self._conclude(unit, self._comparison(unit.arm, unit.arm).differences(sent, before.sent), before)
        elif self._stored[unit.arm]:
            for run, kinds in self._kinds[unit.arm].items():
                if sent not in kinds and (unit.arm, run) not in self._suspected:
                    self._suspect(unit.arm, run, sent)

    def _suspect(self, arm: int, run: str, sent: SentCalls) -> None:
        """Send one unit of a run again if all its units differ from a new one in something."""
        differences = self._comparison(arm, arm).differences(sent, next(iter(self._kinds[arm][run])))
        names = differences.keys() - self._varying[arm][run]
        if names:
            stored = next((unit for unit, paid in self._stored[arm].items() if paid.run == run), None)
            if stored is not None:
                self._suspected[arm, run] = names
                self._remove(stored)

    def _conclude(self, unit: Unit, differences: Differences, before: PaidCalls) -> None:
        """Use what a unit that was sent again shows: other calls than before, or the same."""
        suspected = self._suspected.pop((unit.arm, before.run), None)
        if not differences:
            self._varying[unit.arm][before.run] |= suspected or set()
            return
        if suspected is not None:
            self._count(unit.arm, differences)
        for arm, units in enumerate(self._stored):
            if self._plan.arms[arm].stored_run is None:
                old = [other for other, paid in units.items() if _has_old_value(paid.sent, differences, before.sent)]
                for other in old:
                    self._remove(other)
                    self._count(arm, differences)

    def _varying_names(self, arm: int, run: str) -> set[str]:
        first, *others = self._kinds[arm][run]
        return {name for kind in others for name in self._comparison(arm, arm).differences(kind, first)}

    # -- two arms -----------------------------------------------------------------------------------------------

    def _compare_with_others(self, unit: Unit, ours: SentCalls, run: str, outcome: Outcome | None = None) -> None:
        """Compare the candidate's unit with the baselines' stored ones, and a baseline's with the candidate's.

        `run` has paid for the unit's calls; `outcome` is that of the unit, if it is not stored.
        """
        for arm in self._opposite[unit.arm]:
            if self._differs_from_none(unit.arm, arm, ours):
                continue
            units = self._stored[arm]
            for other in self._counterparts(unit, arm) if units else ():
                # Two units of one run differ in what the test has sent then to the one arm, and not to the other.
                if (paid := units.get(other)) is None or paid.run == run:
                    continue
                sent = self._as_sent_to(arm, unit, ours, paid.sent, outcome)
                if differences := self._unusual_differences(unit.arm, arm, sent, paid):
                    self._check_sendable(arm, differences)
                    self._remove(other)
                    self._count(arm, differences)

    def _differs_from_none(self, ours: int, theirs: int, sent: SentCalls) -> bool:
        """Return whether calls of an arm are known to differ from none of the stored ones of another arm.

        Looking up the stored unit of each reply would take longer than all else.
        """
        kinds, key = self._few_kinds[theirs], (ours, theirs, sent)
        if not kinds or self._systems[ours] != self._systems[theirs]:
            return False
        if key not in self._alike:
            self._alike[key] = not any(self._unusual_differences(ours, theirs, sent, kind) for kind in kinds)
        return self._alike[key]

    def _unusual_differences(self, ours: int, theirs: int, sent: SentCalls, paid: PaidCalls) -> Differences:
        """Return in what calls differ from stored ones of another arm, if that is more than what stored ones differ in."""
        differences = self._comparison(ours, theirs).differences(sent, paid.sent)
        return differences if differences.keys() - self._usual[ours, theirs].get(paid.run, set()) else {}

    def _counterparts(self, unit: Unit, arm: int) -> Iterator[Unit]:
        """Yield the units of another arm with the same sample, variant, round and repeat. Trainings share them."""
        if unit.repeat < self._of_training:
            for training in range(self._experiment.draws[arm].trainings):
                yield Unit(unit.position, unit.variant, arm, training * self._of_training + unit.repeat)

    def _as_sent_to(
        self, arm: int, unit: Unit, sent: SentCalls, theirs: SentCalls, outcome: Outcome | None
    ) -> SentCalls:
        """Return the calls of a unit as another arm would get them: after the system prompt of its adapter."""
        is_late = self._experiment.twin(unit) in self._experiment.late_variants
        has_one_system = self._systems[arm] == self._systems[unit.arm]
        if has_one_system and not is_late:
            return sent
        # A late text was made by the replies of its arm; and messages that are stored are not known without their system prompt.
        if is_late or outcome is None or outcome.sample is None or not self._with_messages:
            return sent._replace(messages=theirs.messages)
        first = next(call for call in outcome.calls if not call.judge)
        return sent._replace(messages=self._reader.messages(first, outcome.sample, self._systems[arm]))

    def _comparison(self, ours: int, theirs: int) -> SentComparison:
        comparison = self._comparisons.get((ours, theirs))
        if comparison is None:
            comparison = self._comparisons[ours, theirs] = self._make_comparison(ours, theirs)
        return comparison

    def _make_comparison(self, ours: int, theirs: int) -> SentComparison:
        arms, own, prompts = self._plan.arms, self._reader.own, self._plan.arm_prompts
        is_stored_run = any(arms[arm].stored_run is not None for arm in (ours, theirs))
        has_one_prompt = prompts.get(arms[ours].name) == prompts.get(arms[theirs].name)
        return SentComparison(
            arms[ours],
            arms[theirs],
            (own[ours], own[theirs]),
            declared=self._plan.arms_differ_in if ours != theirs else (),
            # The system prompt of a stored run is not known here.
            with_messages=self._with_messages and has_one_prompt and not is_stored_run,
        )

    def _usual_differences(self, ours: int, theirs: int) -> dict[str, set[str]]:
        """Return in what the stored units of two arms differ, by the run that has paid for both."""
        usual: dict[str, set[str]] = {}
        for unit, paid in self._stored[ours].items():
            for other in self._counterparts(unit, theirs):
                also = self._stored[theirs].get(other)
                if also is not None and also.run == paid.run and also.sent != paid.sent:
                    usual.setdefault(paid.run, set()).update(
                        self._comparison(ours, theirs).differences(paid.sent, also.sent)
                    )
        return usual

    def _check_sendable(self, arm: int, differences: Differences) -> None:
        """Raise SpecError for an arm that is a stored run."""
        run, name = self._plan.arms[arm].stored_run, self._plan.arms[arm].name
        if run is not None:
            parameter, (ours, theirs) = next(iter(differences.items()))
            raise SpecError(
                f"--compare={name} cannot be compared with: its calls have {parameter} {value_text(theirs)}, and the test "
                f"sends {value_text(ours)} now; measure the baseline again with --compare=ADAPTER, or declare "
                f"@pytest.mark.crucible(..., arms_differ_in=[{parameter!r}])"
            )

    def _remove(self, unit: Unit) -> None:
        self._awaited[unit] = self._stored[unit.arm].pop(unit)
        self.waiting.append(unit)
        self.removed.append(unit)

    def _count(self, arm: int, differences: Differences) -> None:
        earlier = self.sent_again.get(arm, SentAgain(replies=0, differences={}))
        named = {name: {"sent": pair[0], "stored": pair[1]} for name, pair in differences.items()}
        self.sent_again[arm] = SentAgain(replies=earlier.replies + 1, differences={**named, **earlier.differences})


def _system(experiment: Experiment, arm: int) -> str:
    opened = experiment.opened_arms[arm]
    backend = opened.trainings[0].backend if opened.trainings else opened.backend
    return "" if backend is None else system_prompt(backend)


def _kinds_by_run(units: ArmUnits) -> dict[str, set[SentCalls]]:
    kinds: dict[str, set[SentCalls]] = {}
    for sent, run in units.values():
        kinds.setdefault(run, set()).add(sent)
    return kinds


def _few_kinds(kinds: Mapping[str, set[SentCalls]]) -> list[PaidCalls]:
    """Return the different calls of all runs, if they are few; else nothing."""
    paid = [PaidCalls(sent, run) for run, of_run in kinds.items() for sent in of_run]
    return paid if len(paid) <= FEW_KINDS else []


def _has_old_value(sent: SentCalls, differences: Differences, before: SentCalls) -> bool:
    """Return whether a stored unit was sent what has changed since."""
    return any(
        sent.messages == before.messages if name == MESSAGES else any(
            parameters_of(settings).get(name) == old for settings in sent.settings
        )
        for name, (_, old) in differences.items()
    )  # fmt: skip
