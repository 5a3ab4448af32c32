"""`crucible export` to MLflow and W&B, offline: estimates, verdicts, the report, and scores that are read again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_crucible.cli import main


@pytest.fixture
def stored(suite, monkeypatch):
    """A suite with a run in its store."""
    suite.run("--crucible-adapter=v2", "--compare=v1")
    monkeypatch.chdir(suite.path)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_MODE", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    return suite


def compare_file(capsys, path: Path) -> dict:
    capsys.readouterr()
    main(["compare", str(path), "--metric", "exact_match:higher", "--json"])
    return json.loads(capsys.readouterr().out)["experiments"][0]["comparisons"][0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of their own libraries
def test_a_run_of_mlflow_has_numbers_verdicts_and_files(stored, capsys):
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
    assert main(["export", "--what", "mlflow", "-o", "tracked"]) == 0
    mlflow.set_tracking_uri(f"sqlite:///{Path('tracked/mlflow.db').resolve()}")
    experiment = mlflow.get_experiment_by_name("pytest-crucible")
    [run] = mlflow.MlflowClient().search_runs([experiment.experiment_id])
    folder = Path("tracked/artifacts") / run.info.run_id / "artifacts"

    assert run.data.metrics["test_sums.v2.exact_match"] == pytest.approx(0.8)
    assert run.data.metrics["test_sums.exact_match: v2 vs v1"] == pytest.approx(0.2)
    assert run.data.metrics["test_sums.exact_match: v2 vs v1.low"] < 0.2
    assert run.data.tags["test_sums: exact_match __ 0.70"] == "met"
    assert "<html" in (folder / "report.html").read_text()
    again = compare_file(capsys, folder / "scores.json")
    assert (again["pairs"], again["difference"]) == (20, pytest.approx(0.2))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of their own libraries
def test_a_run_of_wandb_is_written_offline(stored, capsys):
    pytest.importorskip("wandb", reason="needs the extra wandb")
    assert main(["export", "--what", "wandb", "-o", "tracked"]) == 0
    [scores] = Path("tracked/wandb").glob("offline-run-*/files/media/table/scores_*.json")
    [report] = Path("tracked/wandb").glob("offline-run-*/files/media/html/report_*.html")

    again = compare_file(capsys, scores)
    assert (again["pairs"], again["difference"]) == (20, pytest.approx(0.2))
    assert "<html" in report.read_text()


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_missing_tracker_is_one_sentence(stored, capsys, monkeypatch, name):
    monkeypatch.setitem(__import__("sys").modules, name, None)
    assert main(["export", "--what", name]) == 4
    assert capsys.readouterr().err.endswith(f'pip install "pytest-crucible[{name}]"\n')
