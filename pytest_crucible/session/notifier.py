"""Sends one message when a run ends, misses, breaks, or has spent a share of its budget."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable

import pytest

from pytest_crucible.adapters.config_tables import read_table
from pytest_crucible.backends.budget import Budget
from pytest_crucible.records import Run
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.files import runtime_folder
from pytest_crucible.session.messages import Messages
from pytest_crucible.session.redaction import key_redactor
from pytest_crucible.session.resources import Resources
from pytest_crucible.telemetry.notices import Notice, NotifySettings, read_notify_settings, secret_parts, send_notices

LOOK_S = 0.5  # a budget lasts minutes: reading the ledger twice a second costs nothing beside it
# pytest's exit statuses of sessions that did not judge.
_BROKEN = {2: "was interrupted", 3: "ended with an internal error", 4: "was refused or its run store failed"}


def open_notifier(
    config: pytest.Config, run: str, messages: Messages, resources: Resources, *, sends: bool
) -> Notifier | None:
    """Return the plugin that sends messages; None without a table `[notify]`, or if the session gives no verdicts."""

    def open_budget() -> Budget | None:
        # A session that has opened no adapter has spent nothing, and must not open them for a message.
        shared = vars(resources).get("shared")
        return None if shared is None else shared.spending.run

    try:
        notifier = _open(config, run, messages, open_budget)
    # Reported with all other errors of the configuration.
    except CrucibleError as error:
        messages.problems.append(str(error))
        return None
    return notifier if sends and resources.sends else None


def _open(config: pytest.Config, run: str, messages: Messages, budget: Callable[[], Budget | None]) -> Notifier | None:
    settings = read_notify_settings(read_table(config.rootpath, "notify"))
    if not settings.variables:
        return None
    for variable in settings.variables:
        key_redactor(config).learn(*secret_parts(os.environ.get(variable, "")))
    return Notifier(config, settings, run, messages, budget)


class Notifier:
    """A pytest plugin. `budget` returns the budget of the run once one is open."""

    def __init__(
        self,
        config: pytest.Config,
        settings: NotifySettings,
        run: str,
        messages: Messages,
        budget: Callable[[], Budget | None],
    ) -> None:
        self._settings = settings
        self._run = run
        self._messages = messages
        self._budget = budget
        self._hide = key_redactor(config)
        self._is_worker = hasattr(config, "workerinput")
        self._concluded: Run | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch_budget, daemon=True)
        if settings.budget_to:
            digest = hashlib.sha256(f"{run} notice".encode()).hexdigest()[:24]
            self._sent = runtime_folder() / f"notice-{digest}"
            """Exists once the message on the budget is sent: workers of xdist share one budget."""
            self._thread.start()

    def pytest_crucible_concluded(self, run: Run) -> None:
        self._concluded = run

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Send the messages at the end of the run; each failure becomes a line of the summary."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._settings.budget_to:
            self._check_budget()
            if not self._is_worker:
                self._sent.unlink(missing_ok=True)
        if self._is_worker:
            return
        if self._concluded is not None or self._messages.begun or self._messages.errors:
            self._send(*self._end_notices(int(exitstatus)))

    def _end_notices(self, status: int) -> list[Notice]:
        run = self._concluded
        missed = [verdict for verdict in run.verdicts if verdict.state == "missed"] if run else []
        events = {"ended"} | ({"missed"} if missed else set())
        if run is None or status in _BROKEN:
            events.add("broken")
            title = f"run {self._run} {_BROKEN.get(status, 'was not decided')}"
        else:
            title = f"run {self._run}: {len(missed)} of {len(run.verdicts)} verdicts missed"
        lines = [f"{verdict.nodeid.rpartition('::')[2]}: {verdict.subject}: missed" for verdict in missed]
        body = "\n".join(lines or self._messages.errors or ["no verdict is missed" if run else "no verdicts"])
        endings = self._settings.endings
        return [self._notice(endings[event], title, body) for event in endings if event in events]

    def _watch_budget(self) -> None:
        while not self._stop.wait(LOOK_S):
            # A ledger that is not open yet, or closed by now: the last look is at the end.
            with contextlib.suppress(OSError, ValueError):
                if self._check_budget():
                    return

    def _check_budget(self) -> bool:
        """Send the message once the share is spent; return whether it was."""
        budget = self._budget()
        if budget is None:
            return False
        shares = [spent / limit for spent, limit in zip(budget.spent(), budget.limit, strict=True) if limit]
        if not shares or max(shares) < self._settings.budget_share - 1e-9:
            return False
        try:
            self._sent.touch(exist_ok=False)
        except FileExistsError:
            return True
        self._send(
            self._notice(self._settings.budget_to, f"run {self._run}: {budget}", f"of a budget of {budget.text}")
        )
        return True

    def _notice(self, variable: str, title: str, body: str) -> Notice:
        return Notice(variable, self._hide(f"crucible: {title}"), self._hide(body))

    def _send(self, *notices: Notice) -> None:
        self._messages.add_complaints(send_notices(notices, os.environ))
