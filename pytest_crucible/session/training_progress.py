"""Shows a training on the terminal while it runs."""

from __future__ import annotations

import sys
import time
import traceback
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.records import Lineage
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.session.redaction import key_redactor
from pytest_crucible.stats.number_format import quantity

if TYPE_CHECKING:
    from pytest_crucible.training import Recipe, TrainingLog

# Where a line cannot be overwritten, as in a CI log, each update adds a line: an hour of training adds at most 360.
LINE_S = 10.0
# On a terminal the line is overwritten; more updates a second could not be read.
REWRITE_S = 0.1


class TrainingProgress:
    """Shows one training. A worker of xdist has no terminal and writes to stderr, which it shares with its controller.

    When several workers need one adapter, the worker that trains it writes; the others wait silently.
    """

    def __init__(self, config: pytest.Config, recipe: Recipe) -> None:
        self._is_worker = hasattr(config, "workerinput")
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        self._terminal: pytest.TerminalReporter | None = None if self._is_worker else reporter
        self._hide = key_redactor(config)
        self._verbosity = config.get_verbosity()
        self._name = recipe.adapter
        self._began = self._shown_at = time.perf_counter()
        self._has_line = False
        self._description = (
            f"{recipe.adapter} with {recipe.name}: LoRA of rank {recipe.spec.rank}, seed {recipe.spec.seed}, "
            f"{recipe.base.words}"
        )

    def announce(self) -> None:
        """Show what would be trained, when nothing is run."""
        self._write_line(f"would train {self._description}")

    def share(self, name: str) -> None:
        """Show that the adapter reuses the training of the adapter `name`; workers of xdist do not show it."""
        if not self._is_worker:
            self._write_line(f"{self._name} uses the training of {name}")

    def begin(self) -> None:
        self._began = self._shown_at = time.perf_counter()
        self._write_line(f"training {self._description}")

    def resume(self, step: int) -> None:
        """Show that an interrupted training continues."""
        self._write_line(f"{self._name} continues after step {step} of a training that was interrupted")

    def lose(self, reason: str) -> None:
        """Show that the training was lost, and waits for its service."""
        self._write_line(f"{self._name} was lost: {reason}; waiting for the service")

    def wait(self) -> None:
        if not self._is_worker:
            self._write_line(f"{self._name} is being trained by another process: waiting for it")

    def pause(self, cause: str) -> None:
        """Write why the service does not train now."""
        self._write_line(f"{self._name} waits: {cause}")

    def show_step(self, log: TrainingLog) -> None:
        """Write a line of progress, not more often than a reader can follow."""
        now = time.perf_counter()
        if now - self._shown_at < (REWRITE_S if self._is_watched else LINE_S):
            return
        self._shown_at, steps = now, len(log.losses)
        line = (
            f"{self._name}  step {steps:,}  loss {log.losses[-1]:.3g}  {_seconds((now - self._began) / steps)} a step"
        )
        if self._is_watched:
            self._overwrite_line(f"crucible: {line}")
        else:
            self._write_line(line)

    def finish(self, lineage: Lineage, place: str, *, is_new: bool) -> None:
        """Write the result; for an adapter that another process has trained, only that it exists."""
        self._overwrite_line("")
        result = lineage.result
        if not is_new:
            if not self._is_worker:
                self._write_line(f"{self._name} was trained by another process")
            return
        reduced = "" if result.loss_reduction is None else f" (reduced by {result.loss_reduction * 100:.1f} %)"
        norm = result.largest_gradient_norm
        norms = "" if norm is None else f", gradient norms up to {norm:.3g}"
        more = f"{norms}; kept in {place}" * (self._verbosity > 0)
        self._write_line(
            f"trained {self._name}: {quantity(result.training_steps, 'step')} in {_seconds(lineage.seconds)}, "
            f"loss {result.first_loss:.3g} to {result.final_loss:.3g}{reduced}{more}"
        )

    def fail(self, error: BaseException) -> None:
        """Clear the line of progress; with -v, write the traceback of an exception in the recipe."""
        self._overwrite_line("")
        cause = error.__cause__
        if self._verbosity > 0 and cause is not None and not isinstance(cause, CrucibleError):
            # The first frame is this package's call of the recipe.
            own = cause.__traceback__ and cause.__traceback__.tb_next
            self._write_line("".join(traceback.format_exception(type(cause), cause, own)).rstrip())

    def _write_line(self, line: str) -> None:
        """Write a line of its own, at any position of the cursor."""
        if self._verbosity < 0:
            return
        line = self._hide(line)
        if self._terminal is None:
            sys.stderr.write(f"crucible: {line}\n")
            sys.stderr.flush()
            return
        if self._is_watched:
            # pytest shows "collecting ..." here and writes it again after this line.
            self._terminal.rewrite("", erase=True)
            self._terminal.rewrite("")
        elif self._terminal._tw.width_of_current_line:
            self._terminal._tw.line()
        self._terminal.write_line(f"crucible: {line}")

    @property
    def _is_watched(self) -> bool:
        return bool(self._terminal is not None and self._terminal.isatty and self._verbosity >= 0)

    def _overwrite_line(self, text: str) -> None:
        if self._terminal is not None and self._is_watched and (text or self._has_line):
            width = self._terminal._tw.fullwidth - 1
            self._terminal._tw._file.write(f"\r{text[:width]:<{width}}\r")
            self._terminal._tw._file.flush()
            self._has_line = bool(text)


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"
