"""A run in MLflow: estimates with intervals as metrics, verdicts as tags, the HTML report and all scores as artifacts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.exports.files import require_folder
from pytest_crucible.exports.results import RunResults, Written
from pytest_crucible.exports.tracked_run import COLUMNS, numbers, parameters, score_rows, verdict_tags
from pytest_crucible.records.errors import SpecError

EXPERIMENT = "pytest-crucible"
"""The experiment of runs where MLFLOW_EXPERIMENT_NAME names none."""
TABLE = "scores.json"
# MLflow refuses other characters in names.
_OTHER = re.compile(r"[^\w\-. :/]")
# Characters that MLflow takes of a parameter, and of a tag.
_PARAMETER, _TAG = 6000, 5000


def write_mlflow(results: RunResults, folder: Path | None) -> Iterator[Written]:
    """Enter the run where MLflow's variables point, or into a database in the folder. Raises SpecError without MLflow."""
    mlflow = _import_mlflow()
    try:
        yield _enter(mlflow, results, folder)
    except mlflow.exceptions.MlflowException as error:
        where = f"MLflow at {mlflow.get_tracking_uri()} refuses the run ({error})"
        raise SpecError(f"{where}: set MLFLOW_TRACKING_URI, or write it offline with -o FOLDER") from None


def _enter(mlflow: Any, results: RunResults, folder: Path | None) -> Written:
    if folder is not None:
        place = require_folder(folder, "mlflow").resolve()
        mlflow.set_tracking_uri(f"sqlite:///{place / 'mlflow.db'}")
        _choose_experiment(mlflow, (place / "artifacts").as_uri())
    else:
        _choose_experiment(mlflow, None)
    run, rows = results.run, score_rows(results)
    with mlflow.start_run(run_name=f"crucible {run.id}") as entered:
        mlflow.log_params({_name(name): text[:_PARAMETER] for name, text in parameters(run).items()})
        mlflow.set_tags({_name(name): text[:_TAG] for name, text in verdict_tags(run).items()})
        values = {_name(name): value for name, value in numbers(run).items()}
        mlflow.log_metrics(values)
        mlflow.log_text(results.html(), "report.html")
        mlflow.log_table({name: [row[k] for row in rows] for k, name in enumerate(COLUMNS)}, TABLE)
    return Written(
        place=f"run {entered.info.run_id} of {mlflow.get_tracking_uri()}", results=len(values), noun="number"
    )


def _import_mlflow() -> Any:
    try:
        import mlflow
    except ModuleNotFoundError as error:
        raise SpecError('--what mlflow needs MLflow: pip install "pytest-crucible[mlflow]"') from error
    return mlflow


def _choose_experiment(mlflow: Any, artifacts: str | None) -> None:
    """Make the experiment of MLFLOW_EXPERIMENT_NAME, or else our own, the current one."""
    from mlflow.environment_variables import MLFLOW_EXPERIMENT_ID, MLFLOW_EXPERIMENT_NAME

    if MLFLOW_EXPERIMENT_ID.get():
        return
    name = MLFLOW_EXPERIMENT_NAME.get() or EXPERIMENT
    if mlflow.get_experiment_by_name(name) is None:
        mlflow.create_experiment(name, artifact_location=artifacts)
    mlflow.set_experiment(name)


def _name(text: str) -> str:
    return _OTHER.sub("_", text)[:250]
