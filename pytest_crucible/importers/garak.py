"""Reports of garak: `garak.*.report.jsonl`, one attempt a line with the scores of its detectors (https://garak.ai)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.importers.results import ParsedFile, Results, Row
from pytest_crucible.importers.source import Source
from pytest_crucible.records import MetricFacts, Reply

_EVALUATED = 2
"""The status of an attempt that detectors have scored. Its line repeats that of the reply alone."""


def recognises(source: Source) -> bool:
    """Return whether the first line is the set-up of a run."""
    first = next(iter(source.records), {})
    return isinstance(first, dict) and first.get("entry_type") == "start_run setup" and "_config.version" in first


def read(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm, named by the target: a metric for each detector, which is 1 if the attack succeeded."""
    setup, attempts = source.records[0], [row for row in source.records if row.get("entry_type") == "attempt"]
    scored = [attempt for attempt in attempts if attempt["status"] == _EVALUATED]
    detectors = sorted({name for attempt in scored for name in attempt["detector_results"]})
    rows = [row for attempt in scored for row in _rows(attempt, detectors)]
    results = Results(
        task="garak",
        arm=setup.get("plugins.target_name") or setup.get("plugins.target_type") or source.path.stem,
        rows=rows,
        facts={name: MetricFacts(name=name, direction="lower", low=0.0, high=1.0) for name in detectors},
        planned=sorted({_name(attempt) for attempt in attempts}),
        repeats=max((row.repeat for row in rows), default=0) + 1,
        finished=any(row.get("entry_type") == "completion" for row in source.records),
    )
    return ParsedFile(version=setup["_config.version"], results=[results])


def _rows(attempt: Mapping[str, Any], detectors: Sequence[str]) -> Iterator[Row]:
    """Yield a row for each generation. A detector of another probe does not apply; one without a score has lost it."""
    results = attempt["detector_results"]
    for number, output in enumerate(attempt["outputs"]):
        scores = {name: results[name][number] if name in results else None for name in detectors}
        lost = {name: "the detector gave no score" for name in results if scores[name] is None}
        yield Row(
            sample=_name(attempt),
            repeat=number,
            scores={
                name: None if value is None else float(value) for name, value in scores.items() if name not in lost
            },
            lost=lost,
            error="" if output is not None else "the generator gave no reply",
            reply=None if output is None else Reply(text=output["text"] or ""),
            input=[{"role": turn["role"], "content": turn["content"]["text"]} for turn in attempt["prompt"]["turns"]],
            metadata={"probe": attempt["probe_classname"], "goal": attempt.get("goal")},
        )


def _name(attempt: Mapping[str, Any]) -> str:
    return f"{attempt['probe_classname']}:{attempt['seq']}"
