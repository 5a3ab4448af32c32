"""The demands of a session on a candidate in all of its experiments, as text: settings, tables of the configuration, plugins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_crucible.adapters.config import read_adapters
from pytest_crucible.adapters.config_tables import read_table
from pytest_crucible.records.serialize import canonical
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.local_files import local_plugins

TABLES = ("scorers", "antagonist", "attacks")
"""Tables of the configuration that change what metrics and attacks do."""


def session_demands(config: pytest.Config, settings: Settings) -> dict[str, str]:
    """Return the demands of a session that all of its experiments share."""
    hook = config.hook.pytest_crucible_session_demands
    values = {
        "alpha": repr(settings.alpha),
        "strict": "yes" if settings.strict else "no",
        "early stop": "yes" if settings.option("stop") else "no",
        **{name: text for demands in hook(settings=settings) for name, text in demands.items()},
        "memory": settings.memory,
        "reasoning": settings.reasoning,
        "stages": _stages_text(settings),
        **{f"[{name}]": _table_text(config.rootpath, name) for name in TABLES},
        **{f"plugin {name}": digest for name, digest in local_plugins(config)},
    }
    return {name: value for name, value in values.items() if value}


def _stages_text(settings: Settings) -> str:
    stages = settings.option("stages")
    return f"{stages}, until {settings.option('until') or 'the last'}" if stages else ""


def _table_text(root: Path, name: str) -> str:
    """Return a table of the configuration, with the adapters that it names, such as the judge; empty without one."""
    table = read_table(root, name)
    if not table:
        return ""
    named = {part.get("adapter") for part in table.values() if isinstance(part, Mapping)}
    adapters = {key: adapter for key, adapter in read_adapters(root).items() if key in named}
    return canonical([table, adapters])
