"""The hooks that a conftest.py or a plugin can implement. The package's own metrics, datasets and reporters use them too.

If the plugin may be absent (`-p no:crucible`), mark implementations `@pytest.hookimpl(optionalhook=True)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import click
    import pytest

    from pytest_crucible.adversary.edits import Attack
    from pytest_crucible.backends import Backend
    from pytest_crucible.importers.results import Reader
    from pytest_crucible.metrics import Metric
    from pytest_crucible.records import Adapter, Event, Observation, Run, Sample, Verdict
    from pytest_crucible.sections import Section


hookspec = pluggy.HookspecMarker("pytest")  # as pytest.hookspec: the `crucible` program runs without pytest


@hookspec
def pytest_crucible_metrics(config: pytest.Config) -> Mapping[str, Metric | str]:  # type: ignore[empty-body]  # a hook has none
    """Metrics that a marker can name by a string. Values are metrics, or "module:attribute" to import on first use.

    All implementations contribute; one name from two plugins is an error.
    """


@hookspec
def pytest_crucible_attacks(config: pytest.Config) -> Mapping[str, Attack | Callable[..., Any] | str]:  # type: ignore[empty-body]  # a hook has none
    """Attacks that a marker can name: functions of a text, Attacks, or "module:attribute" to import on first use.

    All implementations contribute; one name from two plugins is an error.
    """


@hookspec(firstresult=True)
def pytest_crucible_backend(config: pytest.Config, adapter: Adapter) -> Backend | None:
    """Open the backend of an adapter whose `backend` is yours; return None for the others.

    Called before the built-in kinds of adapter, so that an implementation may replace one of them. Raise
    `pytest_crucible.SpecError` with a sentence for an invalid configuration.
    """


@hookspec(firstresult=True)
def pytest_crucible_dataset(config: pytest.Config, name: str) -> Iterable[Sample | Mapping[str, Any]] | None:
    """Return the samples of the dataset of that name; None for other names, which are then read as files."""


@hookspec
def pytest_crucible_reporters(  # type: ignore[empty-body]  # a hook has none
    config: pytest.Config,
) -> Mapping[str, Callable[[Run], str | bytes] | str]:
    """Report formats by file name ending (`md`, `forest.svg`): a function from a Run to text or bytes, or "module:function"."""


@hookspec
def pytest_crucible_sections(config: pytest.Config) -> Mapping[str, Section | str]:  # type: ignore[empty-body]  # a hook has none
    """Sections of the reports by name: objects with compute, claims and view, or "module" or "module:attribute" to import.

    Every report format shows all sections, in the order given here. One name from two plugins is an error.
    """


@hookspec
def pytest_crucible_observed(
    config: pytest.Config, nodeid: str, arm: str, sample: str, observation: Observation
) -> None:
    """Called for each observation as it is made, on the sampling thread (under xdist: in the worker). Be quick."""


@hookspec
def pytest_crucible_event(config: pytest.Config, event: Event) -> None:
    """Called for each event between a request and its reply, on the sampling thread (under xdist: in the worker).

    Be quick. An implementation that raises is not called again, and the run continues.
    """


@hookspec(firstresult=True)
def pytest_crucible_verdict(config: pytest.Config, verdict: Verdict) -> Verdict | None:
    """Waive or harden a verdict: return another one, or None to leave it. Called once for each verdict, when it is decided."""


@hookspec
def pytest_crucible_concluded(config: pytest.Config, run: Run) -> None:
    """Called once, when the session's verdicts are decided and stored. Under xdist: in the controller."""


# -- called by the `crucible` program: in plugins of the entry point group `pytest_crucible` ----------------------------


@hookspec
def pytest_crucible_importers() -> Mapping[str, Reader | str]:  # type: ignore[empty-body]  # a hook has none
    """Formats that `crucible import` and `crucible compare` read, by the name of the harness: a Reader, or "module:attribute"."""


@hookspec
def pytest_crucible_commands() -> Mapping[str, click.Command | str]:  # type: ignore[empty-body]  # a hook has none
    """Commands of the `crucible` program by name: a click command, or "module:attribute" to import when it is called."""
