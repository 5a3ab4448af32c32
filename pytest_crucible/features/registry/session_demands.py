"""The demands of a session on a candidate in all of its experiments, as text: settings, tables of the configuration, plugins."""

from __future__ import annotations

import pytest

from pytest_crucible.adapters.config import describe_table
from pytest_crucible.features.registry.local_files import local_plugins
from pytest_crucible.records.settings import Settings


def session_demands(config: pytest.Config, settings: Settings) -> dict[str, str]:
    """Return the demands of a session that all of its experiments share."""
    hook = config.hook.pytest_crucible_session_demands
    values = {
        "alpha": repr(settings.alpha),
        "strict": "yes" if settings.strict else "no",
        "memory": settings.memory,
        "reasoning": settings.reasoning,
        "[scorers]": describe_table(config.rootpath, "scorers"),
        **{name: text for demands in hook(config=config, settings=settings) for name, text in demands.items()},
        **{f"plugin {name}": digest for name, digest in local_plugins(config)},
    }
    return {name: value for name, value in values.items() if value}
