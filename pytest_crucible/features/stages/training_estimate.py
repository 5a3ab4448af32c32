"""Estimates the trainings that a run would begin with, from how long earlier trainings with the same recipe took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.adapters.untrained import untrained_recipes
from pytest_crucible.features.stages.cost import predict_total
from pytest_crucible.features.stages.estimate_lines import forecast_text
from pytest_crucible.stats.number_format import quantity, seconds


def training_lines(arms: Sequence[OpenedArm], further: int, folder: Path) -> Iterator[str]:
    """Yield a line for each recipe that would be run; `further` counts trials of a search that are not proposed yet.

    `folder` has the adapters that were trained before. Adapters that share a training count once.
    """
    # Adapters of one key share a training.
    names = {recipe.key: recipe.name for recipe in untrained_recipes(arms)}
    for name, count in Counter(names.values()).items():
        # The trials of a search have one recipe.
        total = count + further
        earlier = _earlier_seconds(name, folder)
        forecast = predict_total(earlier, total)
        took = (
            f"as {quantity(len(earlier), 'earlier training')} took" if forecast else "no two earlier ones tell how long"
        )
        yield f"training {quantity(total, 'run')} of {name}: {forecast_text(forecast, seconds)} ({took})"


def _earlier_seconds(recipe: str, folder: Path) -> list[float]:
    # The import loads numpy and the local model, which sessions without recipes do not need.
    from pytest_crucible.training import trained_adapters

    lineages = [trained.lineage for trained in trained_adapters(folder)]
    return [each.seconds for each in lineages if each.recipe == recipe and each.step is None and not each.stopped]
