"""The session, the one stateful object: opened when a marked item is collected, closed when pytest ends."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_crucible import builtin
from pytest_crucible.adapters.config_tables import read_table
from pytest_crucible.features import register_features
from pytest_crucible.records import Plan
from pytest_crucible.records.errors import CrucibleError, StoreError
from pytest_crucible.report.printable import printable
from pytest_crucible.sample.garbage import collecting_seldom, set_objects_aside
from pytest_crucible.session.conclusion import Conclusion
from pytest_crucible.session.experiment_items import ExperimentItems, observation_hook
from pytest_crucible.session.failures import expected_failure, forget_unexpected_pass
from pytest_crucible.session.items import collected_nodeid, function_nodeid
from pytest_crucible.session.joined_items import Crucible, JoinedItems
from pytest_crucible.session.state import SessionState, open_state
from pytest_crucible.session.workers import WorkerReports, announce_experiments

if TYPE_CHECKING:
    from pytest_crucible.session.notifier import Notifier

Result = TypeVar("Result")
SESSION = pytest.StashKey["CrucibleSession"]()


def open_session(config: pytest.Config, run: str | None = None, *, objects_are_aside: bool = False) -> CrucibleSession:
    """Return the session of this process, opened if necessary. Raises pytest.UsageError for invalid options."""
    session = config.stash.get(SESSION, None)
    if session is None:
        session = CrucibleSession(open_state(config, run, objects_are_aside=objects_are_aside))
        config.stash[SESSION] = session
        config.pluginmanager.register(session, "crucible-session")
        config.pluginmanager.register(session.interruptions, "crucible-interruptions")
        config.pluginmanager.register(session.conclusion, "crucible-conclusion")
        config.pluginmanager.register(builtin, "crucible-builtin")
        register_features(config.pluginmanager)
        config.hook.pytest_crucible_open(session=session)
        config.pluginmanager.register(session.collection.unusable_store, "crucible-unusable-store")
        notifier = _open_notifier(session.state)
        if notifier is not None:
            config.pluginmanager.register(notifier, "crucible-notifier")
    return session


def _open_notifier(state: SessionState) -> Notifier | None:
    """Return the plugin that sends messages; None for a project without a table `[notify]`, which imports nothing for it."""
    # A file that cannot be read is reported when the notifier is opened.
    with contextlib.suppress(CrucibleError):
        if not read_table(state.config.rootpath, "notify"):
            return None
    from pytest_crucible.session.notifier import open_notifier

    return open_notifier(state)


def session_of(config: pytest.Config) -> CrucibleSession | None:
    """Return the session of this process; None if it is not open."""
    return config.stash.get(SESSION, None)


class CrucibleSession:
    """Plans and runs experiments; in the main process it also decides the verdicts. A pytest plugin, registered when opened.

    Under xdist a worker plans and runs, and its reports carry one small message; the controller opens its session when
    the first of them arrives, and decides from the run store as a plain session does.
    """

    def __init__(self, state: SessionState) -> None:
        self.state, self.config = state, state.config
        self.settings, self.run, self.is_worker = state.settings, state.run, state.is_worker
        self.interruptions, self.resources = state.interruptions, state.resources
        self.collection, self.messages = state.collection, state.messages
        self.xfail_items: set[str] = set()
        """The node ids of the items whose misses are expected failures."""
        self._tests_and_verdicts = -1
        self._joined = JoinedItems(state)
        self.items = ExperimentItems(state)
        self.workers = WorkerReports(self.config, self.messages)
        self.conclusion = Conclusion(state, self.workers)

    def report_items(self, session: pytest.Session, reports: Sequence[pytest.TestReport]) -> None:
        """Report items that ran outside of pytest's loop, such as those of a worker's later stages, and count them as tests."""
        self.expect_verdicts(session)
        session.testscollected += len({report.nodeid for report in reports})
        self._tests_and_verdicts = session.testscollected
        for report in reports:
            self.config.hook.pytest_runtest_logreport(report=report)

    # -- collection ---------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Plan the selected items. Errors end the session at this point, before any request is sent."""
        # Planning imports what adapters, scorers and statistics need; garbage collection would slow these imports.
        with collecting_seldom():
            self.collection.plan_items(session.items)
            self.messages.begun = self.collection.store_plans(self.run)
        plans = self.plans() if self.messages.begun else []
        self.messages.expected_verdicts = sum(
            len(plan.targets) + sum(contrast.decides for contrast in plan.contrasts) for plan in plans
        )
        self.messages.further_reports = sum(self.config.hook.pytest_crucible_count_reports(config=self.config))
        self.xfail_items = {item.nodeid for item in session.items if item.get_closest_marker("xfail")}
        if self.messages.begun:
            self.config.hook.pytest_crucible_begin(session=self, items=session.items)
        problems = self.messages.problems
        if self.messages.begun and not problems:
            self.state.publisher.recorder.open(self.resources.writer)
            if self.state.objects_are_aside:
                set_objects_aside(again=True)
        if self.is_worker:
            counts = {"verdicts": self.messages.expected_verdicts, "reports": self.messages.further_reports}
            announce_experiments(self.config, {"run": self.run, "begun": self.messages.begun, **counts})
        # In a worker, xdist would report this exception as an internal error.
        if problems and not self.is_worker:
            raise pytest.UsageError(self.state.hide("\n".join(map(printable, problems))))

    def wait_for(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the sampling loop and return its result."""
        return self.resources.loop.submit(coroutine).result()

    def plans(self) -> list[Plan]:
        """Return the plans of this session."""
        return self.collection.plans()

    def plans_by_nodeid(self) -> dict[str, Plan]:
        """Return the plans of this session by nodeid."""
        return {plan.nodeid: plan for plan in self.plans()}

    def pytest_report_collectionfinish(self) -> list[str]:
        return [] if self.config.get_verbosity() < 0 else list(self.collection.lines.values())

    # -- running ------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Run a marked function as an experiment."""
        return self.items.run_item(pyfuncitem)

    def crucible(self, item: pytest.Item) -> Crucible:
        """Return the `crucible` fixture of one item of a joined test."""
        self.collection.failures.raise_for(function_nodeid(item))
        if self.messages.errors:
            pytest.skip(self.items.skip_reason())
        self.config.hook.pytest_crucible_join(session=self, item=item)
        return self._joined.crucible(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Turn a joined item's wrong answer into an expected failure, store its observations, inform the controller."""
        report = yield
        owner = self.collection.marked.experiment_of(item)
        if owner is None:
            return report
        joined = self.collection.joined.get(owner)
        if joined is None and self.collection.has_verdicts(owner) and (expected := expected_failure(item)) is not None:
            # The verdicts of an experiment are expected to fail, and not its item.
            self.messages.expected_failures[owner] = expected
            forget_unexpected_pass(report, call)
        if joined is not None and not self.messages.errors:
            with self._gather_store_errors():
                self._joined.observe(item, joined, call, report, observation_hook(self.config))
        self.messages.add_item(owner, collected_nodeid(item))
        if collected_nodeid(item) != item.nodeid:
            report.crucible_collected = collected_nodeid(item)  # type: ignore[attr-defined]  # read below
        if self.is_worker:
            report.crucible = self._worker_message(owner, collected_nodeid(item))  # type: ignore[attr-defined]  # xdist sends it along
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Store a joined item that is lost, when no further attempt of it follows."""
        try:
            return (yield)
        finally:
            joined = self.collection.joined.get(function_nodeid(item))
            if joined is not None and not self.messages.errors:
                with self._gather_store_errors():
                    self._joined.finish(item, joined, observation_hook(self.config))

    @contextlib.contextmanager
    def _gather_store_errors(self) -> Iterator[None]:
        """Report a failed write once at the end, instead of by each item."""
        try:
            yield
        except StoreError as error:
            self.messages.add_failures([error])

    def _worker_message(self, owner: str, item: str) -> dict[str, Any]:
        """Return the message to the controller, each part once."""
        self.messages.add_complaints(self.state.publisher.pop_failures())
        line = self.collection.lines.pop(owner, None)
        return {
            "run": self.run,
            "owner": owner,
            "item": item,
            "line": line,
            **self.messages.pop_message(),
        }

    # -- counting -----------------------------------------------------------------------------------------------

    def expect_verdicts(self, session: pytest.Session) -> None:
        """Count the reports to come as tests: the progress in percent would fall when they are reported."""
        # xdist sets the number again whenever a worker has collected.
        if not self.is_worker and session.testscollected != self._tests_and_verdicts:
            session.testscollected += self.messages.expected_verdicts + self.messages.further_reports
            self._tests_and_verdicts = session.testscollected
