"""Words of the package that every pytest session knows, and signs of an experiment, which load the rest.

The words are those of the tables of options, markers and features, which would take milliseconds to load: a test compares them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

FLAGS = (
    "adapter alpha attacks budget cache checks compare concurrency deadline equal_inputs estimate executor explain explain_calls "
    "fresh json otel redact report resume rounds run_code sample seed segments shard stop store strict tag timeout tinker trace "
    "train until"
).split()
"""Options of the command line: `explain_calls` is `--crucible-explain-calls`."""
KEYS = (
    "adapter alpha attacks budget cache checks checks_of_runs concurrency deadline equal_inputs executor explain_calls memory otel "
    "reasoning redact results rounds seed segments stages store strict timeout tinker tinker_base trace train undecided"
).split()
"""Keys of pytest's configuration: `alpha` is `crucible_alpha`."""
MARKERS = "crucible quality_target ab_compare score_bounds score_reach robustness data_check environment".split()
FEATURE_FIXTURES = {
    "canary": "robustness",
    "endpoint": "agents",
    "guards": "guards",
    "perturb": "robustness",
    "prompt": "factors",
    "workspace": "agents",
}
"""Fixtures of features, with the feature's name."""
HOOKS = "pytest_crucible.session.hooks"
"""The plugin that a sign registers, by the name of its module."""
JUDGING = ("quality_target", "ab_compare")

_MENTIONS = ("--crucible", "--compare", "crucible_", "no:crucible")
_SHOWN = ("help", "markers", "showfixtures", "show_fixtures_per_test")
"""Options of pytest that print what a plugin has declared."""


def asks_for_options(config: pytest.Config) -> bool:
    """Return whether the command line or pytest's configuration mentions an option of ours, or shows all options."""
    namespace = getattr(config, "known_args_namespace", None)
    # A plugin that is passed to `pytest.main` is registered before pytest has read either.
    if namespace is None or any(getattr(namespace, name, False) for name in _SHOWN):
        return True
    arguments = (*config.invocation_params.args, os.environ.get("PYTEST_ADDOPTS", ""))
    file = b"" if config.inipath is None else config.inipath.read_bytes()
    return mentions_option(map(str, arguments)) or any(word.encode() in file for word in _MENTIONS)


def mentions_option(arguments: Iterable[str]) -> bool:
    """Return whether an argument may be an option of ours, or a file of arguments.

    >>> mentions_option(["test_x.py", "--crucible-adapter=v2"]), mentions_option(["@arguments"]), mentions_option(["-x"])
    (True, True, False)
    """
    return any(text.startswith("@") or any(word in text for word in _MENTIONS) for text in arguments)


def needs_session(item: pytest.Item) -> bool:
    """Return whether the item is an experiment, has a target or a comparison, or joins with the `crucible` fixture."""
    return is_experiment(item) or is_judged(item) or takes_fixture(item, "crucible")


def is_experiment(item: pytest.Item) -> bool:
    """Return whether the item is marked `crucible`.

    A node's keywords hold its parents' names too, so the keyword alone is not enough.
    """
    return "crucible" in item.keywords and item.get_closest_marker("crucible") is not None


def is_judged(item: pytest.Item) -> bool:
    """Return whether the function itself has a target or a comparison. Those of a module or class are for its experiments."""
    return any(mark.name in JUDGING for mark in item.own_markers)


def takes_fixture(item: pytest.Item, name: str) -> bool:
    """Return whether a test takes the plugin's fixture with this name, and not one of its own suite.

    A fixture of the suite that itself takes the plugin's, to extend it, is still the plugin's.
    """
    info = getattr(item, "_fixtureinfo", None)
    # The last definition is the one that the test gets; those before it are overridden.
    for definition in reversed(() if info is None else info.name2fixturedefs.get(name, ())):
        if definition.func.__module__ == "pytest_crucible.fixtures":
            return True
        if name not in definition.argnames:
            return False
    return False
