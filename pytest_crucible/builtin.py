"""What the package itself offers through its hooks, named by strings: listing them imports none of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_crucible.backends import Backend
    from pytest_crucible.metrics import Metric
    from pytest_crucible.records import Adapter, Run

METRICS = {
    "exact_match": "pytest_crucible.metrics.text:exact_match",
    "contains_expected": "pytest_crucible.metrics.text:contains_expected",
    "final_number_matches": "pytest_crucible.metrics.numbers:final_number_matches",
    "latency_s": "pytest_crucible.metrics.usage:latency_s",
    "output_tokens": "pytest_crucible.metrics.usage:output_tokens",
}
BACKENDS = ("recorded", "scripted", "tinker")
REPORTERS = {"json": "pytest_crucible.report.json:render_json"}


def pytest_crucible_metrics() -> Mapping[str, str]:
    return METRICS


@pytest.hookimpl(trylast=True)
def pytest_crucible_backend(config: pytest.Config, adapter: Adapter) -> Backend | None:
    if adapter.backend == "tinker":
        from pytest_crucible.tinkering.adapters import open_tinker

        return open_tinker(config, adapter)
    from pytest_crucible.backends.opening import BUILT_IN

    opener = BUILT_IN.get(adapter.backend)
    return opener(adapter, config.rootpath) if opener else None


def pytest_crucible_reporters() -> Mapping[str, str]:
    return REPORTERS


def named_metrics(config: pytest.Config) -> dict[str, Metric | str]:
    """All metrics by name. Raises SpecError when two plugins offer one name."""
    return _merged(config.hook.pytest_crucible_metrics(config=config), "metric")


def reporters(config: pytest.Config) -> dict[str, Callable[[Run], str] | str]:
    """All report formats by extension."""
    return _merged(config.hook.pytest_crucible_reporters(config=config), "report format")


def load(given: Any) -> Any:
    """What a "module:attribute" string names; anything else as it is."""
    if not isinstance(given, str):
        return given
    module, _, attribute = given.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _merged(offers: Iterable[Mapping[str, Any]], what: str) -> dict[str, Any]:
    from pytest_crucible.errors import SpecError

    found: dict[str, Any] = {}
    for offer in offers:
        for name, value in offer.items():
            if name in found:
                raise SpecError(f"{what} {name!r} is offered by two plugins: rename one")
            found[name] = value
    return found
