"""A training is shown while it runs: on a terminal in one line, elsewhere now and then."""

from __future__ import annotations

import io

import pytest
from _pytest.terminal import TerminalReporter
from experiment_builders import ALONE
from tiny_base import write_tiny_base

from pytest_crucible.backends.local import open_engine
from pytest_crucible.features.training import adapters as training_adapters
from pytest_crucible.features.training.adapters import TrainingProgress
from pytest_crucible.features.training.local_trainer import EmbeddedBase
from pytest_crucible.features.training.log import TrainingLog
from pytest_crucible.features.training.recipe import Recipe
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.records import Lineage, TrainingResult
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.progress import TerminalProgress


class Screen(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    engine = open_engine(write_tiny_base(tmp_path_factory.mktemp("base")))
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


def lineage(**facts: object) -> Lineage:
    result = TrainingResult(
        **{
            **dict.fromkeys(TrainingResult.__dataclass_fields__),
            "training_steps": 20, "first_loss": 2.0, "final_loss": 0.5, "loss_reduction": 0.75,
            "largest_gradient_norm": 1.5, **facts,
        }
    )  # fmt: skip
    values = {**dict.fromkeys(Lineage.__dataclass_fields__, ""), "result": result, "seconds": 12.3, "losses": ()}
    return Lineage(**values)


def test_a_training_is_announced_with_its_settings(show):
    progress, screen = show()
    progress.begin()

    assert "crucible: training v2 with recipes:train: LoRA of rank 4, seed 3, " in screen.getvalue()


def test_what_collecting_alone_would_train_is_said_so(show):
    progress, screen = show()
    progress.announce()

    assert "crucible: would train v2 with recipes:train" in screen.getvalue()


def test_the_result_is_written_with_its_losses(show):
    progress, screen = show()
    progress.finish(lineage(), "adapters/v2", is_new=True)

    assert screen.getvalue().endswith("crucible: trained v2: 20 steps in 12 s, loss 2 to 0.5 (reduced by 75.0 %)\n")


def test_with_v_the_result_names_norms_and_place_and_no_reduction_is_no_number(show):
    progress, screen = show("-v")
    progress.finish(lineage(loss_reduction=None), "adapters/v2", is_new=True)

    assert "loss 2 to 0.5, gradient norms up to 1.5; kept in adapters/v2\n" in screen.getvalue()


def test_an_adapter_that_another_process_trained_is_not_shown_as_trained_here(show):
    progress, screen = show()
    progress.finish(lineage(), "adapters/v2", is_new=False)

    assert "v2 was trained by another process" in screen.getvalue()
    assert "loss" not in screen.getvalue()


def test_a_training_that_waits_for_its_service_says_why(show):
    progress, screen = show()
    progress.pause("Tinker is paused: capacity")

    assert screen.getvalue().endswith("crucible: v2 waits: Tinker is paused: capacity\n")


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
    progress.finish(lineage(), "adapters/v2", is_new=True)

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
