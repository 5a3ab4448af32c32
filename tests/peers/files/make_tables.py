"""Writes mlflow.json and wandb.json with mlflow and wandb, without a server: python make_tables.py."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

os.environ |= {
    "WANDB_MODE": "offline",
    "WANDB_DIR": tempfile.mkdtemp(),
    "WANDB_SILENT": "true",
    "MLFLOW_ALLOW_FILE_STORE": "true",
}

import mlflow
import pandas as pd
import wandb

HERE = Path(__file__).parent
FOLDER = Path(os.environ["WANDB_DIR"])


def rows() -> list[dict]:
    return [
        {
            "inputs": f"What is {k} + {k}?",
            "model": name,
            "outputs": "a thousand" if k <= wrong else str(2 * k),
            "exact_match/score": None if k == 8 and name == "v2" else float(k > wrong),
        }
        for name, wrong in (("v2", 1), ("v1", 4))
        for k in range(1, 9)
    ]


def make() -> None:
    frame = pd.DataFrame(rows())
    mlflow.set_tracking_uri(f"file://{FOLDER}/mlruns")
    with mlflow.start_run():
        mlflow.log_table(frame, "eval_results_table.json")
    (table,) = FOLDER.rglob("eval_results_table.json")
    shutil.copy(table, HERE / "mlflow.json")
    run = wandb.init(project="sums")
    run.log({"sums": wandb.Table(dataframe=frame)})
    run.finish()
    (table,) = FOLDER.rglob("*.table.json")
    shutil.copy(table, HERE / "wandb.json")


if __name__ == "__main__":
    make()
