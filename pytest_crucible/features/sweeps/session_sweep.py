"""The sweep of a session: one test chooses the winner before its own samples, and the others wait for it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.features.sweeps.families import family_of
from pytest_crucible.features.sweeps.grid import most_trials
from pytest_crucible.features.sweeps.records import SWEEP_OF, Sweep
from pytest_crucible.features.sweeps.sweep_choice import SweepChoice, SweepLooks, check_same_sweep, with_stored_trials
from pytest_crucible.features.sweeps.sweep_plans import PlannedSweep, plan_sweep, with_sweep, with_trained, with_winner
from pytest_crucible.plan.arms import look_order
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import CrucibleError, SpecError, StoreError
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.collect import ExperimentCollection
from pytest_crucible.session.experiment import (
    Experiment,
    ExperimentEstimate,
    ExperimentRun,
    HelperEstimate,
    SessionEstimate,
)
from pytest_crucible.session.items import collected_nodeid
from pytest_crucible.store.decisions import add_decision, decision_subjects, latest_plan, load_decisions, set_decision
from pytest_crucible.store.runs import RunStore

if TYPE_CHECKING:
    from pytest_crucible.session.session import CrucibleSession


def check_whole_experiments(family: OpenedArm, settings: Settings, *, has_joined_tests: bool) -> None:
    """Raise SpecError if single samples are sent: the winner is chosen by all samples of an experiment."""
    if not has_joined_tests and settings.sample is None:
        return
    sender = "a joined test sends" if has_joined_tests else "--crucible-sample sends"
    raise SpecError(
        f"{sender} single samples, and {family.arm.name!r} is a family, of which an experiment chooses the winner: name a "
        f"member, such as --crucible-adapter='{family.competitors[0].arm.name}'"
    )


def check_confirmed(sweep: Sweep, settings: Settings) -> None:
    """Raise SpecError for looks at samples that have also chosen the winner: their verdicts would come too early."""
    looks = "--crucible-stop" if settings.option("stop") else "crucible_stages" if settings.option("stages") else ""
    if looks and not sweep.confirm:
        raise SpecError(
            f"{looks} needs samples that have not chosen, and the sweep of {sweep.family!r} has confirm = 0: leave "
            "it out, or set confirm = 0.5"
        )


@dataclass(frozen=True)
class ResumedSweep:
    """A sweep with the decisions of an earlier run, if there was one."""

    sweep: PlannedSweep
    winner: OpenedArm | None = None
    unsent: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Member -> the positions of the choosing samples that it is not sent: those after its last look."""

    @property
    def further_trials(self) -> int:
        """The number of a search's trials that are not proposed yet; 0 for a grid."""
        family = family_of(self.sweep.family)
        if not family.trials or self.winner is not None:
            return 0
        return most_trials(family) - len(self.sweep.record.members)


def resume_sweep(sweep: PlannedSweep, store: RunStore) -> ResumedSweep:
    """Return the sweep as the latest run left it. Raises SpecError if that run swept something else."""
    earlier = latest_plan(store, sweep.record.nodeid, before="")
    before = None if earlier is None else SWEEP_OF.of(earlier[1])
    if earlier is None or before is None:
        return ResumedSweep(sweep)
    run = earlier[0]
    check_same_sweep(run, before, sweep.record)
    sweep = with_stored_trials(sweep, store, run)
    looks = load_decisions(store, run, sweep.record.looks_subject)
    return ResumedSweep(sweep, SweepChoice(sweep, run, store).winner(), _unsent(sweep, list(looks.values())))


def _unsent(sweep: PlannedSweep, looks: list[dict[str, object]]) -> dict[str, frozenset[int]]:
    """Return the positions after the look that was each member's last one; `looks` are the stored decisions, in order."""
    samples = sweep.choosing.dataset.samples
    order = look_order([sample.id for sample in samples], [sample.cluster for sample in samples])
    unsent: dict[str, frozenset[int]] = {}
    for look in looks:
        remaining, length = look["kept"], look["samples"]
        assert isinstance(remaining, list)
        assert isinstance(length, int)
        # The last member has won, and the choosing half ends.
        ended = sweep.record.confirm and len(remaining) == 1
        for member in sweep.record.members:
            if member.name not in unsent and (ended or member.name not in remaining):
                unsent[member.name] = frozenset(order[length:])
    return unsent


class SessionSweep:
    """Plans the sweep of a session; then a plugin of it, which lets the members compete."""

    def __init__(self, collection: ExperimentCollection) -> None:
        self._collection = collection
        self.planned: PlannedSweep | None = None
        """None if the session has no experiment that could choose."""
        self._session: CrucibleSession | None = None
        self._choice: SweepChoice | None = None
        self._worker: str | None = None
        """The name of this worker of pytest-xdist; None in a session without workers."""
        self._resumed: ResumedSweep | None = None

    def plan(self) -> None:
        """Plan the sweep; the experiments keep the samples that do not choose. Raises SpecError."""
        collection, family = self._collection, self._collection.opened_arms[0]
        check_whole_experiments(family, collection.settings, has_joined_tests=bool(collection.joined))
        if not collection.experiments:
            return
        self.planned, changed = plan_sweep(family, collection.experiments, collection.settings.seed)
        check_confirmed(self.planned.record, collection.settings)
        collection.experiments |= changed
        for nodeid in changed:
            with collection.gather_errors(nodeid):
                collection.resolve_stored_arms(nodeid)
        collection.resources.shared.spending.share(self.planned.record.test, self.planned.record.nodeid)

    def pytest_crucible_prepare(self) -> None:
        """Let the members compete as they were trained."""
        collection = self._collection
        assert self.planned is not None
        if collection.opened_arms[0] is self.planned.family:
            return
        self.planned = with_trained(self.planned, collection.opened_arms[0])
        collection.experiments = {
            nodeid: with_sweep(experiment, self.planned.record) for nodeid, experiment in collection.experiments.items()
        }

    def pytest_crucible_enter(self, run: str) -> None:
        """Enter the choosing half into the run store."""
        self._open_choice(run).begin(resume=self._collection.settings.resume)

    def _open_choice(self, run: str) -> SweepChoice:
        assert self.planned is not None
        return SweepChoice(self.planned, run, self._collection.resources.store)

    @pytest.hookimpl(trylast=True)
    def pytest_crucible_begin(self, session: CrucibleSession, items: list[pytest.Item]) -> None:
        """Move the test that chooses before all others, which wait for it."""
        assert self.planned is not None
        test = self.planned.record.test
        items.sort(key=lambda item: item.nodeid != test)
        if not session.messages.problems:
            self._session, self._choice = session, self._open_choice(session.run)
            self._worker = getattr(session.config, "workerinput", {}).get("workerid")

    def read_resumed(self) -> None:
        """Read how far the sweep is that an estimate would resume. Raises pytest.UsageError if it cannot be resumed."""
        collection = self._collection
        assert self.planned is not None
        if collection.resources.sends:
            return
        try:
            resumes = collection.settings.resume
            store = collection.resources.store if resumes else None
            self._resumed = ResumedSweep(self.planned) if store is None else resume_sweep(self.planned, store)
        except CrucibleError as error:
            raise pytest.UsageError(str(error)) from None

    def pytest_crucible_estimate(self, estimate: ExperimentEstimate) -> None:
        """Estimate the choice of the winner with the experiment that makes it."""
        resumed = self._resumed
        if resumed is None:
            return
        if estimate.item.nodeid == resumed.sweep.record.test:
            choosing, record = resumed.sweep.choosing, resumed.sweep.record
            estimate.helpers.append(
                HelperEstimate(
                    choosing,
                    family=record.family,
                    further=resumed.further_trials,
                    least_share=record.looks[0] / len(choosing.dataset.samples) if record.looks else 1.0,
                    unsent=resumed.unsent,
                )
            )
        if resumed.winner is not None:
            estimate.experiment = with_winner(estimate.experiment, resumed.winner)

    def pytest_crucible_estimate_session(self, estimate: SessionEstimate) -> None:
        """Name the arms that may have to be trained, and why the members may cost less."""
        resumed = self._resumed
        if resumed is None:
            return
        estimate.arms = (resumed.sweep.family, *estimate.arms[1:])
        estimate.further = resumed.further_trials
        if resumed.winner is None and resumed.sweep.record.looks:
            family = resumed.sweep.record.family
            estimate.lines.append(f"  {family}: at most so much, since members that are dropped answer less")

    @pytest.hookimpl(trylast=True)
    def pytest_crucible_run(self, run: ExperimentRun) -> None:
        """Choose the winner, or wait for it, before the experiment is sent. In later stages it is the candidate already."""
        if run.is_first:
            run.before.append(self._set_winner)

    def _set_winner(self, run: ExperimentRun) -> None:
        """Make the winner the candidate of a run. Skips the test if there will be none."""
        choice = self._choice
        if choice is None:
            return
        try:
            winner = self._choose(choice, run) if run.item.nodeid == choice.record.test else self._wait(choice)
        except NoWinner as error:
            choice.store.enter_unanswered(choice.run, run.experiment.plan, run.experiment.dataset.samples)
            pytest.skip(f"not run: {error}")
        run.experiment = self._collection.experiments[collected_nodeid(run.item)] = choice.apply(run.experiment, winner)

    def _choose(self, choice: SweepChoice, run: ExperimentRun) -> OpenedArm:
        session = self._session
        assert session is not None
        # Entered first: should this process die, its verdicts are undecided.
        choice.store.enter_unanswered(choice.run, run.experiment.plan, run.experiment.dataset.samples)

        def send(choosing: Experiment, rule: SweepLooks, answered: int) -> None:
            session.items.ask(ExperimentRun(run.item, choosing, rule=rule, answered=answered, show=run.show))

        return choice.choose(send, session.resources.writer.flush)

    def _wait(self, choice: SweepChoice) -> OpenedArm:
        if self._worker is not None and self._session is not None:
            check = self._session.interruptions.check
            return wait_for_winner(choice.store, choice.run, choice.record.family, choice.winner, check)
        winner = choice.winner()
        if winner is None:
            raise NoWinner(f"the sweep of {choice.record.family!r} has no winner: {choice.record.test} chose none")
        return winner

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Give signs of life while the winner is chosen, fixtures included, and report the end of a choice without one."""
        choice = self._choice
        if choice is None or self._worker is None or item.nodeid != choice.record.test:
            return (yield)
        family = choice.record.family
        try:
            with signs_of_life(choice.store, choice.run, family, self._worker):
                return (yield)
        finally:
            if choice.winner() is None:
                report_failure(choice.store, choice.run, family, f"{item.name} has ended without one")


# A winner is known within this time on every worker; a query of the run store takes a millisecond.
POLL_S = 0.2
# The interval of signs of life: many fit into SILENT_S, so that a few late ones do no harm.
BEAT_S = 2.0
# A worker whose machine sleeps, or swaps, is late; one that has died stays away.
SILENT_S = 60.0
_CHOICE = "choice of "


class NoWinner(CrucibleError):
    """No winner will come: the worker that chooses has failed or died."""


def subject_of_life(family: str) -> str:
    """Return the subject of the signs of life of the worker that chooses."""
    return f"{_CHOICE}{family}"


@contextlib.contextmanager
def signs_of_life(store: RunStore, run: str, family: str, worker: str) -> Iterator[None]:
    """Give signs of life within the block, from a thread of its own: fixtures and models may take long."""
    subject, ended = subject_of_life(family), threading.Event()
    add_decision(store, run, subject, 0, {"worker": worker, "beat": 0})

    def beat() -> None:
        number = 0
        while not ended.wait(BEAT_S):
            number += 1
            # A store that fails ends the session elsewhere, with its reason.
            with contextlib.suppress(StoreError):
                set_decision(store, run, subject, 0, {"worker": worker, "beat": number})

    thread = threading.Thread(target=beat, name="crucible-sweep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def report_failure(store: RunStore, run: str, family: str, reason: str) -> None:
    """Report to the waiting workers that there will be no winner."""
    add_decision(store, run, subject_of_life(family), 1, {"failed": reason})


def report_lost_worker(store: RunStore, run: str, worker: str) -> None:
    """Report the error of a worker that has died, if it was one that chose."""
    for subject in decision_subjects(store, run, _CHOICE):
        if load_decisions(store, run, subject).get(0, {}).get("worker") == worker:
            family = subject.removeprefix(_CHOICE)
            report_failure(store, run, family, f"worker {worker}, which chose it, has ended")


def wait_for_winner(
    store: RunStore, run: str, family: str, find: Callable[[], OpenedArm | None], check_interrupt: Callable[[], None]
) -> OpenedArm:
    """Return the winner, as soon as `find` returns one. Raises NoWinner, and what `check_interrupt` raises."""
    last, heard = None, time.monotonic()
    while True:
        winner = find()
        if winner is not None:
            return winner
        life = load_decisions(store, run, subject_of_life(family))
        if 1 in life:
            raise NoWinner(f"the sweep of {family!r} has no winner: {life[1]['failed']}")
        last, heard = _heard(life.get(0), last, heard)
        if time.monotonic() - heard > SILENT_S:
            raise NoWinner(
                f"the sweep of {family!r} has no winner: the worker that chooses has not reported for {SILENT_S:g} s"
            )
        check_interrupt()
        time.sleep(POLL_S)


def _heard(
    life: Mapping[str, Any] | None, last: Mapping[str, Any] | None, heard: float
) -> tuple[Mapping[str, Any] | None, float]:
    """Return the latest sign of life, and when it was first seen."""
    return (last, heard) if life == last else (life, time.monotonic())
