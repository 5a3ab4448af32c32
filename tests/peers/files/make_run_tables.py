"""Writes mlflow-runs.csv, the table of the runs of an experiment of MLflow: python make_run_tables.py."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import mlflow

HERE = Path(__file__).resolve().parent


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    mlflow.set_tracking_uri(f"sqlite:///{work}/mlflow.db")
    mlflow.set_experiment("sums")
    for arm, accuracy in (("v1", 0.5), ("v2", 0.7)):
        for seed in range(1, 7):
            with mlflow.start_run():
                mlflow.log_params({"model": arm, "seed": seed})
                mlflow.log_metric("accuracy", accuracy + seed / 100)
    table = mlflow.search_runs(search_all_experiments=True).to_csv(index=False)
    (HERE / "mlflow-runs.csv").write_text(table.replace(work, "/home/user"), encoding="utf-8")
