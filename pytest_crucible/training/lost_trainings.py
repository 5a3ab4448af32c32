"""Trainings that their service loses: they fail with one sentence, or resume from their last saved state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pytest_crucible.records.errors import SpecError
from pytest_crucible.training.log import TrainingLost
from pytest_crucible.training.recipe import RESUME, Recipe
from pytest_crucible.training.saved_training import SavedTraining, SavedTrainings

T = TypeVar("T")

WAIT_S = 120.0
"""How long a service that is gone is waited for: a restart, with its model to load, takes less."""
ATTEMPTS = 3
"""Losses in a row, without a new state between them, after which a training fails."""


def train_through_losses(
    train: Callable[[SavedTraining | None], T],
    recipe: Recipe,
    states: SavedTrainings,
    *,
    resume: Callable[[int], None],
    lose: Callable[[str], None],
) -> T:
    """Return the result of a training, which starts from the newest state that its service still has.

    With `on_lost = "resume"` a training that is lost starts again from there, when the service is back. `resume` is called with
    the step of the state, `lose` with the reason of each loss. Raises SpecError if it fails.
    """
    losses, reached = 0, -1
    while True:
        saved = _find_state(recipe, states)
        if saved is not None:
            resume(saved.step)
        try:
            return train(saved)
        except TrainingLost as error:
            newest = states.find()
            step = 0 if newest is None else newest.step
            # A loss after progress is a new one: a service that restarts each night must not end a long training.
            losses, reached = (losses + 1 if step <= reached else 1), max(step, reached)
            if recipe.on_lost != RESUME or losses >= ATTEMPTS:
                raise SpecError(_explain(recipe, str(error), step, losses)) from None
            lose(str(error))
            _recover(recipe, step)


def _recover(recipe: Recipe, step: int) -> None:
    try:
        recipe.base.recover(WAIT_S)
    except SpecError as error:
        raise SpecError(_explain(recipe, str(error), step, 1)) from None


def _find_state(recipe: Recipe, states: SavedTrainings) -> SavedTraining | None:
    """Return the newest state; None if the service does not have it any more, as after a restart without its files."""
    saved = states.find()
    # States on this machine are files next to the adapters, which survive a restart.
    return saved if saved is None or not saved.state or recipe.base.holds_state(saved.state) else None


def _explain(recipe: Recipe, reason: str, step: int, losses: int) -> str:
    times = f" {losses} times" if losses > 1 else ""
    sentence = f"training of {recipe.adapter!r} was lost{times}: {reason}"
    if not step:
        return f"{sentence}; no state was saved yet (save_every = {recipe.save_every}), so that it starts again from step 1"
    advice = "" if recipe.on_lost == RESUME else f', and on_lost_training = "{RESUME}" waits for the service'
    return f"{sentence}; the same command continues after step {step}{advice}"
