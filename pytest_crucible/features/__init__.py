"""The features of the package: plugins on its own hooks, each in one folder.

The core imports no feature. A feature is its name in `NAMES` and a folder with that name: `FEATURE` in its `__init__` is its front
row (options, markers), and its module `plugin` implements hooks. `signs` has the words that every pytest session knows of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pytest_crucible.features.row import Feature

if TYPE_CHECKING:
    import pluggy

NAMES: tuple[str, ...] = (
    "commits",
    "stages",
    "factors",
    "ensembles",
    "guards",
    "judges",
    "robustness",
    "slices",
    "sweeps",
    "registry",
    "data_checks",
    "contamination",
    "cns3",
    "training",
    "cookbook",
    "run_checks",
    "provenance",
    "view",
    "scale",
    "agents",
    "explanation",
    "init",
)
"""The features, in the order in which their hooks are called."""


@cache
def all_features() -> tuple[Feature, ...]:
    """Return the front rows of all features, in the order of their hooks."""
    return tuple(map(_front_row, NAMES))


def _front_row(name: str) -> Feature:
    feature: Feature = import_module(f"{__name__}.{name}").FEATURE
    return feature


def register_features(plugins: pluggy.PluginManager) -> None:
    """Register the hooks of all features that are neither left out nor registered already."""
    # pluggy calls the plugin that was registered last first.
    for feature in reversed(all_features()):
        if not plugins.is_blocked(feature.plugin_name) and not plugins.has_plugin(feature.plugin_name):
            plugins.register(import_module(feature.plugin_module), feature.plugin_name)


@cache
def load_rows(table: str) -> tuple[tuple[Feature, Any], ...]:
    """Return the rows that features add to a table of the core, in the order of features. Those of left-out ones, too.

    Such a table is read where no session is known, so that the user of a row refuses one of a feature that is left out.
    """
    rows: list[tuple[Feature, Any]] = []
    for feature in all_features():
        if table in feature.tables:
            module, _, name = feature.tables[table].partition(":")
            rows += [(feature, row) for row in getattr(import_module(module), name)]
    return tuple(rows)


def load_fixture(feature: str, name: str) -> Callable[[Any], Any] | None:
    """Return the function of a fixture of all tests; None for one that experiments bind for each call."""
    fixtures = _front_row(feature).test_fixtures
    if name not in fixtures:
        return None
    from pytest_crucible.records.object_reference import load_object

    function: Callable[[Any], Any] = load_object(fixtures[name][1])
    return function


def owner_of(word: str, kind: str) -> Feature | None:
    """Return the feature that has a word among its `options`, `marker_names`, `arguments` or `adapter_keys`; None without one."""
    return next((feature for feature in all_features() if word in _words(feature, kind)), None)


def feature_of(module: str) -> Feature | None:
    """Return the feature that has a module; None for a module of the core, or of a suite."""
    return next((feature for feature in all_features() if module.startswith(f"{__name__}.{feature.name}.")), None)


def owner_of_name(name: str) -> Feature | None:
    """Return the feature that has an adapter with this name; None without one."""
    names = ((feature, feature.adapter_names) for feature in all_features())
    return next((feature for feature, is_name in names if is_name is not None and is_name(name)), None)


def _words(feature: Feature, kind: str) -> tuple[Any, ...]:
    return tuple(getattr(word, "name", word) for word in getattr(feature, kind))


def left_out_sentence(word: str, feature: Feature) -> str:
    """Return the sentence that refuses a word of a feature which is left out."""
    return (
        f"{word} needs the feature {feature.name}, which `-p no:{feature.plugin_name}` leaves out: remove one of them"
    )


def refuse_left_out(word: str, feature: Feature | None, is_left_out: Callable[[str], bool]) -> None:
    """Raise SpecError for a word of a feature that is left out; None is the core, which never is."""
    if feature is not None and is_left_out(feature.plugin_name):
        from pytest_crucible.records.errors import SpecError

        raise SpecError(left_out_sentence(word, feature))
