"""Rows of training files, in the formats of the libraries that train on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class FileRow(NamedTuple):
    """One row of a file. Prompt and replies are texts or messages, as the file has them."""

    prompt: Any
    completion: Any
    rejected: Any = None
    label: bool | None = None


def read_row(row: Mapping[str, Any]) -> FileRow | None:
    """Return a row of any format that `features/training` writes; None for another form."""
    if "input" in row and "preferred_output" in row:
        prompt = row["input"].get("messages") if isinstance(row["input"], Mapping) else None
        return FileRow(prompt, row["preferred_output"], row.get("non_preferred_output"))
    if "comparison" in row:
        return _read_comparison(row)
    if "chosen" in row and "rejected" in row:
        return FileRow(row.get("prompt", row.get("messages")), row["chosen"], row["rejected"])
    if "messages" in row and isinstance(row["messages"], list) and row["messages"]:
        return FileRow(row["messages"][:-1], row["messages"][-1:])
    if "prompt" in row and "completion" in row:
        prompt = row["prompt"]
        if row.get("system") and isinstance(prompt, str):
            prompt = [{"role": "system", "content": row["system"]}, {"role": "user", "content": prompt}]
        return FileRow(prompt, row["completion"], None, row.get("label"))
    return None


def _read_comparison(row: Mapping[str, Any]) -> FileRow | None:
    comparison = row["comparison"]
    if not isinstance(comparison, Mapping) or row.get("label") not in ("A", "B"):
        return None
    replies = [comparison.get("completion_A"), comparison.get("completion_B")]
    chosen, rejected = replies if row["label"] == "A" else reversed(replies)
    return FileRow(comparison.get("prompt_conversation"), chosen, rejected)
