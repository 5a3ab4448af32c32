"""The session: the one stateful object. It opens when a marked item is collected, gathers, and concludes."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible import builtin
from pytest_crucible.conclusion import again, conclude, now, verdict_reports
from pytest_crucible.contenders import Contender, contenders
from pytest_crucible.environment import environment, git_commit
from pytest_crucible.errors import CrucibleError, SpecError
from pytest_crucible.experiment import CrucibleWarning, Experiment, Library
from pytest_crucible.joining import Crucible, Joined, arm_name, gather, record, sample_id, settle, unique_ids
from pytest_crucible.markers import is_experiment
from pytest_crucible.options import read
from pytest_crucible.plan.fingerprint import differences
from pytest_crucible.plan.foresee import foresee
from pytest_crucible.records import Outcome, Plan, Run, Sample
from pytest_crucible.report.announce import announcement
from pytest_crucible.report.progress import ProgressLine
from pytest_crucible.report.terminal import Line, summary
from pytest_crucible.resources import Resources
from pytest_crucible.running import Runner, alone
from pytest_crucible.sample.engine import Progress

SESSION = pytest.StashKey["CrucibleSession"]()
JOINED_OUTCOME = pytest.StashKey[Outcome]()
# What an item of a joined test has shown so far.


def open_session(config: pytest.Config, run: str | None = None) -> CrucibleSession:
    """The session of this process, opened if it is not. Raises pytest.UsageError for what options cannot mean."""
    session = config.stash.get(SESSION, None)
    if session is None:
        session = CrucibleSession(config, run)
        config.stash[SESSION] = session
        config.pluginmanager.register(session, "crucible-session")
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
        self._problems: list[str] = []
        self._functions: dict[str, Callable[..., Any]] = {}
        self._joined_ids: dict[str, list[str]] = {}
        self._experiments: dict[str, Experiment] = {}
        self._joined: dict[str, Joined] = {}
        self._items: dict[str, list[str]] = {}
        """Nodeids of the items that ran, by the experiment that they belong to."""
        self._begun = False
        self._contenders: tuple[Contender, ...] = ()
        self._lines: dict[str, str] = {}
        self._told: list[str] = []
        self._resources = Resources(self._location())

    def _location(self) -> str:
        """The run store: paths count from pytest's root directory, so that every way to call pytest finds the same one."""
        where = self.settings.store
        return where if "://" in where else str(self.config.rootpath / where)

    # -- collection ---------------------------------------------------------------------------------------------

    def see(self, items: Sequence[pytest.Item]) -> None:
        """Remember all marked items before -k, -m and --lf remove any."""
        for item in items:
            if is_experiment(item) and isinstance(item, pytest.Function):
                # pytest-asyncio wraps `item.obj` when it runs; this is the function as it was written.
                self._functions[item.nodeid] = item.function
        self._joined_ids = {nodeid: unique_ids(group) for nodeid, group in gather(items).items()}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Plan what was selected. Mistakes end the session here, before anything is asked."""
        with self._mistakes():
            self._plan(session.items)
        if self._problems and not self.is_worker:
            raise pytest.UsageError("\n".join(self._problems))

    def pytest_report_collectionfinish(self) -> list[str]:
        return [] if self.config.get_verbosity() < 0 else list(self._lines.values())

    def _plan(self, items: Sequence[pytest.Item]) -> None:
        joined = gather(items)
        if not (joined or any(item.nodeid in self._functions for item in items)):
            return
        self._check_reports()
        self._contenders = contenders(self.config, self.settings)
        library = Library(self.config, self.settings, self._contenders)
        for item in items:
            if item.nodeid in self._functions and isinstance(item, pytest.Function):
                with self._mistakes(item.nodeid):
                    self._plan_experiment(item, library)
        for nodeid, group in joined.items():
            with self._mistakes(nodeid):
                ids = self._joined_ids[nodeid]
                plan = library.joined(group, ids, len(unique_ids(group)))
                self._joined[nodeid] = Joined(plan, {name: position for position, name in enumerate(ids)})
        if not self._problems:
            self._announce()
            self._begin()

    def _plan_experiment(self, item: pytest.Function, library: Library) -> None:
        experiment = library.experiment(item, self._functions[item.nodeid])
        for warning in experiment.warnings:
            item.warn(CrucibleWarning(warning))
        for arm in experiment.plan.arms:
            if arm.stored_run is not None:
                self._check_stored(arm.stored_run, experiment.plan)
        self._experiments[item.nodeid] = experiment

    def _check_stored(self, run: str, plan: Plan) -> None:
        """Answers to other questions are no baseline."""
        _, full, stored = self._resources.store.stored_candidate(run, plan.nodeid)
        changed = differences(plan.fingerprint, stored.fingerprint)
        if changed:
            raise SpecError(
                f"--compare=run:{run} cannot be compared with: {' and '.join(changed)} have changed since run {full}; "
                "measure the baseline again with --compare=ADAPTER"
            )

    def _announce(self) -> None:
        """One line an experiment: what it will ask, and what it can show."""
        plans = self._plans()
        questions = sum(len(plan.contrasts) for plan in plans)
        for plan in plans:
            foresight = foresee(plan, alpha=self.settings.alpha, questions=questions)
            self._lines[plan.nodeid] = announcement(plan, foresight)
        wanted = self.settings.sample
        if wanted is not None and not any(_position(one, wanted) is not None for one in self._experiments.values()):
            raise SpecError(f"--crucible-sample={wanted}: no selected experiment has a sample of that id")

    def _begin(self) -> None:
        """Open the run store and enter the run, unless nothing will be asked."""
        plans = self._plans()
        if not plans or self.config.option.collectonly or self.settings.sample is not None:
            return
        self._begun = True
        store = self._resources.store
        facts = {"started": now(), "seed": self.settings.seed, "alpha": self.settings.alpha, "correction": "holm"}
        store.begin_run(self.run, **facts, git=git_commit(self.config.rootpath), environment=environment())
        for plan in plans:
            store.enter_plan(self.run, plan)
        for joined in self._joined.values():
            samples = [Sample(id=name, input=name) for name in joined.positions]
            key = store.add_experiment(self.run, joined.plan, samples)
            joined.arms = [store.add_arm(key, k, arm.name, "") for k, arm in enumerate(joined.plan.arms)]

    def _plans(self) -> list[Plan]:
        return [one.plan for one in self._experiments.values()] + [one.plan for one in self._joined.values()]

    def _check_reports(self) -> None:
        """A report that cannot be written is found out now, not after an hour of sampling."""
        for path, _ in self._reports():
            if not path.parent.is_dir():
                raise SpecError(f"report {str(path)!r} cannot be written: {str(path.parent)!r} is not a directory")

    @contextlib.contextmanager
    def _mistakes(self, where: str = "") -> Iterator[None]:
        """Gather mistakes, so that all of them are told at once."""
        try:
            yield
        except CrucibleError as error:
            self._problems.append(f"{where}: {error}" if where else str(error))

    # -- running ------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Run a marked function as an experiment."""
        experiment = self._experiments.get(pyfuncitem.nodeid)
        if experiment is None and pyfuncitem.nodeid not in self._functions:
            return None
        if experiment is None or self._problems:
            pytest.skip("the configuration is wrong: nothing is asked")
        if self.settings.sample is not None:
            self._run_alone(pyfuncitem, experiment, self.settings.sample)
            return True
        try:
            self._runner()(pyfuncitem, experiment, self._progress(experiment.plan))
        except CrucibleError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        return True

    def crucible(self, item: pytest.Item) -> Crucible:
        """The `crucible` fixture of one item of a joined test."""
        if self._problems:
            pytest.skip("the configuration is wrong: nothing is asked")
        outcome = self._outcome(item)
        return Crucible(self._contenders[outcome.arm], sample_id(item), outcome, lambda: self._resources.loop)

    def _runner(self) -> Runner:
        hook = self.config.hook.pytest_crucible_observed
        observed = partial(hook, config=self.config) if hook.get_hookimpls() else None
        resources = self._resources
        return Runner(self.run, self.settings, resources.store, resources.writer, resources.loop, observed)

    def _run_alone(self, item: pytest.Function, experiment: Experiment, wanted: str) -> None:
        position = _position(experiment, wanted)
        if position is None:
            pytest.skip(f"no sample {wanted!r} here")
        self._told += alone(item, experiment, position, self._resources.loop)

    def _outcome(self, item: pytest.Item) -> Outcome:
        """What a joined item has shown so far."""
        if JOINED_OUTCOME not in item.stash:
            joined = self._joined[item.nodeid.split("[")[0]]
            names = [arm.name for arm in joined.plan.arms]
            number = names.index(arm_name(item) or names[0])
            item.stash[JOINED_OUTCOME] = Outcome(number, joined.positions[sample_id(item)], 0, started=time.time())
        return item.stash[JOINED_OUTCOME]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Turn a joined item's wrong answer into an expected one, store what it has shown, tell the controller."""
        report = yield
        joined = self._joined.get(item.nodeid.split("[")[0])
        if joined is not None and not self._problems:
            self._observe(item, joined, call, report)
        if joined is not None or item.nodeid in self._functions:
            nodeid = item.nodeid.split("[")[0] if joined else item.nodeid
            self._items.setdefault(nodeid, []).append(item.nodeid)
            if self.is_worker:
                told, self._told = self._told, []
                facts = {
                    "nodeid": nodeid,
                    "line": self._lines.pop(nodeid, None),
                    "problems": self._problems,
                    "told": told,
                }
                report.crucible = {"run": self.run, "item": item.nodeid, **facts}  # type: ignore[attr-defined]
        return report

    def _observe(
        self, item: pytest.Item, joined: Joined, call: pytest.CallInfo[Any], report: pytest.TestReport
    ) -> None:
        """Settle at the end of each phase, store once at the last: with subtests a phase is reported more than once."""
        outcome = self._outcome(item)
        if call.excinfo is not None and call.when != "teardown":
            settle(outcome, call.excinfo.value)
            if outcome.failure == "assertion" and joined.judged and report.failed:
                report.outcome = "skipped"
                report.wasxfail = f"one wrong answer: {outcome.detail}"
        if call.when == "teardown":
            record(outcome, joined, sample_id(item), self._resources.writer)

    def _progress(self, plan: Plan) -> Callable[[Progress | None], None]:
        """Shows a live line where somebody watches; capturing is lifted only while it is written."""
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        capture = self.config.pluginmanager.get_plugin("capturemanager")
        if terminal is None or self.is_worker or not terminal.isatty or self.config.get_verbosity() < 0:
            return lambda _: None

        writer = terminal._tw

        def write(text: str) -> None:
            with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
                writer._file.write(text)  # past the writer, which would count it to pytest's own line
                writer._file.flush()

        line = ProgressLine(write, width=writer.fullwidth, column=writer.width_of_current_line)
        name = plan.nodeid.rpartition("::")[2]

        def show(progress: Progress | None) -> None:
            if progress is None:
                line.clear()
            else:
                line.show(name, progress.done, progress.total, progress.lost)

        return show

    # -- the end ------------------------------------------------------------------------------------------------

    def receive(self, message: dict[str, Any]) -> None:
        """What a worker's report tells the controller: what is being asked, or why nothing is."""
        self._begun = True
        self._items.setdefault(message["nodeid"], []).append(message["item"])
        self._told += message["told"]
        if message["problems"]:
            self._problems = message["problems"]
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if message["line"] and terminal is not None and self.config.get_verbosity() >= 0:
            terminal.ensure_newline()
            terminal.write_line(message["line"])

    def conclude(self, session: pytest.Session, *, interrupted: bool) -> None:
        """Analyse and judge what the run store holds, and report each verdict as a test."""
        if self._problems:
            raise pytest.UsageError("\n".join(self._problems))
        if self.is_worker or self.settings.sample is not None or not self._begun:
            return
        try:
            self._resources.close_writer()
            self.concluded = conclude(
                self._resources.store,
                self.run,
                alpha=self.settings.alpha,
                strict=self.settings.strict,
                interrupted=interrupted,
                amend=lambda verdict: self.config.hook.pytest_crucible_verdict(config=self.config, verdict=verdict),
            )
        except CrucibleError as error:
            raise pytest.UsageError(str(error)) from error
        self._report_verdicts(session, self.concluded)

    def _report_verdicts(self, session: pytest.Session, run: Run) -> None:
        analyses = {analysis.plan.nodeid: analysis for analysis in run.experiments}
        session.testscollected += len(run.verdicts)  # else the progress column passes 100 %
        fails = self.settings.undecided == "fail"
        failed = set()
        for verdict in run.verdicts:
            for report in verdict_reports(verdict, analyses[verdict.nodeid], undecided_fails=fails):
                self.config.hook.pytest_runtest_logreport(report=report)
                if report.failed:
                    failed.add(verdict.nodeid)
        last_failed = self.config.pluginmanager.get_plugin("lfplugin")
        if last_failed is not None:  # --lf is to run the whole experiment again: a verdict alone cannot be
            for nodeid in {item for experiment in failed for item in self._items.get(experiment, ())}:
                last_failed.pytest_runtest_logreport(report=again(nodeid))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write what was asked for: the exit status is known only now."""
        if self.concluded is not None:
            self.concluded = run = dataclasses.replace(self.concluded, exit_status=int(exitstatus))
            self._resources.store.set_exit_status(self.run, run.exit_status)
            for path, render in self._reports():
                self._write_report(path, render(run))
            self.config.hook.pytest_crucible_concluded(config=self.config, run=run)
        self._resources.close_writer()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        lines, verbosity = [Line(text) for text in self._told], self.config.get_verbosity()
        if self.concluded is not None and self.concluded.experiments:
            lines = [*summary(self.concluded, verbosity=verbosity, width=terminalreporter._tw.fullwidth), *lines]
        if lines:
            terminalreporter.write_sep("=", "crucible")
        for line in lines:
            terminalreporter.write_line(line.text, **line.markup)

    def pytest_unconfigure(self) -> None:
        self._resources.close()

    def _write_report(self, path: Path, text: str) -> None:
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            self._told.append(f"report {str(path)!r} was not written: {error}")

    def _reports(self) -> Iterator[tuple[Path, Callable[[Run], str]]]:
        """The files that are asked for, each with what renders it. Raises SpecError for a format that nobody writes."""
        known = builtin.reporters(self.config)
        wanted = [(self.settings.json, "json")] if self.settings.json else []
        wanted += [(path, Path(path).suffix.removeprefix(".")) for path in self.settings.report]
        for path, extension in wanted:
            if extension not in known:
                raise SpecError(f"report {path!r}: nothing writes .{extension} (known: {', '.join(sorted(known))})")
            yield self.config.invocation_params.dir / path, builtin.load(known[extension])


def _position(experiment: Experiment, wanted: str) -> int | None:
    ids = [sample.id for sample in experiment.dataset.samples]
    return ids.index(wanted) if wanted in ids else None
