"""The settings of a session: the options' values, which features may change."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Any

import pytest

from pytest_crucible.features import owner_of_name, register_features
from pytest_crucible.options import check_options
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.settings import Settings


@dataclass
class SettingsDraft:
    """The settings of a session, before an adapter is opened."""

    root: Path
    """Directory of pytest's configuration."""
    settings: Settings
    facts: dict[str, Any]
    """Plain values by feature, which hold for the whole session. A worker has those of its controller."""
    typed_names: dict[str, str] = field(default_factory=dict)
    """The names of the command line, by those that they mean: `production` by `claims@4`."""


def read_settings(config: pytest.Config) -> Settings:
    """Merge command line, environment, configuration and defaults. Raises pytest.UsageError with the option's name."""
    return draft_settings(config).settings


def draft_settings(config: pytest.Config) -> SettingsDraft:
    """Return the settings, with what features have found out about them. Raises pytest.UsageError with the option's name."""
    settings = Settings.of_options(check_options(config))
    facts = config.stash.setdefault(_FACTS, getattr(config, "workerinput", {}).get("crucible_settings", {}))
    draft = SettingsDraft(config.rootpath, settings, facts)
    # Features are imported only where one may know an adapter's name.
    if any(owner_of_name(name) for name in (settings.adapter or "", *settings.compare)):
        register_features(config.pluginmanager)
        try:
            config.hook.pytest_crucible_settings(draft=draft)
        except CrucibleError as error:
            raise pytest.UsageError(str(error)) from error
    return draft


_FACTS = pytest.StashKey[dict[str, Any]]()
