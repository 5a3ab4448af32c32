"""The trainings behind a run as HTML, from the feature that trains."""

from __future__ import annotations

from pathlib import Path

from pytest_crucible.adapters.context import files_folder
from pytest_crucible.features.view.site import Site
from pytest_crucible.runs.plugins import program_plugins
from pytest_crucible.runs.run_store import project_root


def render_trainings(site: Site, run: str) -> str:
    """Return loss and gradient norm by step of the trainings behind a run; a sentence where nothing can say it."""
    where = site.store.where
    folder = files_folder(project_root() if "://" in where else Path(), where)
    view = program_plugins().hook.pytest_crucible_training_view(store=site.store, run=run, folder=folder)
    return site.render("training_part.html.j2", view=view, many=False)
