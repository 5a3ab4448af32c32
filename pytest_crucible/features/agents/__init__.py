"""Agents and applications inside an experiment: a server for each sample, to which whatever speaks to a model is pointed."""

from __future__ import annotations

from pytest_crucible.features.row import Feature

FEATURE = Feature(
    "agents",
    arguments=("max_calls",),
    fixtures={
        "endpoint": "Serves the arm to any client: `endpoint.base_url` in OpenAI's forms, `endpoint.anthropic_base_url` in "
        "Anthropic's, `endpoint.api_key`. In functions marked `crucible`.",
    },
    senders=("endpoint",),
    adapter_keys=("roles",),
    tables={
        "store_tables": "pytest_crucible.features.agents.tables:TABLES",
        "arm_makers": "pytest_crucible.features.agents.roles:MAKERS",
        "statistics": "pytest_crucible.features.agents.statistics:ROWS",
    },
)
