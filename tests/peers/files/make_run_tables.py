"""Writes mlflow-runs.csv and frame-*.* with MLflow, pandas and polars: python make_run_tables.py."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import mlflow
import pandas as pd
import polars as pl

HERE = Path(__file__).resolve().parent
QUALITY = {"v2": [4, 5, None, 5, 4, 3], "v1": [3, 3, 4, 4, 2, 2]}


def frame() -> pd.DataFrame:
    rows = [(f"q{k}", arm, value) for arm, values in QUALITY.items() for k, value in enumerate(values, start=1)]
    return pd.DataFrame(rows, columns=["question", "model", "quality"])


def make_runs(folder: str) -> None:
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.set_experiment("sums")
    for arm, accuracy in (("v1", 0.5), ("v2", 0.7)):
        for seed in range(1, 7):
            with mlflow.start_run():
                mlflow.log_params({"model": arm, "seed": seed})
                mlflow.log_metric("accuracy", accuracy + seed / 100)
    mlflow.search_runs(search_all_experiments=True).to_csv(HERE / "mlflow-runs.csv", index=False)


frame().to_json(HERE / "frame-columns.json")
frame().to_json(HERE / "frame-split.json", orient="split")
frame().to_json(HERE / "frame-table.json", orient="table")
frame().to_csv(HERE / "frame-index.csv")
pl.from_pandas(frame()).write_ndjson(HERE / "frame-polars.ndjson")
pl.from_pandas(frame()).write_json(HERE / "frame-polars.json")
pl.from_pandas(frame()).write_parquet(HERE / "frame-polars.parquet")
with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    make_runs(work)
