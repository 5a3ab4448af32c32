"""Adapters that a recipe makes, before anything is asked: found trained, or trained now, with what is shown meanwhile."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from pytest_crucible.backends.local import open_engine
from pytest_crucible.backends.opening import base_of, check_local
from pytest_crucible.environment import git_commit
from pytest_crucible.errors import SpecError
from pytest_crucible.options import Settings
from pytest_crucible.records import Adapter, Lineage
from pytest_crucible.training import Log, Recipe, find_recipe, find_trained, obtain

TELL_S = 10.0
"""How often progress is told where no line can be written over."""
WRITE_S = 0.1


def trained(adapter: Adapter, config: pytest.Config, settings: Settings) -> Path | None:
    """The checkpoint that an adapter's recipe makes; None where it would be trained, but only plans are asked for.

    Raises SpecError when it is missing and may not be trained, and when training fails.
    """
    check_local(adapter)
    base = base_of(adapter, config.rootpath)
    options = adapter.options
    recipe = find_recipe(
        adapter.name,
        options["recipe"],
        open_engine(base),
        base="packaged" if base is None else str(base),
        lora=options.get("lora"),
        seed=options.get("seed", 0),
    )
    folder = adapters_folder(config, settings)
    found = find_trained(recipe, folder)
    if found is not None:
        return found.path
    if not settings.train:
        raise SpecError(
            f"adapter {adapter.name!r} is not trained with recipe {recipe.name!r}, its data and its base as they are now: "
            "train it with --crucible-train"
        )
    lesson = Lesson(config, recipe)
    if config.option.collectonly:
        lesson.tell(f"{lesson.plan} would be trained")
        return None
    done, now = obtain(
        recipe,
        folder,
        git=git_commit(config.rootpath),
        begin=lesson.begin,
        waiting=lesson.wait,
        watch=lesson.watch,
    )
    lesson.end(done.lineage, _shown(done.path, config.rootpath), now=now)
    return done.path


def adapters_folder(config: pytest.Config, settings: Settings) -> Path:
    """Beside the run store; where that is no file, in `.crucible` below pytest's root directory."""
    store = ".crucible/crucible.db" if "://" in settings.store else settings.store
    return (config.rootpath / store).parent / "adapters"


class Lesson:
    """What is told of one training. A worker of xdist has no terminal: it tells on stderr, which is its controller's."""

    def __init__(self, config: pytest.Config, recipe: Recipe) -> None:
        self._terminal: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
        self._quiet = config.get_verbosity() < 0
        self._name = recipe.adapter
        self._began = self._told = time.perf_counter()
        self._shown = False
        self.plan = (
            f"{recipe.adapter} by {recipe.name}, LoRA of rank {recipe.spec.rank}, seed {recipe.spec.seed}, on base "
            f"{recipe.engine.base_sha256[:12]} ({recipe.engine.shape.parameters:,} parameters)"
        )

    def begin(self) -> None:
        self._began = self._told = time.perf_counter()
        self.tell(f"training {self.plan}")

    def wait(self) -> None:
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
            self.tell(f"{self._name} was trained by another process: {place}")
            return
        reduced = "" if result.loss_reduction is None else f" (reduced by {result.loss_reduction:.1%})"
        self.tell(
            f"trained {self._name}: {result.steps:,} steps in {_seconds(lineage.seconds)} "
            f"({_seconds(lineage.seconds / result.steps)} each), loss {result.first_loss:.3g} to {result.final_loss:.3g}{reduced}, "
            f"gradient norms up to {result.largest_gradient_norm:.3g}; {place}"
        )

    def tell(self, line: str) -> None:
        """One line of its own."""
        if self._quiet:
            return
        if self._terminal is None:
            sys.stderr.write(f"crucible: {line}\n")
            sys.stderr.flush()
        else:
            self._terminal.ensure_newline()
            self._terminal.write_line(f"crucible: {line}")

    @property
    def _is_watched(self) -> bool:
        return bool(self._terminal is not None and self._terminal.isatty and not self._quiet)

    def _write_over(self, text: str) -> None:
        if self._terminal is not None and self._is_watched and (text or self._shown):
            width = self._terminal._tw.fullwidth - 1
            self._terminal._tw._file.write(f"\r{text[:width]:<{width}}\r")
            self._terminal._tw._file.flush()
            self._shown = bool(text)


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
