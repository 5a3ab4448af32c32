"""The end of a session: verdicts are decided, reports are written, and the summary is printed."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest

from pytest_crucible.records import Run
from pytest_crucible.records.errors import CrucibleError, StoreError
from pytest_crucible.records.settings import Settings
from pytest_crucible.report.printable import printable
from pytest_crucible.session.budget import emit_budgets
from pytest_crucible.session.events import EventPublisher
from pytest_crucible.session.interruptions import Interruptions
from pytest_crucible.session.messages import Messages
from pytest_crucible.session.redaction import key_redactor
from pytest_crucible.session.resources import Resources
from pytest_crucible.session.worker_links import announce_stored
from pytest_crucible.session.worker_reports import WorkerReports


class Conclusion:
    """The plugin that ends a session. In a worker of pytest-xdist it decides nothing and stores the last rows."""

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        run: str,
        *,
        resources: Resources,
        publisher: EventPublisher,
        messages: Messages,
        interruptions: Interruptions,
        workers: WorkerReports,
    ) -> None:
        self._config = config
        self._settings = settings
        self._run = run
        self._resources = resources
        self._publisher = publisher
        self._messages = messages
        self._interruptions = interruptions
        self._workers = workers
        self._is_worker = hasattr(config, "workerinput")
        self._hide = key_redactor(config)
        self._concluded: Run | None = None

    def conclude(self, session: pytest.Session, *, interrupted: bool) -> None:
        """Analyse the stored replies, decide the verdicts, and report each as a test."""
        self._interruptions.begin_ending(interrupted=interrupted)
        if interrupted:
            self._workers.interrupt(self._interruptions.received)
        if self._messages.errors:
            # The error may be one of those reported below.
            with contextlib.suppress(StoreError):
                self._resources.close_writer()
            raise pytest.UsageError(self._hide("\n".join(self._messages.errors)))
        if self._is_worker or self._settings.sample is not None or not self._messages.begun:
            return
        from pytest_crucible.session import finish

        try:
            emit_budgets(self._publisher.request_emit(), self._resources.shared.spending)
            self._publisher.recorder.close()
            self._resources.close_writer()
            self._resources.store_request_counts(self._run)
            if self._hide.finds_late():
                from pytest_crucible.store.prune import redact_again

                redact_again(self._resources.store, self._run, self._hide)
            self._config.hook.pytest_crucible_sampled(interrupted=interrupted)
            self._concluded = finish.decide_verdicts(
                self._config, self._settings, self._resources.store, self._run, interrupted=interrupted
            )
        except CrucibleError as error:
            raise pytest.UsageError(self._hide(str(error))) from error
        finish.report_verdicts(session, self._settings, self._concluded, self._messages)
        self._interruptions.check()

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the reports. The exit status is known only now."""
        if self._concluded is not None:
            from pytest_crucible.session import finish

            self._concluded = run = dataclasses.replace(self._concluded, exit_status=int(exitstatus))
            try:
                self._resources.store.set_exit_status(self._run, run.exit_status)
            # Verdicts are already decided, so they are reported despite the error.
            except StoreError as error:
                self._messages.lines.append(f"the exit status of run {self._run} is not stored: {error}")
            self._messages.lines += finish.finish_lines(self._config, self._settings, run)
            self._config.hook.pytest_crucible_concluded(config=self._config, run=run)
        if self._is_worker:
            self._finish_worker()
        self._publisher.close()
        self._resources.close_writer()

    def _finish_worker(self) -> None:
        """Store a worker's last rows; errors go to the controller with the worker's output, since no report follows."""
        try:
            if self._messages.begun and not self._messages.errors:
                emit_budgets(self._publisher.emit, self._resources.shared.spending)
                self._resources.store_request_counts(self._run)
            self._publisher.recorder.close()
            self._resources.close_writer()
        except CrucibleError as error:
            self._config.workeroutput["crucible_failures"] = [self._hide(str(error))]  # type: ignore[attr-defined]  # xdist's
        announce_stored(self._config)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        from pytest_crucible.session import finish

        self._messages.add_complaints(self._publisher.pop_failures())
        scorer_reports, width = [*self._messages.lines, *self._messages.complaints], terminalreporter._tw.fullwidth
        lines = finish.summary_lines(
            self._concluded, scorer_reports, verbosity=self._config.get_verbosity(), width=width
        )
        if lines:
            terminalreporter.write_sep("=", "crucible")
        for line in lines:
            terminalreporter.write_line(printable(self._hide(line.text)), **line.markup)
        for annotation in finish.github_annotations(self._concluded, self._settings) if self._concluded else ():
            terminalreporter.write_line(self._hide(annotation))

    def pytest_unconfigure(self) -> None:
        self._resources.close()
