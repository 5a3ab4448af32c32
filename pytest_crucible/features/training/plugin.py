"""The hooks of training: recipes, the numbers of trainings, and training sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_crucible.features.row import Placed

if TYPE_CHECKING:
    import pytest

    from pytest_crucible.records import Plan, View
    from pytest_crucible.session.experiment import SessionEstimate
    from pytest_crucible.store.prune import Leftovers
    from pytest_crucible.store.runs import RunStore


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"training": Placed(130, "pytest_crucible.features.training.numbers", _has_trainings)}


def _has_trainings(plan: Plan) -> bool:
    return any(arm.training is not None or arm.trainings for arm in plan.arms)


def pytest_crucible_estimate_session(estimate: SessionEstimate, config: pytest.Config) -> None:
    """Add lines on the trainings that the run would begin with, from how long earlier ones of the same recipe took."""
    from pytest_crucible.adapters.context import ADAPTERS, files_folder

    folder = files_folder(config.rootpath, estimate.settings.store) / ADAPTERS
    # Before those of other features: what is done first is shown first.
    estimate.lines[:0] = _estimate_lines(estimate, folder)


def pytest_crucible_leftovers(folder: Path, before: float) -> Leftovers:
    """Return the states of interrupted trainings that no process runs."""
    from pytest_crucible.adapters.context import ADAPTERS
    from pytest_crucible.features.training.recipe import find_unfinished
    from pytest_crucible.store.prune import Leftovers

    return Leftovers("unfinished_trainings", "unfinished training", find_unfinished(folder / ADAPTERS, before))


def pytest_crucible_training_view(store: RunStore, run: str, folder: Path) -> View:
    from pytest_crucible.adapters.context import ADAPTERS
    from pytest_crucible.features.training.course import courses_of_run, unfinished_courses
    from pytest_crucible.features.training.course_view import training_view

    home = folder / ADAPTERS
    return training_view([*courses_of_run(store, run, home), *unfinished_courses(home)])


def _estimate_lines(estimate: SessionEstimate, folder: Path) -> Iterator[str]:
    from pytest_crucible.adapters.feature_rows import find_pending
    from pytest_crucible.stats.number_format import quantity

    pending = find_pending(estimate.arms)
    if not pending:
        return
    # The import loads numpy and the local model, which sessions without recipes do not need.
    from pytest_crucible.backends.lineages import trained_adapters
    from pytest_crucible.features.training.adapters import find_recipes

    lineages = [trained.lineage for trained in trained_adapters(folder)]
    # Adapters of one key share a training.
    names = {recipe.key: recipe.name for recipe in find_recipes(pending)}
    for name, count in Counter(names.values()).items():
        # The trials of a search have one recipe; some are not proposed yet.
        total = count + estimate.further
        earlier = [each.seconds for each in lineages if each.recipe == name and each.step is None and not each.stopped]
        took = f"as {quantity(len(earlier), 'earlier training')} took" if len(earlier) > 1 else _UNKNOWN
        yield f"training {quantity(total, 'run')} of {name}: {estimate.forecast_seconds(earlier, total)} ({took})"


_UNKNOWN = "no two earlier ones tell how long"
