"""Answers that already exist, read as if they were a model.

One JSON object a line: `sample_id` and `text`, and where known `output_tokens`, `input_tokens`, `latency_s`, `finish`,
`logprobs`, `cost_usd`.
Several lines with one sample_id are its repeats, in file order.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.backends.plausible import flaw_of
from pytest_crucible.datasets.jsonl import read_rows
from pytest_crucible.errors import BackendError, DatasetError
from pytest_crucible.records import Reply, Request


class RecordedBackend:
    """Replies by sample id, the k-th reply for the k-th repeat."""

    simulated = False

    def __init__(self, replies: Mapping[str, tuple[Reply, ...]], *, identity: str, name: str) -> None:
        self.identity = identity
        self._replies = replies
        self._name = name

    def samples(self) -> frozenset[str]:
        return frozenset(self._replies)

    async def generate(self, request: Request) -> Reply:
        replies = self._replies.get(request.sample)
        if replies is None:
            raise BackendError(f"{self._name} has no answer to sample {request.sample!r}")
        if request.epoch >= len(replies):
            raise BackendError(
                f"{self._name} has {len(replies)} of the {request.epoch + 1} answers to sample "
                f"{request.sample!r} that were asked for"
            )
        return replies[request.epoch]


def recorded(path: Path) -> RecordedBackend:
    """Open a file of recorded answers. Its identity is the hash of what it says.

    Raises DatasetError, with the line, for a file that is missing, empty or malformed.
    """
    rows = read_rows(path, what="recorded answers")
    return _recorded(((f"line {line} of {path}", row) for line, row in rows), path.name)


def recorded_rows(rows: Iterable[Mapping[str, Any]], *, name: str) -> RecordedBackend:
    """The same from rows in memory: `{"sample_id", "text", ...}`."""
    return _recorded(((f"row {k} of {name}", row) for k, row in enumerate(rows, start=1)), name)


def _recorded(rows: Iterable[tuple[str, Mapping[str, Any]]], name: str) -> RecordedBackend:
    replies: dict[str, list[Reply]] = defaultdict(list)
    digest = hashlib.sha256()
    for where, row in rows:
        _check(where, row)
        reply = _reply(row)
        if flaw := flaw_of(reply):
            raise DatasetError(f"{where} {flaw}")
        replies[str(row["sample_id"])].append(reply)
        digest.update(json.dumps(row, sort_keys=True, default=str).encode())
    return RecordedBackend(
        {sample: tuple(several) for sample, several in replies.items()}, identity=digest.hexdigest(), name=name
    )


def _reply(row: Mapping[str, Any]) -> Reply:
    return Reply(
        text=row["text"],
        input_tokens=row.get("input_tokens"),
        output_tokens=row.get("output_tokens"),
        latency_s=row.get("latency_s"),
        finish=row.get("finish", "stop"),
        logprobs=None if row.get("logprobs") is None else tuple(row["logprobs"]),
        cost_usd=row.get("cost_usd"),
    )


def _check(where: str, row: Mapping[str, Any]) -> None:
    for wanted in ("sample_id", "text"):
        if row.get(wanted) is None:
            raise DatasetError(f"{where} has no {wanted!r}: recorded answers need 'sample_id' and 'text'")
    if not isinstance(row["text"], str):
        raise DatasetError(f"{where} has a 'text' of type {type(row['text']).__name__}: it must be a string")
    if not (row.get("cost_usd") is None or _is_number(row["cost_usd"])):
        raise DatasetError(f"{where} has cost_usd {row['cost_usd']!r}: write US dollars as a number, or leave it out")
    logprobs = row.get("logprobs")
    if not (logprobs is None or (isinstance(logprobs, list) and all(map(_is_number, logprobs)))):
        raise DatasetError(
            f"{where} has logprobs {logprobs!r:.60}: write a list of numbers, one a token, or leave it out"
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
