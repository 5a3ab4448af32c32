"""The end of a session: verdicts are decided, reports are written, and the summary is printed."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest

from pytest_crucible.records import Run
from pytest_crucible.records.errors import CrucibleError, StoreError
from pytest_crucible.report.printable import printable
from pytest_crucible.sample.garbage import setting_imports_aside
from pytest_crucible.session.late_imports import import_analysis
from pytest_crucible.session.resources import emit_budgets
from pytest_crucible.session.state import SessionState
from pytest_crucible.session.workers import WorkerReports, announce_stored


class Conclusion:
    """The plugin that ends a session. In a worker of pytest-xdist it decides nothing and stores the last rows."""

    def __init__(self, state: SessionState, workers: WorkerReports) -> None:
        self._state = state
        self._workers = workers
        self._concluded: Run | None = None

    def conclude(self, session: pytest.Session, *, interrupted: bool) -> None:
        """Analyse the stored replies, decide the verdicts, and report each as a test."""
        state = self._state
        state.interruptions.begin_ending(interrupted=interrupted)
        if interrupted:
            self._workers.interrupt(state.interruptions.received)
        if state.messages.errors:
            # The error may be one of those reported below.
            with contextlib.suppress(StoreError):
                state.resources.close_writer()
            raise pytest.UsageError(state.hide("\n".join(state.messages.errors)))
        if state.is_worker or state.settings.sample is not None or not state.messages.begun:
            return
        try:
            # A session whose replies took no time has not imported it yet.
            with setting_imports_aside(again=state.objects_are_aside):
                import_analysis(state.config, state.collection.plans())
            from pytest_crucible.session import finish

            emit_budgets(state.publisher.request_emit(), state.resources.shared.spending)
            state.publisher.recorder.close()
            state.resources.close_writer()
            state.resources.store_request_counts(state.run)
            if state.hide.finds_late():
                from pytest_crucible.store.prune import redact_again

                redact_again(state.resources.store, state.run, state.hide)
            state.config.hook.pytest_crucible_sampled(interrupted=interrupted)
            if state.config.hook.pytest_crucible_conclude_instead(state=state, interrupted=interrupted):
                return
            self._concluded = finish.decide_verdicts(
                state.config, state.settings, state.resources.store, state.run, interrupted=interrupted
            )
        except CrucibleError as error:
            raise pytest.UsageError(state.hide(str(error))) from error
        self._concluded = finish.with_verdict_facts(state.config, state.settings, self._concluded)
        finish.report_verdicts(session, state.settings, self._concluded, state.messages)
        state.interruptions.check()

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the reports. The exit status is known only now."""
        state = self._state
        if self._concluded is not None:
            from pytest_crucible.session import finish

            self._concluded = run = dataclasses.replace(self._concluded, exit_status=int(exitstatus))
            try:
                state.resources.store.set_exit_status(state.run, run.exit_status)
            # Verdicts are already decided, so they are reported despite the error.
            except StoreError as error:
                state.messages.lines.append(f"the exit status of run {state.run} is not stored: {error}")
            self._concluded = run = finish.with_run_facts(state.config, state.settings, run)
            state.messages.lines += finish.finish_lines(state.config, state.settings, run)
            state.config.hook.pytest_crucible_concluded(config=state.config, run=run)
        if state.is_worker:
            self._finish_worker()
        state.publisher.close()
        state.resources.close_writer()

    def _finish_worker(self) -> None:
        """Store a worker's last rows; errors go to the controller with the worker's output, since no report follows."""
        state = self._state
        try:
            if state.messages.begun and not state.messages.errors:
                emit_budgets(state.publisher.emit, state.resources.shared.spending)
                state.resources.store_request_counts(state.run)
            state.publisher.recorder.close()
            state.resources.close_writer()
        except CrucibleError as error:
            state.config.workeroutput["crucible_failures"] = [state.hide(str(error))]  # type: ignore[attr-defined]  # xdist's
        announce_stored(state.config)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        state = self._state
        from pytest_crucible.session import finish

        state.messages.add_complaints(state.publisher.pop_failures())
        scorer_reports, width = [*state.messages.lines, *state.messages.complaints], terminalreporter._tw.fullwidth
        lines = finish.summary_lines(
            self._concluded, scorer_reports, verbosity=state.config.get_verbosity(), width=width
        )
        if lines:
            terminalreporter.write_sep("=", "crucible")
        for line in lines:
            terminalreporter.write_line(printable(state.hide(line.text)), **line.markup)
        for annotation in finish.github_annotations(self._concluded, state.settings) if self._concluded else ():
            terminalreporter.write_line(state.hide(annotation))

    def pytest_unconfigure(self) -> None:
        self._state.resources.close()
