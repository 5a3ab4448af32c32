"""The settings of a session: the options' values, with versions by their numbers."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pytest_crucible.options import check_options
from pytest_crucible.records.settings import Settings


def read_settings(config: pytest.Config) -> Settings:
    """Merge command line, environment, configuration and defaults. Raises pytest.UsageError with the option's name."""
    settings = Settings.of_options(check_options(config))
    names = (settings.adapter or "", *settings.compare)
    # No other adapter has such a name, unless the configuration gives it one.
    if not any("@" in name or name == "production" for name in names):
        return settings
    from pytest_crucible.features.registry.session_names import resolve_settings

    return resolve_settings(config, settings)


def number_versions(config: pytest.Config) -> dict[str, Any] | None:
    """Return the numbers of the versions that the settings name, for workers; None if they name none."""
    read_settings(config)
    if "pytest_crucible.session.version_names" not in sys.modules:
        return None
    from pytest_crucible.features.registry.session_names import worker_input

    return worker_input(config)


def typed_versions(config: pytest.Config) -> dict[str, str]:
    """Return the names that the settings gave versions, by their numbers: `production` by `claims@4`."""
    names = (number_versions(config) or {}).get("names", {})
    return {number: name for name, number in names.items() if name != number}
