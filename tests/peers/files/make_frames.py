"""Writes frame-*.* with pandas and polars: python make_frames.py."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl

HERE = Path(__file__).resolve().parent
QUALITY = {"v2": [4, 5, None, 5, 4, 3], "v1": [3, 3, 4, 4, 2, 2]}

rows = [(f"q{k}", arm, value) for arm, values in QUALITY.items() for k, value in enumerate(values, start=1)]
frame = pd.DataFrame(rows, columns=["question", "model", "quality"])
frame.to_json(HERE / "frame-columns.json")
frame.to_json(HERE / "frame-split.json", orient="split")
frame.to_json(HERE / "frame-table.json", orient="table")
frame.to_csv(HERE / "frame-index.csv")
polars_frame = pl.DataFrame(rows, schema=["question", "model", "quality"], orient="row")
polars_frame.write_ndjson(HERE / "frame-polars.ndjson")
polars_frame.write_json(HERE / "frame-polars.json")
polars_frame.write_parquet(HERE / "frame-polars.parquet")
