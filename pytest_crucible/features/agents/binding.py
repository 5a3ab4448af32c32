"""Binds the endpoint to the units of an experiment, and opens its server in the first of them."""

from __future__ import annotations

import inspect
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any

import pytest

from pytest_crucible.features.agents import sent_calls
from pytest_crucible.features.agents.endpoint import BlockingEndpoint, Endpoint
from pytest_crucible.features.agents.environments import Host
from pytest_crucible.features.agents.programs import UnitPrograms
from pytest_crucible.features.agents.roles import check_roles
from pytest_crucible.features.agents.server import EndpointServer, Seat
from pytest_crucible.features.agents.session_lines import show_line
from pytest_crucible.features.agents.tools import Journal, Recordings
from pytest_crucible.features.agents.unit_calls import UnitCalls
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.sample.loop import BackgroundLoop
from pytest_crucible.session.experiment import BoundUnit, ExperimentDraft, ExperimentRun
from pytest_crucible.session.experiment_checks import check_fixture
from pytest_crucible.session.redaction import key_redactor
from pytest_crucible.stats.number_format import quantity

ENDPOINT = "endpoint"
_HOST = pytest.StashKey[Host]()
_SERVER = pytest.StashKey[EndpointServer]()
_MAX_CALLS = "max_calls"
# Longer than an async function computes between two awaits, shorter than a developer waits.
BLOCKED_S = 10.0


def bind_endpoint(draft: ExperimentDraft) -> None:
    """Add the argument `endpoint` to the draft. Raises SpecError."""
    check_fixture(draft.item, ENDPOINT)
    check_roles(draft.arms)
    most = draft.mark.features.get(_MAX_CALLS)
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise SpecError(f"@pytest.mark.crucible has max_calls={most!r}: write a whole number of at least 1")
    draft.plan_value(sent_calls.ENDPOINT, True)
    if most is not None:
        draft.sampling[_MAX_CALLS] = most
    draft.arguments[ENDPOINT] = _EndpointOf(
        draft.config, most, inspect.iscoroutinefunction(draft.function), _host(draft)
    )


@dataclass(frozen=True)
class _EndpointOf:
    """Returns the endpoint of a unit."""

    config: pytest.Config
    most: int | None
    is_async: bool
    host: Host
    recordings: Recordings = field(default_factory=Recordings)

    def __call__(self, bound: BoundUnit) -> Endpoint | BlockingEndpoint:
        server = _open_server(self.config, bound.loop)
        calls = UnitCalls(bound, self.most, server.seats)
        bound.on_enter.append(calls.enter)
        bound.blames_arm = calls.blames_arm
        bound.on_close.append(calls.close)
        programs = UnitPrograms(bound, self.host)
        # Programs end first: a call that they send then is none of the agent's.
        bound.on_close.append(programs.close)
        seat = Seat(calls, bound.sampler, bound.sampler.arm.name)
        endpoint_class = Endpoint if self.is_async else BlockingEndpoint
        return endpoint_class(server, seat, programs, Journal(bound, self.recordings))


def _host(draft: ExperimentDraft) -> Host:
    """Return this process as its agents may see it: one for all experiments of a session."""
    hide_keys = key_redactor(draft.config).hide_keys
    return draft.config.stash.setdefault(_HOST, Host(hide_keys, draft.settings.concurrency))


def note_keys(config: pytest.Config) -> None:
    """Emit a line on the keys that programs did not get, once in a session."""
    host = config.stash.get(_HOST, None)
    if host is not None and (line := host.pop_note()):
        show_line(config, line)


def _open_server(config: pytest.Config, loop: BackgroundLoop) -> EndpointServer:
    """Return the session's server, opened in the first unit that needs it. Raises OSError."""
    if _SERVER not in config.stash:
        config.stash[_SERVER] = EndpointServer()
        config.stash[_SERVER].open(loop)
    return config.stash[_SERVER]


def watch_loop(run: ExperimentRun) -> None:
    """End the run of a function that blocks the loop: its own requests could never be answered."""
    run.on_tick.append(_LoopWatch(run, run.item.config))
    run.after.append(lambda: _show_notes(run))


def _show_notes(run: ExperimentRun) -> None:
    """Show which tools arms did not get, and how many requests came late: of agents that went on, or that keep an old address."""
    server = run.item.config.stash.get(_SERVER, None)
    if server is not None and server.left_out:
        types = ", ".join(sorted(server.left_out))
        show_line(
            run.item.config, f"{run.item.name}: arms were not offered {types}, which only a provider's servers run"
        )
        server.left_out.clear()
    if server is not None and server.late:
        show_line(
            run.item.config,
            f"{run.item.name}: {quantity(server.late, 'request')} came to the endpoint after the end of their sample, and "
            "got no reply: end what the function has started, and make a client for each sample",
        )
        server.late = 0
    run.after.append(partial(note_keys, run.item.config))


@dataclass(eq=False)
class _LoopWatch:
    """Looks from the main thread whether the sampling loop runs."""

    run: ExperimentRun
    config: pytest.Config
    _beat: float = field(default_factory=time.monotonic)
    _is_due: bool = True

    def __call__(self) -> None:
        """Raise SpecError where the function has blocked the loop for long."""
        server = self.config.stash.get(_SERVER, None)
        if server is None:
            return
        if self._is_due:
            self._is_due = False
            server.loop.call_soon_threadsafe(self._note)
        if time.monotonic() - self._beat > BLOCKED_S and _is_running(self.run.experiment.function):
            # The experiments after this one get another server.
            del self.config.stash[_SERVER]
            server.interrupt()
            name = self.run.item.originalname
            raise SpecError(
                f"async def {name} calls its agent without await, so that no request can be answered: write def {name}, or "
                "await the client's asynchronous form"
            )

    def _note(self) -> None:
        self._beat, self._is_due = time.monotonic(), True


def _is_running(function: Callable[..., Any]) -> bool:
    """Return whether the thread of the sampling loop is within a function."""
    thread = next((thread for thread in threading.enumerate() if thread.name == "crucible-loop"), None)
    frame = sys._current_frames().get(thread.ident or 0) if thread else None
    code = inspect.unwrap(function).__code__
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
