"""The hooks of commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_crucible.features.commits import FEATURE, is_commit

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.settings import SettingsDraft
    from pytest_crucible.store.prune import Leftovers


def pytest_crucible_settings(draft: SettingsDraft) -> None:
    """Resolve revisions once, for all workers: a commit meanwhile changes nothing in the session."""
    if any(map(is_commit, draft.settings.compare)) and FEATURE.name not in draft.facts:
        from pytest_crucible.features.commits.repository import resolve_all

        draft.facts[FEATURE.name] = resolve_all(draft.root, draft.settings.compare)


def pytest_crucible_plan_begin(collection: ExperimentCollection) -> None:
    """Open the commits of a session that compares with some."""
    if any(map(is_commit, collection.settings.compare)):
        from pytest_crucible.features.commits.planning import open_commits
        from pytest_crucible.session.settings import draft_settings

        open_commits(collection, dict(draft_settings(collection.config).facts.get(FEATURE.name, {})))


def pytest_crucible_leftovers(folder: Path, before: float) -> Leftovers:
    """Return environments that no session has used since a time, and worktrees of sessions that were killed."""
    from pytest_crucible.features.commits.environment import find_leftovers
    from pytest_crucible.store.prune import Leftovers

    return Leftovers("commit_folders", "commit folder", find_leftovers(folder, before))
