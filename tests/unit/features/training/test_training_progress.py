"""A training is shown while it runs: on a terminal in one line, elsewhere now and then; and in an estimate."""

from __future__ import annotations

import io
from dataclasses import replace
from fnmatch import fnmatch
from types import SimpleNamespace

import pytest
from _pytest.terminal import TerminalReporter
from experiment_builders import ALONE
from training_builders import make_lineage

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.backends.lineages import write_lineage
from pytest_crucible.features.stages.estimating import forecast_text
from pytest_crucible.features.stages.forecasts import predict_total
from pytest_crucible.features.training import adapters as training_adapters
from pytest_crucible.features.training.adapters import TrainingProgress, Untrained
from pytest_crucible.features.training.log import TrainingLog
from pytest_crucible.features.training.plugin import pytest_crucible_estimate_session
from pytest_crucible.features.training.recipe import Recipe
from pytest_crucible.features.training.tables import RECIPE
from pytest_crucible.features.training.trainer import EmbeddedBase
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.engine import Engine
from pytest_crucible.records import Arm
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.experiment import SessionEstimate
from pytest_crucible.session.progress import TerminalProgress
from pytest_crucible.stats.number_format import seconds


class Screen(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.fixture
def recipe(engine: Engine) -> Recipe:
    return Recipe("v2", "recipes:train", print, EmbeddedBase(engine, "tiny"), LoraSpec(rank=4, seed=3))


@pytest.fixture
def show(pytester: pytest.Pytester, recipe: Recipe):
    def display(*options: str, is_terminal: bool = False, worker: bool = False) -> tuple[TrainingProgress, Screen]:
        config = pytester.parseconfigure(*ALONE, *options)
        screen = Screen(is_terminal=is_terminal)
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(TerminalReporter(config, screen), "terminalreporter")
        if worker:
            config.workerinput = {}  # type: ignore[attr-defined]  # as xdist sets it
        return TrainingProgress(recipe, TerminalProgress(config)), screen

    return display


LINEAGE = make_lineage([2.0] * 18 + [0.5] * 2, [1.5] * 20, seconds=12.3)


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (
            lambda progress: progress.begin(),
            "training v2 with recipes:train: LoRA of rank 4, seed 3, base of * parameters",
        ),
        (lambda progress: progress.announce(), "would train v2 with recipes:train: LoRA of rank 4, seed 3, base of *"),
        (lambda progress: progress.pause("Tinker is paused: capacity"), "v2 waits: Tinker is paused: capacity"),
        (
            lambda progress: progress.finish(LINEAGE, "adapters/v2", is_new=True),
            "trained v2: 20 steps in 12 s, loss 2 to 0.5 (reduced by 75.0 %)",
        ),
        (lambda progress: progress.finish(LINEAGE, "adapters/v2", is_new=False), "v2 was trained by another process"),
    ],
)
def test_a_training_is_reported_in_lines(show, report, line):
    progress, screen = show()
    report(progress)

    assert fnmatch(screen.getvalue().strip(), f"crucible: {line}")


def test_with_v_the_result_names_norms_and_place(show):
    progress, screen = show("-v")
    progress.finish(replace(LINEAGE, result=replace(LINEAGE.result, loss_reduction=None)), "adapters/v2", is_new=True)

    assert "loss 2 to 0.5, gradient norms up to 1.5; kept in adapters/v2\n" in screen.getvalue()


@pytest.mark.parametrize(("is_terminal", "pause"), [(False, "LINE_S"), (True, "REWRITE_S")], ids=["log", "terminal"])
def test_steps_are_shown_not_more_often_than_can_be_read(show, monkeypatch, is_terminal, pause):
    monkeypatch.setattr(training_adapters, pause, 0.0)
    progress, screen = show(is_terminal=is_terminal)
    progress.show_step(TrainingLog(losses=[2.0, 1.25]))
    often = screen.getvalue()
    monkeypatch.setattr(training_adapters, pause, 3600.0)
    progress.show_step(TrainingLog(losses=[2.0, 1.25, 1.0]))

    assert "v2  step 2  loss 1.25" in often
    assert often.endswith("\n") is not is_terminal
    assert screen.getvalue() == often


def test_a_quiet_session_shows_nothing(show):
    progress, screen = show("-q")
    progress.begin()
    progress.wait()
    progress.finish(LINEAGE, "adapters/v2", is_new=True)

    assert screen.getvalue() == ""


def test_a_worker_writes_to_stderr_and_waits_silently(show, capsys):
    progress, screen = show(worker=True)
    progress.wait()
    progress.begin()

    assert screen.getvalue() == ""
    assert [line.partition(" with ")[0] for line in capsys.readouterr().err.splitlines()] == ["crucible: training v2"]


@pytest.mark.parametrize(("options", "is_shown"), [((), False), (("-v",), True)])
def test_the_traceback_of_a_recipe_is_shown_on_request(show, options, is_shown):
    progress, screen = show(*options)
    try:
        try:
            raise ZeroDivisionError("in the recipe")
        except ZeroDivisionError as error:
            raise SpecError("the recipe raised") from error
    except SpecError as error:
        progress.fail(error)

    assert ("ZeroDivisionError: in the recipe" in screen.getvalue()) is is_shown


def train(trainer): ...


def untrained_arm(name: str, **settings) -> OpenedArm:
    base = SimpleNamespace(identity="base", name="base", words="base")
    recipe = Recipe(name, "recipes:train", train, base, LoraSpec(rank=4), **settings)
    return OpenedArm(Arm(name=name, role="candidate", adapter=name, identity=name), Untrained(recipe, RECIPE))


def write(folder, name: str, duration: float, **facts) -> None:
    place = folder / ".crucible/adapters" / name
    place.mkdir(parents=True)
    write_lineage(place, make_lineage(seconds=duration, checkpoint="tinker://a/b/c", **facts))


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
