"""Record logs of OpenAI Evals: the JSON lines that `oaieval` writes (https://github.com/openai/evals)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_crucible.importers.results import ParsedFile, Results, Row
from pytest_crucible.importers.source import Source
from pytest_crucible.records import Reply, Value
from pytest_crucible.records.errors import SpecError


def recognises(source: Source) -> bool:
    """Return whether the first line has the specification of a run."""
    return bool(source.rows and "spec" in source.rows[0][1])


def read(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm on one eval. The events `match` and `metrics` score a sample; `error` loses it."""
    rows = source.rows or ()
    spec = rows[0][1]["spec"]
    samples: dict[str, _Sample] = {}
    for _, event in rows:
        if event.get("sample_id") is not None:
            samples.setdefault(str(event["sample_id"]), _Sample()).take(event["type"], event.get("data") or {})
    if not samples:
        raise SpecError(
            f"{source.path} has no events of single samples, only its specification and report: log them too"
        )
    sample_rows = [row for name, sample in samples.items() for row in sample.rows(name)]
    arm = (spec.get("completion_fns") or [source.path.stem])[0]
    is_whole = any("final_report" in row for _, row in rows)
    results = Results(
        task=spec.get("eval_name") or spec["base_eval"],
        arm=arm,
        rows=sample_rows,
        repeats=max(row.repeat for row in sample_rows) + 1,
        finished=is_whole,
    )
    notes = () if is_whole else (f"{source.path.name} has no final report: its run was cut short",)
    return ParsedFile(version="", results=[results], notes=notes)


@dataclass(slots=True)
class _Sample:
    """The events of one sample. A metric's second value belongs to the second repeat."""

    scores: dict[str, list[Value]] = field(default_factory=dict)
    prompt: Any = None
    replies: list[str] = field(default_factory=list)
    expected: Any = None
    error: str = ""

    def take(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "match":
            self.scores.setdefault("match", []).append(bool(data["correct"]))
            self.expected = data.get("expected", self.expected)
        elif kind == "metrics":
            for name, value in data.items():
                if isinstance(value, int | float):
                    self.scores.setdefault(name, []).append(value)
        elif kind == "sampling":
            self.prompt = data.get("prompt", self.prompt)
            self.replies.append(_text(data.get("sampled")))
        elif kind == "error":
            self.error = str(data.get("message") or data.get("error") or "error")

    def rows(self, name: str) -> Iterator[Row]:
        if not self.scores:
            yield Row(sample=name, error=self.error or "no event scores it", input=self.prompt)
        for repeat in range(max(map(len, self.scores.values()), default=0)):
            yield Row(
                sample=name,
                repeat=repeat,
                scores={metric: values[repeat] for metric, values in self.scores.items() if repeat < len(values)},
                reply=Reply(text=self.replies[repeat]) if repeat < len(self.replies) else None,
                input=self.prompt,
                expected=self.expected,
            )


def _text(sampled: Any) -> str:
    if isinstance(sampled, list) and len(sampled) == 1:
        return str(sampled[0])
    return "" if sampled is None else str(sampled)
