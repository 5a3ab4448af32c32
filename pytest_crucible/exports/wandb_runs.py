"""A run in Weights & Biases: estimates with intervals, verdicts as tags, the HTML report and a table of all scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.exports.files import require_folder
from pytest_crucible.exports.results import RunResults, Written
from pytest_crucible.exports.tracked_run import COLUMNS, numbers, parameters, score_rows, verdict_tags
from pytest_crucible.records.errors import SpecError

PROJECT = "pytest-crucible"
"""The project of runs where WANDB_PROJECT names none."""
# Characters that W&B takes of a tag.
_TAG = 64


def write_wandb(results: RunResults, folder: Path | None) -> Iterator[Written]:
    """Enter the run where W&B's variables point, or offline into the folder, for `wandb sync`. Raises SpecError without W&B."""
    wandb = _import_wandb()
    place = {} if folder is None else {"dir": str(require_folder(folder, "wandb").resolve()), "mode": "offline"}
    run, values = results.run, numbers(results.run)
    tags = [f"{text}: {name}"[:_TAG] for name, text in verdict_tags(run).items()]
    project, name = wandb.Settings().project or PROJECT, f"crucible {run.id}"
    try:
        entered = wandb.init(project=project, name=name, config=parameters(run), tags=tags, **place)
    except wandb.errors.Error as error:
        raise SpecError(
            f"W&B refuses the run ({error}): log in with `wandb login`, or write it offline with -o FOLDER"
        ) from None
    with entered:
        entered.summary.update(values)
        entered.summary.update({f"verdict {name}": text for name, text in verdict_tags(run).items()})
        entered.log(
            {
                "report": wandb.Html(results.html(), inject=False),
                "scores": wandb.Table(list(COLUMNS), [list(row) for row in score_rows(results)]),
            }
        )
        written = entered.dir if folder is not None else entered.url
    yield Written(place=str(written), results=len(values), noun="number")


def _import_wandb() -> Any:
    try:
        import wandb
    except ModuleNotFoundError as error:
        raise SpecError('--what wandb needs W&B: pip install "pytest-crucible[wandb]"') from error
    return wandb
