"""The session: the one stateful object. It opens when a marked item is collected, gathers, and concludes."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import pytest

from pytest_crucible.accounts import spending, tell_budgets
from pytest_crucible.agenda import Agenda
from pytest_crucible.backends.limiting.limiters import Limiters, Workers
from pytest_crucible.backends.sharing import untold
from pytest_crucible.backends.spending import Spending
from pytest_crucible.calling import alone
from pytest_crucible.errors import CrucibleError, StoreError
from pytest_crucible.experiment import Experiment
from pytest_crucible.hiding import hide_keys
from pytest_crucible.joined_items import JoinedItems
from pytest_crucible.joining import Crucible
from pytest_crucible.markers import is_experiment
from pytest_crucible.notices import Notices
from pytest_crucible.options import read
from pytest_crucible.records import Emit, Plan, Run
from pytest_crucible.report.printable import printable
from pytest_crucible.resources import Resources
from pytest_crucible.running import Runner
from pytest_crucible.sample.deadline import Deadline
from pytest_crucible.sample.garbage import collecting_seldom, leave_quickly
from pytest_crucible.scorers.configured import told as scorers_told
from pytest_crucible.screen import progress_shower
from pytest_crucible.telling import Telling

SESSION = pytest.StashKey["CrucibleSession"]()


def open_session(config: pytest.Config, run: str | None = None) -> CrucibleSession:
    """The session of this process, opened if it is not. Raises pytest.UsageError for what options cannot mean."""
    session = config.stash.get(SESSION, None)
    if session is None:
        session = CrucibleSession(config, run)
        config.stash[SESSION] = session
        config.pluginmanager.register(session, "crucible-session")
        leave_quickly()
    return session


def new_run_id() -> str:
    """Names a run. Not drawn from the seed: two runs with one seed are two runs."""
    return secrets.token_hex(6)


class CrucibleSession:
    """Gathers experiments and what they observe; in the main process it concludes. Registered as a plugin when opened.

    Under xdist a worker plans and runs, and its reports carry one small message; the controller opens its session when
    the first of them arrives, and concludes from the run store as a plain session does.
    """

    def __init__(self, config: pytest.Config, run: str | None) -> None:
        self.config = config
        self.settings = read(config)
        worker = getattr(config, "workerinput", None)
        self.is_worker = worker is not None
        self.run = run or (worker["crucible_run"] if worker else new_run_id())
        self.concluded: Run | None = None
        self._hide = hide_keys(config)
        self._telling = Telling(config, self.settings, self.run)
        self._resources = Resources(
            self._location(),
            cache=self.settings.cache,
            fresh=self.settings.compare if self.settings.fresh else (),
            limiters=self._limiters,
            spending=self._spending,
            hide=self._hide,
            seed=self.settings.seed,
            emit=self._emit,
            run_code=self.settings.run_code,
        )
        seconds, text = self.settings.deadline_s, self.settings.deadline or ""
        self._deadline = None if seconds is None else Deadline.after(seconds, text)
        self._agenda = Agenda(config, self.settings, self._resources)
        self._joined = JoinedItems(self._agenda, self._resources, self._telling, self._deadline)
        self._notices = Notices(self._agenda.problems)
        self._begun = False

    def _location(self) -> str:
        """The run store: paths count from pytest's root directory, so that every way to call pytest finds the same one."""
        where = self.settings.store
        return where if "://" in where else str(self.config.rootpath / where)

    def _limiters(self) -> Limiters:
        """Of all processes of this run together: `--crucible-concurrency` is a number for the run, not for each worker."""
        worker = getattr(self.config, "workerinput", None)
        workers = Workers(self.run, worker["workercount"]) if worker else None
        return Limiters(ordinary=self.settings.concurrency, workers=workers)

    def _spending(self) -> Spending:
        """Prices are a project's, and the budget is the run's, of all its workers together."""
        return spending(self.config, self.settings.budget, self.run)

    # -- collection ---------------------------------------------------------------------------------------------

    def see(self, items: Sequence[pytest.Item]) -> None:
        """Remember all marked items before -k, -m and --lf remove any."""
        self._agenda.see(items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Plan what was selected. Mistakes end the session here, before anything is asked."""
        with collecting_seldom():  # most of it imports what adapters, scorers and statistics need
            self._agenda.plan(session.items)
            self._begun = self._agenda.enter(self.run)
        problems = self._notices.problems
        if self._begun and not problems:
            self._telling.recorder.open(self._resources.writer)
        if problems and not self.is_worker:  # a worker that raised here would be an internal error to xdist
            raise pytest.UsageError(self._hide("\n".join(problems)))

    def plans(self) -> list[Plan]:
        """What is to be asked."""
        return self._agenda.plans()

    def pytest_report_collectionfinish(self) -> list[str]:
        return [] if self.config.get_verbosity() < 0 else list(self._agenda.lines.values())

    # -- running ------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Run a marked function as an experiment."""
        if not is_experiment(pyfuncitem):
            return None
        experiment = self._agenda.experiments.get(pyfuncitem.nodeid)
        if experiment is None or self._notices.wrong:
            pytest.skip(self._not_asked())
        if self.settings.sample is not None:
            self._run_alone(pyfuncitem, experiment, self.settings.sample)
            return True
        try:
            shared = self._resources.shared
            show = progress_shower(self.config, pyfuncitem.nodeid, lambda: shared.waits_for(time.monotonic()))
            self._runner()(pyfuncitem, experiment, show)
        except CrucibleError as error:
            if isinstance(error, StoreError):
                self._notices.failed([error])
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        finally:
            tell_budgets(self._telling.emit, self._resources.shared.spending, pyfuncitem.nodeid)
            self._notices.told += scorers_told()
        return True

    def crucible(self, item: pytest.Item) -> Crucible:
        """The `crucible` fixture of one item of a joined test."""
        if self._notices.wrong:
            pytest.skip(self._not_asked())
        return self._joined.crucible(item)

    def _not_asked(self) -> str:
        return "nothing is asked: " + self._hide(next(iter(self._notices.wrong), "it was not planned"))

    def _emit(self) -> Emit:
        """A controller of workers asks nothing, and so has nothing to tell."""
        return untold if self.config.pluginmanager.hasplugin("dsession") else self._telling.emit

    def _runner(self) -> Runner:
        resources = self._resources
        return Runner(
            self.run,
            self.settings,
            resources.store,
            resources.writer,
            resources.loop,
            self._observed(),
            cache=resources.shared.cache,
            deadline=self._deadline,
            spending=resources.shared.spending,
            tell=self._telling.samples,
        )

    def _observed(self) -> Callable[..., None] | None:
        """Whom to tell of each observation, if anybody."""
        hook = self.config.hook.pytest_crucible_observed
        return partial(hook, config=self.config) if hook.get_hookimpls() else None

    def _run_alone(self, item: pytest.Function, experiment: Experiment, wanted: str) -> None:
        position = experiment.position(wanted)
        if position is None:
            pytest.skip(f"no sample {wanted!r} here")
        self._notices.told += map(self._hide, alone(item, experiment, position, self._resources.loop))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Turn a joined item's wrong answer into an expected one, store what it has shown, tell the controller."""
        report = yield
        owner = self._agenda.owner(item)
        if owner is None:
            return report
        joined = self._agenda.joined.get(owner)
        if joined is not None and not self._notices.wrong:
            try:
                self._joined.observe(item, joined, call, report, self._observed())
            except StoreError as error:  # an item of somebody else's suite does not fail for it
                self._notices.failed([error])
        self._notices.ran(owner, item.nodeid)
        if self.is_worker:
            report.crucible = self._message(owner, item.nodeid)  # type: ignore[attr-defined]  # xdist sends it along
        return report

    def _message(self, owner: str, item: str) -> dict[str, Any]:
        """What the controller has to know, said once."""
        self._notices.complained(self._telling.complaints())
        line = self._agenda.lines.pop(owner, None)
        return {"run": self.run, "owner": owner, "item": item, "line": line, **self._notices.handed_over()}

    # -- the end ------------------------------------------------------------------------------------------------

    def receive(self, message: dict[str, Any]) -> None:
        """What a worker's report tells the controller: what is being asked, or why nothing is."""
        self._begun = True
        self._notices.ran(message["owner"], message["item"])
        self._notices.take(message)
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if message["line"] and terminal is not None and self.config.get_verbosity() >= 0:
            terminal.ensure_newline()
            terminal.write_line(message["line"])

    def hear(self, failures: Sequence[str]) -> None:
        """What a worker could not store."""
        self._notices.failed(failures)

    def conclude(self, session: pytest.Session, *, interrupted: bool) -> None:
        """Analyse and judge what the run store holds, and report each verdict as a test."""
        if self._notices.wrong:
            with contextlib.suppress(StoreError):  # that is one of them
                self._resources.close_writer()
            raise pytest.UsageError(self._hide("\n".join(self._notices.wrong)))
        if self.is_worker or self.settings.sample is not None or not self._begun:
            return
        from pytest_crucible import closing

        try:
            tell_budgets(self._emit(), self._resources.shared.spending)
            self._telling.recorder.close()
            self._resources.close_writer()
            self._resources.enter_requests(self.run)
            self.concluded = closing.judged(
                self.config, self.settings, self._resources.store, self.run, interrupted=interrupted
            )
        except CrucibleError as error:
            raise pytest.UsageError(self._hide(str(error))) from error
        closing.report_verdicts(session, self.settings, self.concluded, self._notices.items)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write what was asked for: the exit status is known only now."""
        if self.concluded is not None:
            from pytest_crucible import closing

            self.concluded = run = dataclasses.replace(self.concluded, exit_status=int(exitstatus))
            try:
                self._resources.store.set_exit_status(self.run, run.exit_status)
            except StoreError as error:  # what was ruled is told all the same
                self._notices.told.append(f"the exit status of run {self.run} is not stored: {error}")
            self._notices.told += closing.written(self.config, self.settings, run)
            self.config.hook.pytest_crucible_concluded(config=self.config, run=run)
        if self.is_worker:
            self._hand_over()
        self._telling.close()
        self._resources.close_writer()

    def _hand_over(self) -> None:
        """A worker's last rows. What cannot be stored of them, the controller is told: no report follows."""
        try:
            if self._begun and not self._notices.wrong:
                tell_budgets(self._telling.emit, self._resources.shared.spending)
                self._resources.enter_requests(self.run)
            self._telling.recorder.close()
            self._resources.close_writer()
        except CrucibleError as error:
            self.config.workeroutput["crucible_failures"] = [self._hide(str(error))]  # type: ignore[attr-defined]  # xdist's

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        from pytest_crucible import closing

        self._notices.complained(self._telling.complaints())
        told, width = [*self._notices.told, *self._notices.complaints], terminalreporter._tw.fullwidth
        lines = closing.shown(self.concluded, told, verbosity=self.config.get_verbosity(), width=width)
        if lines:
            terminalreporter.write_sep("=", "crucible")
        for line in lines:
            terminalreporter.write_line(printable(self._hide(line.text)), **line.markup)
        for annotation in closing.notes_for_github(self.concluded, self.settings) if self.concluded else ():
            terminalreporter.write_line(self._hide(annotation))

    def pytest_unconfigure(self) -> None:
        self._resources.close()
