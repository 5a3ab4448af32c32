"""OpenTelemetry metrics of a run, through the meter provider that the user has configured.

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/
"""

from __future__ import annotations

from typing import Any

from opentelemetry.metrics import Meter

from pytest_crucible.records import Event
from pytest_crucible.telemetry.attributes import request_attributes

# The bucket boundaries that the conventions recommend, for seconds and for tokens.
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = tuple(4**k for k in range(14))


class Instruments:
    """A listener that records metrics."""

    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, description: str) -> Any:
            return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=_SECONDS)

        self._duration = seconds("gen_ai.client.operation.duration", "Time from sending a request to its end")
        self._first_token = seconds("gen_ai.client.operation.time_to_first_chunk", "Time to the first token")
        self._wait = seconds("crucible.limiter.wait", "Time that a request waited for a permit")
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", "Tokens used", explicit_bucket_boundaries_advisory=_TOKENS
        )
        self._cost = meter.create_counter("crucible.cost", "USD", "Cost of replies with a known price")
        self._events = meter.create_counter("crucible.events", "{event}", "Number of events, by name")
        self._loss = meter.create_gauge("crucible.train.loss", "1", "Loss of the last step of a training")
        self._labels: dict[tuple[str, str], dict[str, Any]] = {}

    def __call__(self, event: Event) -> None:
        place = event.experiment, event.arm
        if event.name == "sample.start" and place not in self._labels:
            self._labels[place] = self._label_event(event)
        labels = self._labels.get(place) or self._label_event(event)
        if event.name == "request.stop":
            self._answer(event, labels)
        elif event.name == "limiter.wait":
            self._wait.record(event.seconds or 0.0, labels)
        elif event.name == "train.step":
            self._loss.set(event.facts["loss"], labels)
        elif not event.name.endswith(".start"):
            self._events.add(1, {**labels, "crucible.event": event.name})

    def _answer(self, event: Event, labels: dict[str, Any]) -> None:
        facts, error = event.facts, event.facts.get("error")
        ended = labels if error is None else {**labels, "error.type": str(error)}
        self._duration.record(event.seconds or 0.0, ended)
        for kind in ("input", "output"):
            if facts.get(f"{kind}_tokens") is not None:
                self._tokens.record(facts[f"{kind}_tokens"], {**labels, "gen_ai.token.type": kind})
        if facts.get("first_token_s") is not None:
            self._first_token.record(facts["first_token_s"], labels)
        if facts.get("cost_usd") is not None:
            self._cost.add(facts["cost_usd"], labels)

    def _label_event(self, event: Event) -> dict[str, Any]:
        attributes = request_attributes(event)
        labels = {
            name: attributes[name] for name in ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")
        }
        return {**labels, "crucible.experiment": event.experiment, "crucible.arm": event.arm}
