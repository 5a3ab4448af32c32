"""Fixtures of the plugin. Inside an experiment `sample`, `sampler` and `score` are bound for each call."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible.signs import FEATURE_FIXTURES

if TYPE_CHECKING:
    from pytest_crucible.backends.tinker.services import TinkerServices
    from pytest_crucible.local_model.server.process import LocalServer
    from pytest_crucible.session.joined_items import Crucible


@pytest.fixture
def sample(request: pytest.FixtureRequest) -> None:
    """The sample of this call: id, input, expected, group, metadata. In functions marked `crucible`."""
    _inside_only(request, "sample")


@pytest.fixture
def sampler(request: pytest.FixtureRequest) -> None:
    """Sends requests to the arm: `await sampler.generate(sample.input)`, without await in a plain `def`.

    In functions marked `crucible`.
    """
    _inside_only(request, "sampler")


@pytest.fixture
def score(request: pytest.FixtureRequest) -> None:
    """Scores what no metric can: `score(steps=3, solved=True)`. In functions marked `crucible`."""
    _inside_only(request, "score")


@pytest.fixture
def crucible(request: pytest.FixtureRequest) -> Iterator[Crucible]:
    """Makes each item of an ordinary parametrised test a sample: `crucible.score(accuracy=...)`, `crucible.sampler`."""
    from pytest_crucible.session.session import SESSION

    crucible = request.config.stash[SESSION].crucible(request.node)
    yield crucible
    crucible.close()


# -- Tinker ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def local_tinker(request: pytest.FixtureRequest) -> LocalServer:
    """A Tinker service on this machine with a small real model: `.url`, `.key`, `.environment()`. Needs no SDK."""
    from pytest_crucible.session.adapter_context import reported_errors

    with reported_errors():
        tinker = _tinker_services(request)
        tinker.check()
        return tinker.server


@pytest.fixture(scope="session")
def service_client(request: pytest.FixtureRequest) -> Any:
    """`tinker.ServiceClient` on the local service, or the hosted one with --crucible-tinker=hosted."""
    from pytest_crucible.session.adapter_context import reported_errors

    with reported_errors():
        return _tinker_services(request).own.client


@pytest.fixture
def training_client(request: pytest.FixtureRequest) -> Any:
    """`tinker.TrainingClient` of a new LoRA adapter; an indirect parameter is what to make it with: `{"rank": 8}`."""
    from pytest_crucible.session.adapter_context import reported_errors

    with reported_errors():
        return _tinker_services(request).training_client(**_options(request))


@pytest.fixture
def sampling_client(request: pytest.FixtureRequest) -> Any:
    """`tinker.SamplingClient` of the base model; an indirect parameter names another one: `{"model_path": "tinker://..."}`."""
    from pytest_crucible.session.adapter_context import reported_errors

    with reported_errors():
        return _tinker_services(request).sampling_client(**_options(request))


@pytest.fixture(scope="session")
def rest_client(request: pytest.FixtureRequest) -> Any:
    """`tinker.RestClient`: training runs, checkpoints, sessions."""
    from pytest_crucible.session.adapter_context import reported_errors

    with reported_errors():
        return _tinker_services(request).own.rest


@pytest.fixture(scope="session")
def tokenizer(request: pytest.FixtureRequest) -> Any:
    """The base model's tokenizer, as the SDK loads it."""
    from pytest_crucible.session.adapter_context import reported_errors

    with reported_errors():
        return _tinker_services(request).tokenizer


def feature_fixtures(plugins: pytest.PytestPluginManager, texts: Mapping[str, str]) -> types.ModuleType:
    """Return a plugin with the fixtures of features that are not left out; `texts` is their help, by name."""
    plugin = types.ModuleType("crucible-fixtures")
    for name, feature in FEATURE_FIXTURES.items():
        if not plugins.is_blocked(f"crucible-{feature}"):
            setattr(plugin, name, pytest.fixture(name=name)(_make_fixture(name, feature, texts.get(name))))
    return plugin


def _make_fixture(name: str, feature: str, text: str | None) -> Callable[[pytest.FixtureRequest], Any]:
    def fixture(request: pytest.FixtureRequest) -> Any:
        from pytest_crucible.features import load_fixture

        function = load_fixture(feature, name)
        # It is bound inside experiments.
        if function is None:
            return _inside_only(request, name)
        _register_hooks(request)
        return function(request)

    fixture.__doc__ = text
    return fixture


def _options(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    options: Mapping[str, Any] = getattr(request, "param", {})
    return options


def _tinker_services(request: pytest.FixtureRequest) -> TinkerServices:
    from pytest_crucible.session.adapter_context import tinker_services

    _register_hooks(request)
    return tinker_services(request.config)


def _register_hooks(request: pytest.FixtureRequest) -> None:
    """Register the hooks that a fixture of an ordinary test calls: no sign of an experiment may have done it."""
    from pytest_crucible.session.hooks import register_hooks

    register_hooks(request.config.pluginmanager)


def _inside_only(request: pytest.FixtureRequest, name: str) -> None:
    """Fail outside of an experiment, which replaces the value of the fixture."""
    if request.node.get_closest_marker("crucible") is None:
        pytest.fail(
            f"fixture {name!r} belongs to experiments: mark the function with @pytest.mark.crucible(dataset=...), "
            "or use the `crucible` fixture in an ordinary test",
            pytrace=False,
        )
