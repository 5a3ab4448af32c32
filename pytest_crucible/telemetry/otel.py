"""OpenTelemetry, as the user has configured it: neither a provider nor an exporter is ours."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from pytest_crucible.records import Event
from pytest_crucible.records.errors import SpecError

try:
    from opentelemetry import metrics, trace
except ModuleNotFoundError as error:
    raise SpecError(
        'crucible_otel needs OpenTelemetry, which is not installed: pip install "pytest-crucible[otel]"'
    ) from error

from pytest_crucible.telemetry.instruments import Instruments
from pytest_crucible.telemetry.listeners import redact_event
from pytest_crucible.telemetry.spans import Spans

NAME = "pytest_crucible"


class OpenTelemetry:
    """A listener that creates spans and metrics of a run."""

    def __init__(self, run: str, hide: Callable[[str], str] = str) -> None:
        """`hide` redacts texts. Raises SpecError if neither a tracer provider nor a meter provider is configured."""
        tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
        if _is_placeholder(tracers) and _is_placeholder(meters):
            raise SpecError(
                "crucible_otel is set, but OpenTelemetry has neither a tracer provider nor a meter provider, so that nothing "
                "would be received: set one in pytest_configure of a conftest.py, or run opentelemetry-instrument pytest"
            )
        self._hide = hide
        own = version("pytest-crucible")
        self._spans = Spans(run, trace.get_tracer(NAME, own))
        self._instruments = Instruments(metrics.get_meter(NAME, own))

    def __call__(self, event: Event) -> None:
        event = redact_event(event, self._hide)
        self._spans(event)
        self._instruments(event)

    def close(self) -> None:
        """End the run's span. Idempotent."""
        self._spans.close()


def _is_placeholder(provider: object) -> bool:
    """Return whether this is OpenTelemetry's placeholder for a provider that was never set."""
    return type(provider).__name__.lstrip("_").startswith("Proxy")
