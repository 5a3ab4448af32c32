"""To whom a session tells what happens: implementations of the hook, OpenTelemetry, and the run store."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import cached_property, partial
from typing import Any

import pytest

from pytest_crucible.options import Settings
from pytest_crucible.records import Arm, Emit, Event, Outcome, Plan
from pytest_crucible.sample.engine import Unit
from pytest_crucible.store.recorder import Recorder
from pytest_crucible.telemetry.listeners import Listeners

Ask = Callable[[Unit], Awaitable[Outcome]]


class Telling:
    """One a session. Nobody is asked whether he listens before something is planned: until then conftests may be added."""

    def __init__(self, config: pytest.Config, settings: Settings, run: str) -> None:
        self.recorder = Recorder(run)
        self._config = config
        self._settings = settings
        self._run = run

    @cached_property
    def emit(self) -> Listeners:
        """Tells everybody. Raises SpecError where OpenTelemetry cannot be told."""
        found: dict[str, Any] = dict(_implementations(self._config))
        if self._settings.otel:
            from pytest_crucible.telemetry.otel import OpenTelemetry

            found["OpenTelemetry"] = OpenTelemetry(self._run)
        return Listeners({**found, "the run store": self.recorder})

    @property
    def samples(self) -> Emit | None:
        """Whom to tell of samples and experiments too: the run store has them in tables of their own."""
        return self.emit if self.emit.hears("sample.start") else None

    def complaints(self) -> list[str]:
        """What is to be said of listeners that have raised."""
        return self.emit.complaints() if "emit" in self.__dict__ else []

    def close(self) -> None:
        """Nothing happens any more. Idempotent."""
        self.recorder.close()
        if "emit" in self.__dict__:
            self.emit.close()


def _implementations(config: pytest.Config) -> Iterator[tuple[str, Emit]]:
    """Each by itself: if one raises, the others go on."""
    plugins, name = config.pluginmanager, "pytest_crucible_event"
    implementing = [one.plugin for one in getattr(config.hook, name).get_hookimpls()]
    for plugin in implementing:
        others = [one for one in implementing if one is not plugin]
        call = plugins.subset_hook_caller(name, others)
        yield f"{name} in {plugins.get_name(plugin) or plugin!r}", partial(_call, call, config)


def _call(hook: Any, config: pytest.Config, event: Event) -> None:
    hook(config=config, event=event)


# -- what the engine does not tell of itself ------------------------------------------------------------------------


@contextlib.contextmanager
def experiment_told(emit: Emit | None, plan: Plan) -> Iterator[None]:
    """Tell when an experiment starts and stops."""
    if emit is None:
        yield
        return
    tell = partial(Event, experiment=plan.nodeid)
    began = time.monotonic()  # a clock that is set back would make an experiment shorter than nothing
    facts = {"dataset": plan.dataset, "samples": plan.selected, "arms": [arm.name for arm in plan.arms]}
    emit(tell(name="experiment.start", at=time.time(), facts=facts))
    try:
        yield
    finally:
        emit(tell(name="experiment.stop", at=time.time(), seconds=time.monotonic() - began))


def samples_told(emit: Emit | None, ask: Ask, plan: Plan, name: Callable[[int], str]) -> Ask:
    """The same `ask`, which tells when each sample starts and stops; `name` finds the id of one."""
    if emit is None:
        return ask

    async def told(unit: Unit) -> Outcome:
        position, number, epoch = unit
        told_of = SampleTold(emit, plan, plan.arms[number], name(position), epoch)
        outcome: Outcome | None = None
        try:
            outcome = await ask(unit)
        finally:
            told_of.stop(outcome)
        return outcome

    return told


class SampleTold:
    """Tells that a sample starts, and then that it stops."""

    def __init__(self, emit: Emit, plan: Plan, arm: Arm, sample: str, epoch: int = 0) -> None:
        self._emit = emit
        self._tell = partial(Event, experiment=plan.nodeid, arm=arm.name, sample=sample, epoch=epoch)
        self._began = time.monotonic()
        facts = {"adapter": arm.adapter, "parameters": dict(arm.parameters)}
        emit(self._tell(name="sample.start", at=time.time(), facts=facts))

    def stop(self, outcome: Outcome | None) -> None:
        """What became of it; None where it was cancelled."""
        seconds = time.monotonic() - self._began
        self._emit(self._tell(name="sample.stop", at=time.time(), seconds=seconds, facts=_became(outcome)))


def _became(outcome: Outcome | None) -> dict[str, Any]:
    if outcome is None:
        return {"outcome": "cancelled"}
    if outcome.lost:
        return {"outcome": "lost", "reason": outcome.lost}
    if outcome.failure:
        return {"outcome": "failed", "reason": outcome.failure}
    return {"outcome": "skipped" if outcome.skipped else "answered"}
