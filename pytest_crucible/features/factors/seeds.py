"""Adapters with `seeds = 3`: several trainings of one recipe, which are one arm together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from pytest_crucible.adapters.feature_rows import ArmMaker, PartOpener, find_preparation
from pytest_crucible.adapters.opened_arm import OpenedArm, join_ancestries
from pytest_crucible.records import Adapter, Arm, ArmTraining, Role
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.plan import FEWEST_LEVELS

SEEDS = "seeds"


def open_trainings(adapter: Adapter, role: Role, opener: PartOpener) -> OpenedArm:
    """Return the arm of an adapter that a recipe trains several times. Raises SpecError."""
    trainings = tuple(opener.open_single(training, role) for training in adapters_of_seeds(adapter))
    return OpenedArm(describe_trainings(adapter, role, trainings), trainings[0].backend, trainings=trainings)


def adapters_of_seeds(adapter: Adapter) -> tuple[Adapter, ...]:
    """Return an adapter for each training: `v2-seed0`, `v2-seed1` and so on, from the adapter's own `seed`.

    Raises SpecError if no recipe trains it, and for a number of seeds that makes no sense.
    """
    count, first = adapter.options[SEEDS], adapter.options.get("seed", 0)
    if find_preparation(adapter) is None:
        raise SpecError(
            f"adapter {adapter.name!r} has seeds = {count!r} but no recipe: "
            'add recipe = "module:function", or remove seeds'
        )
    if type(count) is not int or count < 2 or type(first) is not int:
        raise SpecError(
            f"adapter {adapter.name!r} has seeds = {count!r}: write the number of trainings, a whole number of at least 2 "
            f"(a verdict needs {FEWEST_LEVELS}); seed, the first seed, must be a whole number too"
        )
    options = {name: value for name, value in adapter.options.items() if name != SEEDS}
    return tuple(
        replace(adapter, name=f"{adapter.name}-seed{seed}", options={**options, "seed": seed})
        for seed in range(first, first + count)
    )


def describe_trainings(adapter: Adapter, role: Role, opened: Sequence[OpenedArm]) -> Arm:
    """Return the record of the arm that these trainings are together."""
    seeds = [training.options["seed"] for training in adapters_of_seeds(adapter)]
    trainings = tuple(
        ArmTraining(name=arm.name, seed=seed, identity=arm.identity, result=arm.training)
        for seed, arm in zip(seeds, (training.arm for training in opened), strict=True)
    )
    identities = json.dumps([training.identity for training in trainings])
    return replace(
        opened[0].arm,
        name=adapter.name,
        role=role,
        adapter=f"{adapter.backend}:{adapter.name}",
        identity=hashlib.sha256(identities.encode()).hexdigest(),
        training=None,
        trainings=trainings,
        ancestry=join_ancestries(training.arm for training in opened),
        trained_on={sha256: name for training in opened for sha256, name in training.arm.trained_on.items()},
    )


MAKERS = (ArmMaker(SEEDS, open_trainings),)
