"""The session, the one stateful object: opened when a marked item is collected, closed when pytest ends."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_crucible.backends.budget.spending import Spending
from pytest_crucible.backends.limiting.limiters import Limiters, Workers
from pytest_crucible.markers import is_experiment
from pytest_crucible.metrics.models.registry import scorer_reports
from pytest_crucible.options import read_settings
from pytest_crucible.records import Plan
from pytest_crucible.records.errors import CrucibleError, StoreError, UnsuitableMetric
from pytest_crucible.report.printable import printable
from pytest_crucible.sample.deadline import Deadline
from pytest_crucible.sample.engine import Progress
from pytest_crucible.sample.gc_tuning import collecting_seldom
from pytest_crucible.session.budget import emit_budgets, open_spending
from pytest_crucible.session.check_items import CheckItems
from pytest_crucible.session.collect import ExperimentCollection
from pytest_crucible.session.conclusion import Conclusion
from pytest_crucible.session.data_checks import open_data_checks
from pytest_crucible.session.events import EventPublisher
from pytest_crucible.session.expected_failures import expected_failure, forget_unexpected_pass
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.interruptions import Interruptions
from pytest_crucible.session.joined_items import Crucible, JoinedItems
from pytest_crucible.session.joined_tests import function_nodeid
from pytest_crucible.session.messages import Messages
from pytest_crucible.session.notifier import open_notifier
from pytest_crucible.session.progress import progress_display
from pytest_crucible.session.redact_reports import key_redactor
from pytest_crucible.session.resources import Resources
from pytest_crucible.session.run_experiment import ExperimentRunner
from pytest_crucible.session.single_sample import run_single_sample
from pytest_crucible.session.stage_items import collected_nodeid
from pytest_crucible.session.worker_links import announce_experiments
from pytest_crucible.session.worker_reports import WorkerReports

if TYPE_CHECKING:
    from pytest_crucible.adapters.guards import Guards
    from pytest_crucible.backends.budget.budget import Budget
    from pytest_crucible.backends.not_sent import UnsentRequest
    from pytest_crucible.session.estimate_plugin import EstimatePlugin
    from pytest_crucible.session.stage_plugin import StagePlugin
    from pytest_crucible.session.stage_run import StageRun
    from pytest_crucible.session.stages import SessionStages
    from pytest_crucible.session.sweep_items import SweepItems

Show = Callable[[Progress | None], None]
Result = TypeVar("Result")
SESSION = pytest.StashKey["CrucibleSession"]()


def open_session(config: pytest.Config, run: str | None = None) -> CrucibleSession:
    """Return the session of this process, opened if necessary. Raises pytest.UsageError for invalid options."""
    session = config.stash.get(SESSION, None)
    if session is None:
        session = CrucibleSession(config, run)
        config.stash[SESSION] = session
        config.pluginmanager.register(session, "crucible-session")
        config.pluginmanager.register(session.interruptions, "crucible-interruptions")
        config.pluginmanager.register(session.conclusion, "crucible-conclusion")
        session.register_plugins()
    return session


def new_run_id() -> str:
    """Return a new run id. It is not drawn from the seed: two runs with one seed are two runs."""
    return secrets.token_hex(6)


class CrucibleSession:
    """Plans and runs experiments; in the main process it also decides the verdicts. A pytest plugin, registered when opened.

    Under xdist a worker plans and runs, and its reports carry one small message; the controller opens its session when
    the first of them arrives, and decides from the run store as a plain session does.
    """

    def __init__(self, config: pytest.Config, run: str | None) -> None:
        self.config = config
        self.settings = read_settings(config)
        worker = getattr(config, "workerinput", None)
        self.is_worker = worker is not None
        self.run = run or (worker["crucible_run"] if worker else new_run_id())
        self.interruptions = Interruptions(config)
        self._hide = key_redactor(config)
        self._publisher = EventPublisher(config, self.settings, self.run)
        self._resources = Resources(
            self._location(),
            cache=self.settings.cache,
            fresh=self.settings.compare if self.settings.fresh else (),
            limiters=self._limiters,
            spending=self._spending,
            hide=self._hide,
            seed=self.settings.seed,
            emit=self._publisher.request_emit,
            run_code=self.settings.run_code,
            on_unsent=self._note_unsent if self.settings.estimate else None,
        )
        seconds, text = self.settings.deadline_s, self.settings.deadline or ""
        self._deadline = None if seconds is None else Deadline.after(seconds, text)
        checks = open_data_checks(config, self.run)
        self._collection = ExperimentCollection(config, self.settings, self._resources, checks)
        self._expected: set[str] = set()
        self._joined = JoinedItems(self._collection, self._resources, self._publisher, self._deadline)
        self._messages = Messages(self._collection.problems)
        self._tests_and_verdicts = -1
        self._sweep_items: SweepItems | None = None
        stages = self._open_stages()
        self._stages = None if stages is None else self._open_stage_plugin(stages)
        self._estimate = self._open_estimate()
        only = self.settings.checks == "only"
        self._check_items = CheckItems(
            config, self.run, checks.results, self._collection.marked.experiment_of, only, self._messages.lines
        )
        self.workers = WorkerReports(config, self._messages)
        self.conclusion = Conclusion(
            config,
            self.settings,
            self.run,
            resources=self._resources,
            publisher=self._publisher,
            messages=self._messages,
            interruptions=self.interruptions,
            workers=self.workers,
            stages=stages,
        )

    def _open_stages(self) -> SessionStages | None:
        if self.settings.stages is None:
            return None
        # Looks load the analysis, which a session without stages needs only at its end.
        from pytest_crucible.session.stages import SessionStages

        return SessionStages(
            self.settings, self.run, lambda: self._resources.store, self.is_worker, lambda: self._expected
        )

    def _open_stage_plugin(self, stages: SessionStages) -> StagePlugin:
        from pytest_crucible.session.stage_plugin import StagePlugin

        return StagePlugin(self.config, stages, self.interruptions.check)

    def _open_estimate(self) -> EstimatePlugin | None:
        if not self.settings.estimate:
            return None
        from pytest_crucible.session.estimate_plugin import EstimatePlugin

        return EstimatePlugin(self.settings, self._collection, self._resources, self._messages)

    def run_later_stages(self, session: pytest.Session) -> None:
        """Run the later stages of a worker's experiments, when its items have run."""
        if self._stages is not None:
            self._stages.run_later_stages(session, self._plans_by_nodeid())

    def end_worker(self, node: Any, session: pytest.Session, *, died: bool) -> None:
        """Report a worker's later stages in the controller, and let the other workers stop waiting for it."""
        if self._stages is None or not self._messages.begun:
            return
        reports = self._stages.end_worker(node, self.workers, died=died)
        self.expect_verdicts(session)
        session.testscollected += len({report.nodeid for report in reports})
        self._tests_and_verdicts = session.testscollected
        for report in reports:
            self.config.hook.pytest_runtest_logreport(report=report)

    def _note_unsent(self, unsent: UnsentRequest) -> None:
        # The plugin needs the resources, which have this method.
        if self._estimate is not None:
            self._estimate.add_request(unsent)

    def register_plugins(self) -> None:
        """Register the plugins that this session has: its data checks, stages, estimate and messages."""
        self.config.pluginmanager.register(self._check_items, "crucible-checks")
        for name, plugin in (("crucible-stages", self._stages), ("crucible-estimate", self._estimate)):
            if plugin is not None:
                self.config.pluginmanager.register(plugin, name)
        self._register_notifier()

    def _register_notifier(self) -> None:
        """Register the plugin that sends messages, if the project has a table `[notify]`."""
        try:
            notifier = open_notifier(self.config, self.run, self._messages, self._open_budget)
        # Reported with all other errors of the configuration.
        except CrucibleError as error:
            self._messages.problems.append(str(error))
            return
        if notifier is not None and not self.settings.estimate and self.settings.sample is None:
            self.config.pluginmanager.register(notifier, "crucible-notifier")

    def _open_budget(self) -> Budget | None:
        shared = vars(self._resources).get("shared")
        return None if shared is None else shared.spending.run

    def _location(self) -> str:
        """Return the run store's location; paths count from pytest's root directory, wherever pytest is started."""
        where = self.settings.store
        return where if "://" in where else str(self.config.rootpath / where)

    def _limiters(self) -> Limiters:
        """Return the limiters that all workers of the run share: --crucible-concurrency is per run, not per worker."""
        worker = getattr(self.config, "workerinput", None)
        workers = Workers(self.run, worker["workercount"]) if worker else None
        return Limiters(ordinary=self.settings.concurrency, workers=workers)

    def _spending(self) -> Spending:
        """Return the prices of the project and the budget that all workers of the run share."""
        return open_spending(self.config, self.settings.budget, self.run)

    # -- collection ---------------------------------------------------------------------------------------------

    def remember_items(self, items: Sequence[pytest.Item]) -> None:
        """Remember all marked items before -k, -m and --lf remove any."""
        self._collection.marked.remember(items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Plan the selected items. Errors end the session here, before any request is sent."""
        # Planning imports what adapters, scorers and statistics need; garbage collection would slow these imports.
        with collecting_seldom():
            self._collection.plan_items(session.items)
            self._messages.begun = self._collection.store_plans(self.run)
        self._collection.put_first(session.items)
        self._sweep_items = self._open_sweep()
        self._messages.expected_verdicts = self._count_verdicts()
        self._expected = {item.nodeid for item in session.items if item.get_closest_marker("xfail")}
        if self._messages.begun and self._stages is not None:
            self._stages.order_items(session.items, self._plans_by_nodeid())
        problems = self._messages.problems
        if self._messages.begun and not problems:
            self._publisher.recorder.open(self._resources.writer)
        if self.is_worker:
            verdicts = self._messages.expected_verdicts
            family = "" if self._sweep_items is None else self._sweep_items.family
            message = {"run": self.run, "begun": self._messages.begun, "verdicts": verdicts, "family": family}
            announce_experiments(self.config, message)
        # In a worker, xdist would report this exception as an internal error.
        if problems and not self.is_worker:
            raise pytest.UsageError(self._hide("\n".join(map(printable, problems))))

    @property
    def guards(self) -> Guards:
        """The guards of the project, with the judges of this session."""
        return self._collection.guards

    def wait_for(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Return what a coroutine returns on the sampling loop."""
        return self._resources.loop.submit(coroutine).result()

    def plans(self) -> list[Plan]:
        """Return the plans of this session."""
        return self._collection.plans()

    def _plans_by_nodeid(self) -> dict[str, Plan]:
        return {plan.nodeid: plan for plan in self.plans()}

    def pytest_report_collectionfinish(self) -> list[str]:
        return [] if self.config.get_verbosity() < 0 else list(self._collection.lines.values())

    # -- running ------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Run a marked function as an experiment."""
        if not is_experiment(pyfuncitem):
            return None
        nodeid = collected_nodeid(pyfuncitem)
        experiment = self._collection.experiments.get(nodeid)
        self._collection.failures.raise_for(nodeid)
        if experiment is None or self._messages.errors:
            pytest.skip(self._skip_reason())
        if self._estimate is not None:
            self._estimate.estimate(pyfuncitem, experiment)
            return True
        if self.settings.sample is not None:
            self._run_single_sample(pyfuncitem, experiment, self.settings.sample)
            return True
        if self._stages is not None and self._stages.defer(pyfuncitem, experiment.plan):
            return True
        stage = None if self._stages is None else self._stages.begin_stage(pyfuncitem, experiment)
        try:
            shared = self._resources.shared
            show = progress_display(self.config, pyfuncitem.nodeid, lambda: shared.waits_for(time.monotonic()))
            with self.interruptions.defer_signals():
                self._run_experiment(pyfuncitem, experiment, show, stage)
        except CrucibleError as error:
            if isinstance(error, StoreError):
                self._messages.add_failures([error])
            # Known only from the first scores, but an error of the suite like those before the first request.
            if isinstance(error, UnsuitableMetric):
                self._messages.problems.append(str(error))
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        finally:
            emit_budgets(self._publisher.emit, self._resources.shared.spending, nodeid)
            self._messages.lines += scorer_reports()
        return True

    def _run_experiment(
        self, item: pytest.Function, experiment: Experiment, show: Show, stage: StageRun | None
    ) -> None:
        runner = self._runner()
        # In later stages the winner is the candidate already.
        if self._sweep_items is not None and (stage is None or stage.is_first):
            experiment = self._collection.experiments[collected_nodeid(item)] = self._sweep_items.with_winner(
                item,
                experiment,
                lambda choosing, rule, answered: runner(item, choosing, show, rule, answered=answered),
                self._resources.writer.flush,
            )
        runner(item, experiment, show, stage=stage)
        if self._stages is not None and stage is not None:
            self._stages.complete(experiment.plan, stage)

    def _open_sweep(self) -> SweepItems | None:
        """Return the tests of the session's sweep, if it has one and will run it."""
        if self._collection.sweep is None or not self._messages.begun or self._messages.problems:
            return None
        from pytest_crucible.session.sweep_items import SweepItems

        worker = getattr(self.config, "workerinput", {}).get("workerid")
        choice = self._collection.choice(self.run)
        items = SweepItems(choice, worker=worker, check_interrupt=self.interruptions.check)
        self.config.pluginmanager.register(items, "crucible-sweep")
        return items

    def report_lost_worker(self, worker: str) -> None:
        """Tell the other workers that one has died: they may wait for a winner that it was to choose."""
        from pytest_crucible.session.sweep_waiting import report_lost_worker

        for family in self.workers.families:
            report_lost_worker(self._resources.store, self.run, family, worker)

    def crucible(self, item: pytest.Item) -> Crucible:
        """The `crucible` fixture of one item of a joined test."""
        self._collection.failures.raise_for(function_nodeid(item))
        if self._messages.errors:
            pytest.skip(self._skip_reason())
        if self.settings.estimate:
            pytest.skip("not run: --crucible-estimate sends nothing, and a test that joins calls its model itself")
        return self._joined.crucible(item)

    def _skip_reason(self) -> str:
        return "not run: " + self._hide(next(iter(self._messages.errors), "this test was not planned as an experiment"))

    def _runner(self) -> ExperimentRunner:
        resources = self._resources
        return ExperimentRunner(
            self.run,
            self.settings,
            resources.store,
            resources.writer,
            resources.loop,
            self._observation_hook(),
            cache=resources.shared.cache,
            deadline=self._deadline,
            spending=resources.shared.spending,
            emit=self._publisher.sample_emit,
            check_interrupt=self.interruptions.check,
        )

    def _observation_hook(self) -> Callable[..., None] | None:
        """Return the hook to call with each observation; None if no plugin implements it."""
        hook = self.config.hook.pytest_crucible_observed
        return partial(hook, config=self.config) if hook.get_hookimpls() else None

    def _run_single_sample(self, item: pytest.Function, experiment: Experiment, sample_id: str) -> None:
        position = experiment.position(sample_id)
        if position is None:
            pytest.skip(f"no sample {sample_id!r} here")
        self._messages.lines += map(self._hide, run_single_sample(item, experiment, position, self._resources.loop))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Turn a joined item's wrong answer into an expected failure, store its observations, inform the controller."""
        report = yield
        owner = self._collection.marked.experiment_of(item)
        if owner is None:
            return report
        joined = self._collection.joined.get(owner)
        if joined is None and self._collection.has_verdicts(owner):
            self._expect_failure(owner, item, call, report)
        if joined is not None and not self._messages.errors:
            try:
                self._joined.observe(item, joined, call, report, self._observation_hook())
            # Reported once at the end, instead of by each item.
            except StoreError as error:
                self._messages.add_failures([error])
        self._messages.add_item(owner, collected_nodeid(item))
        if collected_nodeid(item) != item.nodeid:
            report.crucible_collected = collected_nodeid(item)  # type: ignore[attr-defined]  # read below
        if self.is_worker:
            report.crucible = self._worker_message(owner, collected_nodeid(item))  # type: ignore[attr-defined]  # xdist sends it along
        return report

    def _expect_failure(
        self, owner: str, item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport
    ) -> None:
        """Leave the marker `xfail` to the verdicts of an experiment."""
        expected = expected_failure(item)
        if expected is not None:
            self._messages.expected_failures[owner] = expected
            forget_unexpected_pass(report, call)

    def _worker_message(self, owner: str, item: str) -> dict[str, Any]:
        """Return what the controller has to know, each part once."""
        self._messages.add_complaints(self._publisher.pop_failures())
        line = self._collection.lines.pop(owner, None)
        return {
            "run": self.run,
            "owner": owner,
            "item": item,
            "line": line,
            **self._messages.pop_message(),
        }

    # -- counting -----------------------------------------------------------------------------------------------

    def expect_verdicts(self, session: pytest.Session) -> None:
        """Count the verdicts to come as tests: the progress in percent would fall when they are reported."""
        # xdist sets the number again whenever a worker has collected.
        if not self.is_worker and session.testscollected != self._tests_and_verdicts:
            session.testscollected += self._messages.expected_verdicts
            self._tests_and_verdicts = session.testscollected

    def _count_verdicts(self) -> int:
        plans = self._collection.plans() if self._messages.begun else []
        verdicts = sum(len(plan.targets) + sum(contrast.decides for contrast in plan.contrasts) for plan in plans)
        return verdicts + sum(map(len, self._check_items.results.values()))
