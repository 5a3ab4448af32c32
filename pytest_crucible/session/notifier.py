"""Sends one message when a run ends, misses, breaks, or has spent a share of its budget."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading

import pytest

from pytest_crucible.adapters.config_tables import read_table
from pytest_crucible.backends.budget import Budget
from pytest_crucible.records import Run
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.files import runtime_folder
from pytest_crucible.session.state import SessionState
from pytest_crucible.telemetry.notices import Notice, NotifySettings, read_notify_settings, secret_parts, send_notices

LOOK_S = 0.5  # a budget lasts minutes: reading the ledger twice a second costs nothing beside it
# pytest's exit statuses of sessions that did not judge.
_BROKEN = {2: "was interrupted", 3: "ended with an internal error", 4: "was refused or its run store failed"}


def open_notifier(state: SessionState) -> Notifier | None:
    """Return the plugin that sends messages; None without a table `[notify]`, or if the session gives no verdicts."""
    try:
        settings = read_notify_settings(read_table(state.config.rootpath, "notify"))
    # Reported with all other errors of the configuration.
    except CrucibleError as error:
        state.messages.problems.append(str(error))
        return None
    if not settings.variables:
        return None
    for variable in settings.variables:
        state.hide.learn(*secret_parts(os.environ.get(variable, "")))
    notifier = Notifier(state, settings)
    return notifier if state.settings.sample is None and state.resources.sends else None


class Notifier:
    """A pytest plugin that sends the messages of a session."""

    def __init__(self, state: SessionState, settings: NotifySettings) -> None:
        self._state = state
        self._settings = settings
        self._concluded: Run | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch_budget, daemon=True)
        if settings.budget_to:
            digest = hashlib.sha256(f"{state.run} notice".encode()).hexdigest()[:24]
            self._sent = runtime_folder() / f"notice-{digest}"
            """Exists once the message on the budget is sent: workers of xdist share one budget."""
            self._thread.start()

    def pytest_crucible_concluded(self, run: Run) -> None:
        self._concluded = run

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Send the messages at the end of the run; each failure becomes a line of the summary."""
        state = self._state
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._settings.budget_to:
            self._check_budget()
            if not state.is_worker:
                self._sent.unlink(missing_ok=True)
        if state.is_worker:
            return
        if self._concluded is not None or state.messages.begun or state.messages.errors:
            self._send(*self._end_notices(int(exitstatus)))

    def _end_notices(self, status: int) -> list[Notice]:
        state = self._state
        run = self._concluded
        missed = [verdict for verdict in run.verdicts if verdict.state == "missed"] if run else []
        events = {"ended"} | ({"missed"} if missed else set())
        if run is None or status in _BROKEN:
            events.add("broken")
            title = f"run {state.run} {_BROKEN.get(status, 'was not decided')}"
        else:
            title = f"run {state.run}: {len(missed)} of {len(run.verdicts)} verdicts missed"
        lines = [f"{verdict.nodeid.rpartition('::')[2]}: {verdict.subject}: missed" for verdict in missed]
        body = "\n".join(lines or state.messages.errors or ["no verdict is missed" if run else "no verdicts"])
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
        # A session that has opened no adapter has spent nothing, and must not open them for a message.
        shared = vars(self._state.resources).get("shared")
        budget: Budget | None = None if shared is None else shared.spending.run
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
            self._notice(self._settings.budget_to, f"run {self._state.run}: {budget}", f"of a budget of {budget.text}")
        )
        return True

    def _notice(self, variable: str, title: str, body: str) -> Notice:
        return Notice(variable, self._state.hide(f"crucible: {title}"), self._state.hide(body))

    def _send(self, *notices: Notice) -> None:
        self._state.messages.add_complaints(send_notices(notices, os.environ))
