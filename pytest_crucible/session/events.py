"""Publishes session events to hook implementations, OpenTelemetry and the run store."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import cached_property, partial
from typing import Any

import pytest

from pytest_crucible.backends.context import ignore_event
from pytest_crucible.records import Arm, Emit, Event, Outcome, Plan, Unit
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.redaction import key_redactor
from pytest_crucible.store.writer import Recorder
from pytest_crucible.telemetry.listeners import Listeners, redact_event

Ask = Callable[[Unit], Awaitable[Outcome]]


class EventPublisher:
    """Sends the session's events to hooks, OpenTelemetry and the run store.

    Listeners are looked up when planning starts, because conftest files may load until then.
    """

    def __init__(self, config: pytest.Config, settings: Settings, run: str) -> None:
        self.recorder = Recorder(run, stores_texts=settings.trace == "on")
        self._config = config
        self._settings = settings
        self._run = run

    @cached_property
    def emit(self) -> Listeners:
        """Sends an event to all listeners. Raises SpecError if OpenTelemetry cannot be used."""
        # Hooks log and export what they receive.
        hide = key_redactor(self._config) if key_redactor(self._config).redacts_findings else None
        listeners: dict[str, Any] = dict(_implementations(self._config, hide))
        if self._settings.otel:
            from pytest_crucible.telemetry.otel import OpenTelemetry

            listeners["OpenTelemetry"] = OpenTelemetry(self._run, key_redactor(self._config))
        return Listeners({**listeners, "the run store": self.recorder})

    def request_emit(self) -> Emit:
        """Return the receiver of the events of requests. A controller of xdist workers sends no requests and has no events."""
        return ignore_event if self._config.pluginmanager.hasplugin("dsession") else self.emit

    @property
    def sample_emit(self) -> Emit | None:
        """Receiver of the events of samples and experiments; None if only the run store listens, which has tables for them."""
        return self.emit if self.emit.listens_to("sample.start") else None

    def pop_failures(self) -> list[str]:
        """Return a sentence for each listener that raised since the last call."""
        return self.emit.pop_failures() if "emit" in self.__dict__ else []

    def close(self) -> None:
        """Close all listeners. Idempotent."""
        self.recorder.close()
        if "emit" in self.__dict__:
            self.emit.close()


def _implementations(config: pytest.Config, hide: Callable[[str], str] | None) -> Iterator[tuple[str, Emit]]:
    """Yield a name and a function for each implementation of the hook: if one raises, the others continue.

    `hide` redacts the texts of events; None leaves them.
    """
    plugins, name = config.pluginmanager, "pytest_crucible_event"
    implementing = [hookimpl.plugin for hookimpl in getattr(config.hook, name).get_hookimpls()]
    for plugin in implementing:
        # pluggy stops at an implementation that raises, so each is called alone.
        others = [other for other in implementing if other is not plugin]
        call = plugins.subset_hook_caller(name, others)
        yield f"{name} in {plugins.get_name(plugin) or plugin!r}", partial(_call, call, config, hide)


def _call(hook: Any, config: pytest.Config, hide: Callable[[str], str] | None, event: Event) -> None:
    hook(config=config, event=event if hide is None else redact_event(event, hide))


# -- events that the engine does not emit itself ---------------------------------------------------------------------


@contextlib.contextmanager
def experiment_span(emit: Emit | None, plan: Plan) -> Iterator[None]:
    """Emit events when an experiment starts and stops."""
    if emit is None:
        yield
        return
    make_event = partial(Event, experiment=plan.nodeid)
    # Not the wall clock: if it is set back, the duration becomes negative.
    began = time.monotonic()
    facts = {"dataset": plan.dataset, "samples": plan.selected, "arms": [arm.name for arm in plan.arms]}
    emit(make_event(name="experiment.start", at=time.time(), facts=facts))
    try:
        yield
    finally:
        emit(make_event(name="experiment.stop", at=time.time(), seconds=time.monotonic() - began))


def with_sample_spans(emit: Emit | None, ask: Ask, plan: Plan, name: Callable[[int], str]) -> Ask:
    """Return `ask` with events when each sample starts and stops; `name` returns the id of a position."""
    if emit is None:
        return ask

    draws = [plan.draws(number) for number in range(len(plan.arms))]

    async def query_in_span(unit: Unit) -> Outcome:
        repeat = draws[unit.arm].place(unit.variant, unit.repeat)
        span = SampleSpan(emit, plan, plan.arms[unit.arm], name(unit.position), repeat)
        outcome: Outcome | None = None
        try:
            outcome = await ask(unit)
        finally:
            span.stop(outcome)
        return outcome

    return query_in_span


class SampleSpan:
    """Emits that a sample starts, and then that it stops."""

    def __init__(self, emit: Emit, plan: Plan, arm: Arm, sample: str, repeat: int = 0) -> None:
        self._emit = emit
        self._event = partial(Event, experiment=plan.nodeid, arm=arm.name, sample=sample, repeat=repeat)
        self._began = time.monotonic()
        facts = {"adapter": arm.adapter, "parameters": dict(arm.parameters)}
        emit(self._event(name="sample.start", at=time.time(), facts=facts))

    def stop(self, outcome: Outcome | None) -> None:
        """Emit the outcome of the sample; None if it was cancelled."""
        seconds = time.monotonic() - self._began
        self._emit(self._event(name="sample.stop", at=time.time(), seconds=seconds, facts=_outcome_facts(outcome)))


def _outcome_facts(outcome: Outcome | None) -> dict[str, Any]:
    if outcome is None:
        return {"outcome": "cancelled"}
    if outcome.lost:
        return {"outcome": "lost", "reason": outcome.lost}
    if outcome.failure:
        return {"outcome": "failed", "reason": outcome.failure}
    return {"outcome": "skipped" if outcome.skipped else "answered"}
