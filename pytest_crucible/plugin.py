"""The pytest plugin: hooks that run in every pytest session, and look for a sign of an experiment.

The first sign registers the hooks of `session.hooks`: options, specifications of our hooks, redaction, xdist, verdicts. Signs are
an argument or a line of pytest's configuration that mentions an option of ours, a plugin that implements one of our hooks, xdist's
workers, and a test with a marker or the fixture `crucible`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_crucible import _OrdinaryFinder, signs
from pytest_crucible.fixtures import (
    crucible,
    feature_fixtures,
    local_tinker,
    rest_client,
    sample,
    sampler,
    sampling_client,
    score,
    service_client,
    tokenizer,
    training_client,
)

if TYPE_CHECKING:
    from types import ModuleType

__all__ = [
    "crucible",
    "local_tinker",
    "rest_client",
    "sample",
    "sampler",
    "sampling_client",
    "score",
    "service_client",
    "tokenizer",
    "training_client",
]


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    config: Any = pluginmanager.get_plugin("pytestconfig")
    if _has_hooks(config) or signs.asks_for_options(config):
        _register_hooks(pluginmanager)
    else:
        for name in signs.KEYS:
            parser.addini(f"crucible_{name}", "", default=None)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """Look once more after plugins and conftest files: they may implement our hooks, and have added arguments."""
    result = yield
    if _has_hooks(early_config) or signs.mentions_option(args):
        _register_hooks(early_config.pluginmanager).add_aliases(early_config, parser, args)
    else:
        _declare_unset_options(early_config, parser)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    plugins = config.pluginmanager
    markers: Iterable[str] = signs.MARKERS
    texts: Mapping[str, str] = {}
    if _has_hooks(config):
        markers, texts = _register_hooks(plugins).describe_words(plugins)
    elif not hasattr(config.option, "crucible_unset"):
        # Conftest files were loaded already: one of them names this plugin in its `pytest_plugins`.
        _declare_unset_options(config, config._parser)
    for marker in markers:
        config.addinivalue_line("markers", marker)
    plugins.register(feature_fixtures(plugins, texts), "crucible-fixtures")
    # A verdict's name from the summary, pasted as an argument, names its experiment.
    if any("::" in argument and any(sign in argument for sign in " @(") for argument in config.args):
        from pytest_crucible.session.markers import resolve_argument

        config.args[:] = dict.fromkeys(map(resolve_argument, config.args))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Before xdist starts workers: what features pass to them is added as each is configured."""
    from pytest_crucible.features import register_features

    _register_hooks(config.pluginmanager)
    register_features(config.pluginmanager)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Hide keys and findings in names of parametrised tests, before --lf and the command line look for names."""
    report = yield
    named = [node for node in report.result or () if isinstance(node, pytest.Item) and hasattr(node, "callspec")]
    # Our hooks in the conftest file of a folder, too, before pytest checks that each hook is known.
    if _has_hooks(collector.config) or any(map(signs.needs_session, named)):
        _register_hooks(collector.config.pluginmanager).hide_names(collector.config, named)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Open the session if any item is an experiment or a joined test, before -k, -m and --lf remove items."""
    if _has_hooks(config) or any(map(signs.needs_session, items)):
        _register_hooks(config.pluginmanager).open_session_of(config, items)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Leave the import system as it was before the session; a later session in this process needs no finder any more."""
    _OrdinaryFinder.uninstall()


def _register_hooks(plugins: pytest.PytestPluginManager) -> ModuleType:
    """Return the module of the other hooks, registered if necessary. Raises pytest.UsageError for invalid options."""
    from pytest_crucible.session import hooks

    hooks.register_hooks(plugins)
    return hooks


def _has_hooks(config: pytest.Config) -> bool:
    """Return whether the other hooks are registered, or a plugin implements one of the hooks that they specify."""
    plugins = config.pluginmanager
    # Joined: this is done for each file of the suite. `config.hook` has other names with pytest 8.
    return plugins.hasplugin(signs.HOOKS) or "pytest_crucible_" in " ".join(vars(plugins.hook))


def _declare_unset_options(config: pytest.Config, parser: pytest.Parser) -> None:
    """Let conftest files read the options of a session that sets none: one option, None, has all of their names."""
    names = [f"--crucible-{name.replace('_', '-')}" for name in signs.FLAGS]
    parser.getgroup("crucible").addoption(*names, dest="crucible_unset", default=None)
    vars(config.option).update(dict.fromkeys(f"crucible_{name}" for name in signs.FLAGS))
