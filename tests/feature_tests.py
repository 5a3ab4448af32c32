"""The session tests of each feature, which are not run where it is left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

FILES = {
    "commits": "commit_arms commit_sessions",
    "contamination": "relevance",
    "cookbook": "",
    "cns3": "cns3",
    "data_checks": "data_checks",
    "ensembles": "ensembles cache_ensembles",
    "factors": "factors seeds",
    "guards": "guards redaction_by_value rules_version",
    "judges": "judges",
    "provenance": "decisions facts_in_reports seals timelines traces why",
    "registry": "registry registry_weights model_gates watch",
    "robustness": "robustness",
    "run_checks": "run_checks",
    "slices": "conditional slices slices_in_sessions fairness_numbers",
    "stages": "stages stop estimate",
    "sweeps": "sweep search",
    "scale": "cluster shards parquet_results nodes",
    "agents": "agents agent_programs agent_resume agent_stored_scores agent_tools agent_workspaces",
    "explanation": "explain explain_runs",
    "view": "view_pages view_hostile view_keyboard view_live",
    "training": "cache_local curve lineages local_names recipes tinker_recipes training_sets training_targets",
}
"""The files of each feature in tests/plugin, without `test_`. A single test of another file has the marker `uses`."""


def deselect_tests(items: Sequence[pytest.Item], feature: str, part: str = "") -> list[pytest.Item]:
    """Return the session tests that do not belong to a feature; of a part such as 1/3 the first of some files."""
    others = [item for item in items if not _uses(item, feature)]
    if not part:
        return others
    number, parts = map(int, part.split("/"))
    first: dict[str, pytest.Item] = {}
    for item in others:
        first.setdefault(item.path.name, item)
    return [item for k, item in enumerate(first.values()) if k % parts == number]


def _uses(item: pytest.Item, feature: str) -> bool:
    is_own = item.path.stem.removeprefix("test_") in FILES.get(feature, "").split()
    return is_own or any(feature in marker.args for marker in item.iter_markers("uses"))
