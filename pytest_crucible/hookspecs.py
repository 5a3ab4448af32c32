"""The hooks that a conftest.py or a plugin can implement. Our own metrics, backends and reporters come through them too.

Where the plugin may be absent (`-p no:crucible`), mark implementations `@pytest.hookimpl(optionalhook=True)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_crucible.backends import Backend
    from pytest_crucible.metrics import Metric
    from pytest_crucible.records import Adapter, Event, Observation, Run, Sample, Verdict


@pytest.hookspec
def pytest_crucible_metrics(config: pytest.Config) -> Mapping[str, Metric | str]:  # type: ignore[empty-body]  # a hook has none
    """Metrics that a marker can name by a string. Values are metrics, or "module:attribute" to import on first use.

    Everybody contributes; one name from two plugins is an error.
    """


@pytest.hookspec(firstresult=True)
def pytest_crucible_backend(config: pytest.Config, adapter: Adapter) -> Backend | None:
    """Open the backend of an adapter whose `backend` is yours; return None for the others.

    Raise `pytest_crucible.SpecError` with a sentence when its configuration cannot be meant.
    """


@pytest.hookspec(firstresult=True)
def pytest_crucible_dataset(config: pytest.Config, name: str) -> Iterable[Sample | Mapping[str, Any]] | None:
    """The samples of the dataset of that name; None for names that are not yours (they are then read as files)."""


@pytest.hookspec
def pytest_crucible_reporters(  # type: ignore[empty-body]  # a hook has none
    config: pytest.Config,
) -> Mapping[str, Callable[[Run], str | bytes] | str]:
    """Report formats by how files' names end (`md`, `forest.svg`): a function from a Run to text or bytes, or "module:function"."""


@pytest.hookspec
def pytest_crucible_observed(
    config: pytest.Config, nodeid: str, arm: str, sample: str, observation: Observation
) -> None:
    """Called for each observation as it is made, on the sampling thread (under xdist: in the worker). Be quick."""


@pytest.hookspec
def pytest_crucible_event(config: pytest.Config, event: Event) -> None:
    """Called for each thing that happens between a question and its answer, on the sampling thread (under xdist: in the worker).

    Be quick. An implementation that raises is called no more, and the run goes on.
    """


@pytest.hookspec(firstresult=True)
def pytest_crucible_verdict(config: pytest.Config, verdict: Verdict) -> Verdict | None:
    """Waive or harden a verdict: return another one, or None to leave it. Called where verdicts are given, once each."""


@pytest.hookspec
def pytest_crucible_concluded(config: pytest.Config, run: Run) -> None:
    """Called once, when the session's verdicts are given and stored. Under xdist: in the controller."""
