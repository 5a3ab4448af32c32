"""Trainings that a run would begin with: how many, and how long they take."""

from __future__ import annotations

from types import SimpleNamespace

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.backends.lineages import write_lineage
from pytest_crucible.features.stages.cost import predict_total
from pytest_crucible.features.stages.estimate_lines import forecast_text
from pytest_crucible.features.training.adapters import Untrained
from pytest_crucible.features.training.log import summarise_training
from pytest_crucible.features.training.plugin import RECIPE, pytest_crucible_estimate_session
from pytest_crucible.features.training.recipe import Recipe
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.records import Arm, Lineage
from pytest_crucible.session.experiment import SessionEstimate
from pytest_crucible.stats.number_format import seconds


def train(trainer): ...


def untrained_arm(name: str, **settings) -> OpenedArm:
    base = SimpleNamespace(identity="base", name="base", words="base")
    recipe = Recipe(name, "recipes:train", train, base, LoraSpec(rank=4), **settings)
    return OpenedArm(Arm(name=name, role="candidate", adapter=name, identity=name), Untrained(recipe, RECIPE))


def write(folder, name: str, duration: float, **facts) -> None:
    place = folder / ".crucible/adapters" / name
    place.mkdir(parents=True)
    lineage = Lineage(
        adapter_sha256="", base="base", base_sha256="", recipe="recipes:train", recipe_sha256="", data={}, lora={}, seed=0,
        hyperparameters={}, git=None, parent=None, result=summarise_training([2.0, 1.0], [None, None]), losses=(2.0, 1.0),
        gradient_norms=(None, None), learning_rates=(1.0, 1.0), seconds=duration, checkpoint="tinker://a/b/c",
    )  # fmt: skip
    write_lineage(
        folder / ".crucible/adapters" / name,
        Lineage(**{name: getattr(lineage, name) for name in Lineage.__slots__} | facts),
    )


def training_lines(arms, further: int, root) -> list[str]:
    """The lines of a session's estimate below `root`."""
    settings = SimpleNamespace(store=".crucible/runs.db")
    estimate = SessionEstimate(
        tuple(arms), settings, lambda earlier, count: forecast_text(predict_total(earlier, count), seconds), further
    )
    pytest_crucible_estimate_session(estimate, SimpleNamespace(rootpath=root))
    return estimate.lines


def test_adapters_that_share_a_training_count_once(tmp_path):
    arms = [untrained_arm("a", at=1), untrained_arm("b", at=2), untrained_arm("c", hyperparameters={"steps": 3})]

    assert training_lines(arms, 0, tmp_path) == [
        "training 2 runs of recipes:train: unknown (no two earlier ones tell how long)"
    ]
    assert training_lines([], 0, tmp_path) == []


def test_earlier_trainings_of_the_recipe_tell_how_long_it_takes(tmp_path):
    for name, facts in {
        "k1-x": {},
        "k2-x": {},
        "k3-x": {"recipe": "recipes:other"},
        "k1-x/step-1": {"step": 1},
    }.items():
        write(tmp_path, name, 2.0 if len(name) == 4 and name < "k3" else 99.0, **facts)

    assert training_lines([untrained_arm("a")], 3, tmp_path) == [
        "training 4 runs of recipes:train: 8.00 s (as 2 earlier trainings took)"
    ]
