"""Backends that call no model: recorded replies, and a function that answers in tests.

Recorded replies are one JSON object a line: `sample_id` and `text`; optional `output_tokens`, `input_tokens`, `latency_s`,
`finish`, `logprobs`, `cost_usd`. Several lines with one sample_id are its repeats, in file order.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.backends.protocol import find_flaw
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import BackendError, DatasetError, describe_type
from pytest_crucible.records.function_source import sources
from pytest_crucible.records.row_files import read_rows
from pytest_crucible.stats.number_format import quantity


class RecordedBackend:
    """Answers from replies by sample id: the k-th reply for the k-th repeat."""

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
            raise BackendError(f"{self._name} has no reply to sample {request.sample!r:.200}")
        if request.repeat >= len(replies):
            raise BackendError(
                f"{self._name} has {quantity(len(replies), 'row')} for sample {request.sample!r:.200}, and repeat "
                f"{request.repeat + 1} needs a row of its own: add it, or run fewer repeats"
            )
        return replies[request.repeat]


def load_recorded(path: Path) -> RecordedBackend:
    """Open a file of recorded replies, identified by its content. Raises DatasetError, with the line."""
    # Logarithms of probabilities may be infinite.
    rows = read_rows(path, what="recorded replies", allow_nan=True)
    return _build_backend(((f"line {line} of {path}", row) for line, row in rows), path.name)


def recorded_rows(rows: Iterable[Mapping[str, Any]], *, name: str) -> RecordedBackend:
    """Return a backend of rows in memory, such as `{"sample_id": "a", "text": "4"}`. Raises DatasetError."""
    return _build_backend(((f"row {k} of {name}", row) for k, row in enumerate(rows, start=1)), name)


def _build_backend(rows: Iterable[tuple[str, Mapping[str, Any]]], name: str) -> RecordedBackend:
    replies: dict[str, list[Reply]] = defaultdict(list)
    # Of the parsed rows: spaces and the order of keys do not make another checkpoint.
    digest = hashlib.sha256()
    for where, row in rows:
        _check(where, row)
        logprobs = row.get("logprobs")
        reply = Reply(
            text=row["text"],
            input_tokens=row.get("input_tokens"),
            output_tokens=row.get("output_tokens"),
            latency_s=row.get("latency_s"),
            cost_usd=row.get("cost_usd"),
            finish=row.get("finish", "stop"),
            logprobs=None if logprobs is None else tuple(logprobs),
        )
        if flaw := find_flaw(reply):
            raise DatasetError(f"{where} {flaw}")
        replies[str(row["sample_id"])].append(reply)
        digest.update(json.dumps(row, sort_keys=True, default=str).encode())
    return RecordedBackend(
        {sample: tuple(several) for sample, several in replies.items()}, identity=digest.hexdigest(), name=name
    )


def _check(where: str, row: Mapping[str, Any]) -> None:
    for field in ("sample_id", "text"):
        if row.get(field) is None:
            raise DatasetError(f"{where} has no {field!r}: recorded replies need 'sample_id' and 'text'")
    if not isinstance(row["text"], str):
        raise DatasetError(f"{where} has {describe_type(row['text'])} as its 'text': write a string")
    if not (row.get("cost_usd") is None or _is_number(row["cost_usd"])):
        raise DatasetError(f"{where} has cost_usd {row['cost_usd']!r}: write US dollars as a number, or leave it out")
    logprobs = row.get("logprobs")
    if not (logprobs is None or (isinstance(logprobs, list) and all(map(_is_number, logprobs)))):
        raise DatasetError(
            f"{where} has logprobs {logprobs!r:.60}: write a list of numbers, one a token, or leave it out"
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


class ScriptedBackend:
    """Answers with the string or Reply that `script(request)` returns, and raises what it raises.

    Each reply comes after `latency_s`, without blocking, and records how long it took.
    """

    simulated = True

    def __init__(
        self, script: Callable[[Request], str | Reply], *, latency_s: float = 0.0, identity: str | None = None
    ) -> None:
        # A hash of the script's source and of all that it reads: equal scripts are one checkpoint.
        self.identity = identity or hashlib.sha256("\n".join(sources(script)).encode()).hexdigest()
        self._script = script
        self._latency_s = latency_s

    async def generate(self, request: Request) -> Reply:
        started = time.perf_counter()
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        answer = self._script(request)
        if not isinstance(answer, str | Reply):
            raise BackendError(f"the script returned {describe_type(answer)}: return a string or a Reply")
        return answer if isinstance(answer, Reply) else Reply(text=answer, latency_s=time.perf_counter() - started)
