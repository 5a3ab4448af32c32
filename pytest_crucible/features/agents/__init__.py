"""Agents and applications inside an experiment: a server for each sample, to which whatever speaks to a model is pointed."""

from __future__ import annotations

from pytest_crucible.features.row import Feature

FEATURE = Feature(
    "agents",
    arguments=("max_calls",),
    markers=(
        "environment(setup=None, teardown=None, files=None, keep=None): give each sample of an experiment a directory of its own, "
        "the argument `workspace`",
    ),
    fixtures={
        "endpoint": "Serves the arm to any client: `endpoint.base_url` in OpenAI's forms, `endpoint.anthropic_base_url` in "
        "Anthropic's, `endpoint.api_key`. In functions marked `crucible`.",
        "workspace": "The directory (a Path) of one sample, as its marker `environment` fills it. In functions marked `crucible`.",
    },
    senders=("endpoint",),
    adapter_keys=("roles",),
    tables={
        "store_tables": "pytest_crucible.features.agents.tables:TABLES",
        "arm_makers": "pytest_crucible.features.agents.roles:MAKERS",
        "statistics": "pytest_crucible.features.agents.statistics:ROWS",
    },
)
