"""The pytest session of a worker: it collects and plans the driver's suite, and sends the units of blocks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import shutil
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import asdict, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible import sandbox
from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.features.scale.leases import share_by_workers
from pytest_crucible.features.scale.node_servers import Models, read_node_servers
from pytest_crucible.features.scale.process_folder import open_process_folder
from pytest_crucible.features.scale.suite_facts import (
    experiment_facts,
    missing_test,
    suite_problems,
    version_facts,
    version_problems,
)
from pytest_crucible.features.scale.worker_units import BlockRows, OpenBlock, UnitSource
from pytest_crucible.metrics.models.scorers import scorer_reports
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan, Unit
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.sample.engine import MOST_OPEN, Deadline, Progress, run_units
from pytest_crucible.sample.loop import DaemonThreads
from pytest_crucible.sandbox.pool import VARIABLE
from pytest_crucible.session.call import Call, ScoredUnits
from pytest_crucible.session.events import with_sample_spans
from pytest_crucible.session.experiment import Experiment, ExperimentRun
from pytest_crucible.session.resources import SHARED_BY_WORKERS
from pytest_crucible.store.row_batch import OutcomeRows

if TYPE_CHECKING:
    from pytest_crucible.session.session import CrucibleSession

IS_RAY_WORKER = "crucible_ray"
"""The word among a worker's input that tells it from one of pytest-xdist."""


class WorkerError(Exception):
    """A sentence for the driver: why this worker cannot send a block."""


@dataclass(frozen=True)
class WorkerOrder:
    """The facts of the driver's session for its workers, as plain data."""

    run: str
    directory: str
    """The driver's working directory, which a node may have, too."""
    folder: str
    """The place of the working directory in the copy of the suite that Ray has made, as the process's own directory."""
    arguments: Sequence[str]
    names: Mapping[str, str]
    """Names of nodes, by their ids on the cluster."""
    settings: Mapping[str, Any]
    """What features have found out about the settings."""
    input: Mapping[str, Any]
    """Facts that features pass to the workers of a session."""
    concurrency: int
    workers: int
    runs_code: bool
    """Whether the driver's user lets code run that a model wrote."""
    versions: Mapping[str, str]
    results: str
    """The place of Parquet parts; empty without one."""
    probe: str
    """The path of a file that the driver has put there."""
    experiments: Mapping[str, Mapping[str, Any]]
    """Facts of each experiment of the driver, its plan among them, by nodeid."""


@dataclass(frozen=True)
class BlockCall:
    """The facts of the run that a block belongs to, as plain data."""

    run: int
    """The number of the driver's run of the experiment."""
    nodeid: str
    following: str | None
    """The nodeid of the driver's next item: fixtures that it uses, too, stay."""
    seconds: float | None
    """Seconds until the deadline of the driver's session; None without one."""
    arms: Sequence[Sequence[int]]
    """The driver's keys of the arms, by arm and variant."""
    needs_calls: bool
    """Whether the driver compares the calls with those of stored replies."""


class _NoChannel:
    """The place of xdist's channel to a controller: a worker here is called by its driver."""

    def setcallback(self, callback: Callable[[Any], object]) -> None:
        """Nothing is ever received."""

    def send(self, message: Any) -> None:
        """Nothing receives it."""


@dataclass
class _Current:
    """The experiment that a worker sends."""

    call: BlockCall
    deadline: Deadline | None
    opened: Future[_OpenExperiment] = field(default_factory=Future)


@dataclass(frozen=True)
class _OpenExperiment:
    """An experiment whose fixtures are set up, and that takes blocks."""

    source: UnitSource
    experiment: Experiment
    submit: Callable[[Callable[[], object]], object]
    """Calls a function on the sampling loop."""
    begin_units: Callable[[Sequence[Unit]], None]
    cancel: Callable[[], object]
    """Ends the engine; called on the loop."""


class WorkerSession:
    """Runs pytest in a thread of its own, and hands it the blocks that come from the driver. A pytest plugin."""

    def __init__(self, order: WorkerOrder, node: str) -> None:
        self._order, self._node = order, node
        self._planned: Future[CrucibleSession] = Future()
        self._runs: queue.SimpleQueue[_Current | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._current: _Current | None = None
        """The experiment of the driver's last block."""
        self._running: _Current | None = None
        """The experiment that pytest runs."""
        self._items: dict[str, pytest.Item] = {}
        self._collection_errors: list[str] = []
        self._fixture_error = ""
        self.rows = BlockRows()
        self._folder = open_process_folder("crucible-worker")
        self._thread = threading.Thread(target=self._run_pytest, name="pytest", daemon=True)
        self._thread.start()

    # -- called by the driver's threads -------------------------------------------------------------------------

    def wait_until_planned(self) -> CrucibleSession:
        """Return the session when its suite is planned and equal to the driver's. Raises WorkerError."""
        return self._planned.result()

    def node_servers(self) -> dict[str, tuple[str, Models]]:
        """Return what the servers of this node report of the models of adapters."""
        session = self.wait_until_planned()
        adapters = [opened.adapter for opened in session.collection.opened_arms if opened.adapter is not None]
        node = session.config.stash[SHARED_BY_WORKERS].node
        return read_node_servers(adapters, session.config.rootpath, node)

    def run_block(self, call: BlockCall, units: Sequence[Unit]) -> OpenBlock:
        """Send the units of a block, and return it when all are done. Raises WorkerError."""
        session = self.wait_until_planned()
        opened = self._open(call).opened.result()
        store = session.resources.store
        rows = OutcomeRows(
            store.redact_once, lambda: self._order.run, store.hide_id, stores_texts=session.settings.trace == "on"
        )
        block, samples = OpenBlock(set(units), rows), opened.experiment.dataset.samples
        self.rows.open(block, [samples[position].id for position in {unit.position for unit in units}])

        def add() -> None:
            opened.begin_units(units)
            opened.source.add(block, units)

        opened.submit(add)
        block.done.result()
        return block

    def pop_tallies(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return how the reply cache has answered since the last call, by experiment and arm."""
        cache = self.wait_until_planned().resources.shared.cache
        tallies = [] if cache is None else [(*place, cache.tallies.pop(place)) for place in tuple(cache.tallies)]
        return [(nodeid, arm, asdict(tally)) for nodeid, arm, tally in tallies]

    def end_run(self, run: int) -> tuple[list[str], list[str]]:
        """End the experiment that was sent, if it is the driver's run of this number or an earlier one.

        Return the reports of scorers, and of listeners that have raised, since the last call.
        """
        with self._lock:
            if self._current is not None and self._current.call.run <= run:
                self._end_current()
        state = self.wait_until_planned().state
        return [*map(state.hide, scorer_reports())], [*map(state.hide, state.publisher.pop_failures())]

    def close(self) -> None:
        """End the session: fixtures are torn down."""
        with self._lock:
            self._end_current()
            self._runs.put(None)
        self._thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _open(self, call: BlockCall) -> _Current:
        with self._lock:
            if self._current is None or self._current.call.run != call.run:
                self._end_current()
                deadline = None if call.seconds is None else Deadline.after(call.seconds, "that of the session")
                self._current = _Current(call, deadline)
                self._runs.put(self._current)
            return self._current

    def _end_current(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            current.opened.add_done_callback(_end_source)

    # -- the thread of pytest -----------------------------------------------------------------------------------

    def _run_pytest(self) -> None:
        try:
            has_suite = os.path.isdir(self._order.directory)
            os.chdir(self._order.directory if has_suite else self._order.folder)
            self._run_session()
        except BaseException as error:  # it would be lost in this thread
            if not self._planned.done():
                self._planned.set_exception(WorkerError(f"{self._node}: {error}"))
            elif self._running is not None and not self._running.opened.done():
                self._running.opened.set_exception(WorkerError(f"the session on {self._node} ended: {error!r}"))

    def _run_session(self) -> None:
        from _pytest.config import _prepareconfig

        if not self._order.runs_code:
            # Else scores would depend on the node.
            os.environ.pop(VARIABLE, None)
        config = _prepareconfig([*self._order.arguments, "--capture=sys"], [self])
        try:
            self._change_options(config.option)
            # It would look for the controller of pytest-xdist, and run experiments again.
            config.pluginmanager.unregister(name="rerunfailures")
            config.workerinput = {  # type: ignore[attr-defined]  # as xdist's
                "workerid": self._node,
                "workercount": self._order.workers,
                "mainargv": list(self._order.arguments),
                "crucible_run": self._order.run,
                "crucible_settings": dict(self._order.settings),
                **self._order.input,
                "crucible_channel": _NoChannel(),
                IS_RAY_WORKER: True,
            }
            config.workeroutput = {}  # type: ignore[attr-defined]  # as xdist's
            config.hook.pytest_cmdline_main(config=config)
        finally:
            config._ensure_unconfigure()
        if not self._planned.done():
            self._planned.set_exception(WorkerError(self._first_problem("", ())))

    def _change_options(self, option: Any) -> None:
        """Select what the driver has selected, by the names of its experiments, and write into no file of the driver's."""
        for name in ("keyword", "markexpr"):
            setattr(option, name, "")
        for name in ("usepdb", "lf", "failedfirst", "newfirst", "stepwise", "collectonly", "verbose"):
            setattr(option, name, False)
        option.maxfail = 0
        for name in ("json", "report", "tag", "resume", "executor"):
            setattr(option, f"crucible_{name}", None)
        # pytest empties this folder, and workers of one machine would have it together.
        option.basetemp = option.basetemp and str(self._folder / "basetemp")
        stored = [name for name in option.crucible_compare or () if name.startswith(("run:", "tag:"))]
        option.crucible_compare = [name for name in option.crucible_compare or () if name not in stored] or None
        option.crucible_store = str(self._folder / "worker.db")
        option.crucible_concurrency = self._order.concurrency

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Print nothing, because the driver has the terminal; share limits and budgets with the other workers."""
        config.stash[SHARED_BY_WORKERS] = share_by_workers(self._order.run, self._order.workers)
        config.get_terminal_writer()._file = open(os.devnull, "w")  # noqa: SIM115  # as long as the process

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._collection_errors.append(str(report.longreprtext).strip().splitlines()[-1].removeprefix("E").strip())

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note the error, which the driver reports."""
        self._collection_errors.append(excinfo.exconly())

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Select the driver's experiments."""
        items[:] = [item for item in items if item.nodeid in self._order.experiments]
        self._items = {item.nodeid: item for item in items}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Compare the planned suite with the driver's."""
        from pytest_crucible.session.session import session_of

        ours = session_of(session.config)
        problems = [] if ours is None else ours.messages.problems
        experiments = {} if ours is None else ours.collection.experiments
        for sentence in self._compare(experiments, problems):
            self._planned.set_exception(WorkerError(sentence))
            return
        assert ours is not None
        ours.resources.replace_writer(self.rows)
        ours.state.publisher.recorder.open(self.rows)
        self._planned.set_result(ours)

    def _compare(self, experiments: Mapping[str, Experiment], problems: Sequence[str]) -> list[str]:
        sentences = [*version_problems(self._node, self._order.versions, version_facts())]
        if self._order.runs_code and not sandbox.is_allowed():
            sentences.append(
                f"{self._node} does not allow code that a model wrote: set {VARIABLE}=1 there, or give --crucible-run-code"
            )
        for nodeid, facts in self._order.experiments.items():
            if nodeid not in experiments:
                sentences.append(self._first_problem(nodeid, problems))
            else:
                sentences += suite_problems(self._node, facts, experiment_facts(experiments[nodeid]))
        return sentences

    def _first_problem(self, nodeid: str, problems: Sequence[str]) -> str:
        return missing_test(self._node, nodeid, [*self._collection_errors, *problems])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the experiments of the driver's blocks, until it has no more."""
        if self._planned.exception() is None:
            while (current := self._runs.get()) is not None:
                self._run_item(current)
        return True

    def _run_item(self, current: _Current) -> None:
        self._fixture_error, self._running = "", current
        item = self._items[current.call.nodeid]
        following = self._items.get(current.call.following or "")
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if not current.opened.done():
            current.opened.set_exception(
                WorkerError(self._fixture_error or f"{current.call.nodeid} was not run on {self._node}")
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Note the first fixture that cannot be built."""
        try:
            return (yield)
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            self._fixture_error = self._fixture_error or (
                f"the fixture {fixturedef.argname!r} cannot be built on {self._node}: {reason}"
            )
            raise

    @pytest.hookimpl(tryfirst=True)
    def pytest_crucible_run(self, run: ExperimentRun) -> bool:
        """Send the blocks of the driver, until it ends the experiment."""
        session, current = self._planned.result(), self._running
        assert current is not None
        facts = self._order.experiments[current.call.nodeid]
        experiment = _with_plan(run.experiment, from_plain(Plan, facts["plan"]))
        self._serve(session, current, run.item, experiment)
        return True

    def _serve(
        self,
        session: CrucibleSession,
        current: _Current,
        item: pytest.Function,
        experiment: Experiment,
    ) -> None:
        threads = DaemonThreads(MOST_OPEN * self._order.concurrency)
        begin_units, on_unit_done = _begin_spending(session, experiment)
        call = Call(item, experiment, session.resources.loop, threads, current.deadline, on_unit_done)
        samples = experiment.dataset.samples
        ask = with_sample_spans(
            session.state.publisher.sample_emit, call, experiment.plan, lambda place: samples[place].id
        )
        scored = ScoredUnits(experiment, ask, current.deadline)

        async def send() -> None:
            source = UnitSource(self.rows)
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            current.opened.set_result(
                _OpenExperiment(source, experiment, loop.call_soon_threadsafe, begin_units, task.cancel)
            )
            arms = len(experiment.plan.arms)
            try:
                await run_units(
                    source,
                    scored,
                    lambda outcome: source.keep(current.call.arms, outcome, scored.pop_scores(outcome)),
                    concurrency=self._order.concurrency,
                    arms=tuple(arm.name for arm in experiment.plan.arms),
                    planned=[self._order.concurrency] * arms,
                    progress=Progress(total=0),
                    # The driver, which has the results of all workers, sees an arm that loses every sample.
                    answered=[True] * arms,
                    wait=source.wait,
                )
            except BaseException as error:
                source.fail(WorkerError(str(error)))
                raise

        try:
            # Cancelled where the driver has ended the run before its last units.
            with contextlib.suppress(CancelledError):
                session.resources.loop.submit(send()).result()
        finally:
            threads.shutdown()


def _end_source(opened: Future[_OpenExperiment]) -> None:
    if opened.exception() is None:
        open_experiment = opened.result()
        open_experiment.submit(partial(open_experiment.source.end, open_experiment.cancel))


def _with_plan(experiment: Experiment, plan: Plan) -> Experiment:
    """Return the experiment with the driver's plan, and the opened arms in its order; those of stored runs have no backend."""
    opened = {arm.arm.name: arm for arm in experiment.opened_arms}
    arms = tuple(opened.get(arm.name) or OpenedArm(arm, None) for arm in plan.arms)
    return replace(experiment, plan=plan, opened_arms=arms)


def _begin_spending(
    session: CrucibleSession, experiment: Experiment
) -> tuple[Callable[[Sequence[Unit]], None], Callable[[str, int, str], None] | None]:
    """Return functions to call with the units that will be sent, and when one is done; None for the second without a budget."""
    nodeid, spending = experiment.plan.nodeid, session.resources.shared.spending
    if spending.account(nodeid) is None:
        return lambda units: None, None
    asking: dict[tuple[str, int], set[str]] = {}
    samples, arms = experiment.dataset.samples, experiment.plan.arms

    def begin_units(units: Sequence[Unit]) -> None:
        for unit in units:
            place = samples[unit.position].id, experiment.repeat(unit)
            asking.setdefault(place, set()).add(arms[unit.arm].name)

    def release(sample: str, repeat: int, arm: str) -> None:
        asking.get((sample, repeat), set()).discard(arm)
        spending.release(nodeid, sample, repeat, arm)

    spending.begin(nodeid, lambda sample, repeat: sorted(asking.get((sample, repeat), ())))
    return begin_units, partial(release)
