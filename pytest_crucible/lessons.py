"""Adapters that a recipe makes: found trained, or trained before anything is asked, with what is shown meanwhile."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_crucible.backends.local import open_engine
from pytest_crucible.backends.opening import base_of, check_local, checkpoint_of
from pytest_crucible.embedded.checkpoints import BASE_FILE, SAMPLER_FILE
from pytest_crucible.embedded.engine import PACKAGED
from pytest_crucible.environment import git_commit
from pytest_crucible.errors import CrucibleError
from pytest_crucible.numerals import counted
from pytest_crucible.options import Settings
from pytest_crucible.records import Adapter, Emit, Lineage
from pytest_crucible.training import Log, Recipe, Trained, find_recipe, find_trained, obtain, trained_adapters
from pytest_crucible.training.base import Base
from pytest_crucible.training.embedded import EmbeddedBase
from pytest_crucible.training.events import checkpoint_told, steps_told
from pytest_crucible.training.reading import sha256_of
from pytest_crucible.training.recipe import find_function, sha256_of_function

TELL_S = 10.0
"""How often progress is told where no line can be written over."""
WRITE_S = 0.1


def recipe_of(adapter: Adapter, config: pytest.Config) -> Recipe:
    """The recipe that an adapter names. Raises SpecError for one that cannot be meant."""
    options = adapter.options
    return find_recipe(
        adapter.name,
        options["recipe"],
        _base_of(adapter, config),
        lora=options.get("lora"),
        seed=options.get("seed", 0),
    )


def _base_of(adapter: Adapter, config: pytest.Config) -> Base:
    if adapter.backend == "tinker":
        from pytest_crucible.tinkering.bases import ServiceBase

        return ServiceBase(config, adapter)
    check_local(adapter)
    base = base_of(adapter, config.rootpath)
    return EmbeddedBase(open_engine(base), "packaged" if base is None else str(base))


def find(recipe: Recipe, config: pytest.Config, settings: Settings) -> Trained | None:
    """What a recipe has made, where nothing that it depends on has changed."""
    return find_trained(recipe, adapters_folder(config, settings))


def opened_as(adapter: Adapter, made: Trained) -> Adapter:
    """The adapter with the checkpoint that its recipe has made in the place of the recipe."""
    kept = {name: value for name, value in adapter.options.items() if name not in ("recipe", "lora", "seed")}
    named = {"model_path": made.lineage.checkpoint} if made.lineage.checkpoint else {"checkpoint": str(made.path)}
    return replace(adapter, options={**kept, **named})


def train(recipe: Recipe, config: pytest.Config, settings: Settings, emit: Emit) -> Trained | None:
    """What a recipe makes now; None with --co, which only tells. Raises SpecError when training fails."""
    lesson = Lesson(config, recipe)
    if config.option.collectonly:
        lesson.tell(f"would train {lesson.plan}")
        return None
    try:
        done, now = obtain(
            recipe,
            adapters_folder(config, settings),
            git=git_commit(config.rootpath),
            begin=lesson.begin,
            waiting=lesson.wait,
            watch=steps_told(lesson.watch, emit, recipe.adapter),
            session=getattr(config, "workerinput", {}).get("crucible_run"),
        )
    except BaseException as error:
        lesson.break_off(error)
        raise
    checkpoint_told(emit, done, recipe.adapter, now=now)
    place = done.lineage.checkpoint or _shown(done.path, config.invocation_params.dir)
    lesson.end(done.lineage, place, now=now)
    return done


def origin(adapter: Adapter, config: pytest.Config, settings: Settings) -> tuple[str, dict[str, str]]:
    """What an adapter is made by or on, and the files that it is made of with their SHA-256, as far as they are here.

    No service is asked.
    """
    root = config.rootpath
    if "recipe" in adapter.options:
        made_by, data = _made_by(adapter, config, settings)
        return made_by, {_shown(Path(name), root): sha256 for name, sha256 in data.items()}
    base, checkpoint = base_of(adapter, root), checkpoint_of(adapter, root)
    weights = (base or PACKAGED) / BASE_FILE
    files = [] if checkpoint is None else [checkpoint / SAMPLER_FILE if checkpoint.is_dir() else checkpoint]
    here = {_shown(path, root): sha256_of(path) for path in files if path.is_file()}
    return sha256_of(weights) if weights.is_file() else "", here


def _made_by(adapter: Adapter, config: pytest.Config, settings: Settings) -> tuple[str, Mapping[str, str]]:
    """What a recipe is known by, and the data that it has read."""
    folder = adapters_folder(config, settings)
    if adapter.backend != "tinker":
        recipe = recipe_of(adapter, config)
        found = find_trained(recipe, folder)
        return recipe.key, {} if found is None else found.lineage.data
    function = sha256_of_function(find_function(adapter.name, adapter.options["recipe"]))
    made = (one.lineage for one in trained_adapters(folder) if one.lineage.checkpoint)
    return function, next((one.data for one in made if one.recipe_sha256 == function), {})


def adapters_folder(config: pytest.Config, settings: Settings) -> Path:
    """Beside the run store; where that is no file, in `.crucible` below pytest's root directory."""
    store = ".crucible/crucible.db" if "://" in settings.store else settings.store
    return (config.rootpath / store).parent / "adapters"


class Lesson:
    """What is told of one training. A worker of xdist has no terminal: it tells on stderr, which is its controller's.

    Of workers that want one adapter the one that trains it tells; the others wait without a word.
    """

    def __init__(self, config: pytest.Config, recipe: Recipe) -> None:
        self._is_worker = hasattr(config, "workerinput")
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        self._terminal: pytest.TerminalReporter | None = None if self._is_worker else reporter
        self._verbosity = config.get_verbosity()
        self._name = recipe.adapter
        self._began = self._told = time.perf_counter()
        self._shown = False
        self.plan = (
            f"{recipe.adapter} by {recipe.name}: LoRA of rank {recipe.spec.rank}, seed {recipe.spec.seed}, "
            f"{recipe.base.words}"
        )

    def begin(self) -> None:
        self._began = self._told = time.perf_counter()
        self.tell(f"training {self.plan}")

    def wait(self) -> None:
        if not self._is_worker:
            self.tell(f"{self._name} is being trained by another process: waiting for it")

    def watch(self, log: Log) -> None:
        """After each step."""
        now = time.perf_counter()
        if now - self._told < (WRITE_S if self._is_watched else TELL_S):
            return
        self._told, steps = now, len(log.losses)
        line = (
            f"{self._name}  step {steps:,}  loss {log.losses[-1]:.3g}  {_seconds((now - self._began) / steps)} a step"
        )
        if self._is_watched:
            self._write_over(f"crucible: {line}")
        else:
            self.tell(line)

    def end(self, lineage: Lineage, place: str, *, now: bool) -> None:
        """What came of it; of an adapter that another process has trained meanwhile, that it is there."""
        self._write_over("")
        result = lineage.result
        if not now:
            if not self._is_worker:
                self.tell(f"{self._name} was trained by another process")
            return
        reduced = "" if result.loss_reduction is None else f" (reduced by {result.loss_reduction * 100:.1f} %)"
        norm = result.largest_gradient_norm
        norms = "" if norm is None else f", gradient norms up to {norm:.3g}"
        more = f"{norms}; kept in {place}" * (self._verbosity > 0)
        self.tell(
            f"trained {self._name}: {counted(result.training_steps, 'step')} in {_seconds(lineage.seconds)}, "
            f"loss {result.first_loss:.3g} to {result.final_loss:.3g}{reduced}{more}"
        )

    def break_off(self, error: BaseException) -> None:
        """Clear the line of progress; verbosely, with the traceback of what a recipe raised."""
        self._write_over("")
        cause = error.__cause__
        if self._verbosity > 0 and cause is not None and not isinstance(cause, CrucibleError):
            own = cause.__traceback__ and cause.__traceback__.tb_next  # from the recipe on
            self.tell("".join(traceback.format_exception(type(cause), cause, own)).rstrip())

    def tell(self, line: str) -> None:
        """One line of its own."""
        if self._verbosity < 0:
            return
        if self._terminal is None:
            sys.stderr.write(f"crucible: {line}\n")
            sys.stderr.flush()
            return
        if self._is_watched:
            self._terminal.rewrite("", erase=True)  # pytest's own "collecting ...", which it writes anew
            self._terminal.rewrite("")
        elif self._terminal._tw.width_of_current_line:
            self._terminal._tw.line()
        self._terminal.write_line(f"crucible: {line}")

    @property
    def _is_watched(self) -> bool:
        return bool(self._terminal is not None and self._terminal.isatty and self._verbosity >= 0)

    def _write_over(self, text: str) -> None:
        if self._terminal is not None and self._is_watched and (text or self._shown):
            width = self._terminal._tw.fullwidth - 1
            self._terminal._tw._file.write(f"\r{text[:width]:<{width}}\r")
            self._terminal._tw._file.flush()
            self._shown = bool(text)


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def _shown(path: Path, here: Path) -> str:
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
