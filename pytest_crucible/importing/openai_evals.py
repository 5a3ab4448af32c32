"""Record logs of OpenAI Evals: the JSON lines that `oaieval` writes (https://github.com/openai/evals)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.importing.results import Found, Results, Row
from pytest_crucible.importing.source import Source
from pytest_crucible.records import Reply, Value


def recognises(source: Source) -> bool:
    """The first line has the specification of the run."""
    return bool(source.rows and "spec" in source.rows[0][1])


def read(source: Source, columns: Mapping[str, str]) -> Found:
    """One arm on one eval. What a sample said is scored by its events `match` and `metrics`; `error` loses it."""
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
    found = [row for name, one in samples.items() for row in one.rows(name)]
    arm = (spec.get("completion_fns") or [source.path.stem])[0]
    is_whole = any("final_report" in row for _, row in rows)
    results = Results(
        task=spec.get("eval_name") or spec["base_eval"],
        arm=arm,
        rows=found,
        epochs=max(row.epoch for row in found) + 1,
        finished=is_whole,
    )
    notes = () if is_whole else (f"{source.path.name} has no final report: its run was cut short",)
    return Found(version="", results=[results], notes=notes)


@dataclass(slots=True)
class _Sample:
    """The events of one sample. A metric that is told again is of its next repeat."""

    scores: dict[str, list[Value]] = field(default_factory=dict)
    asked: Any = None
    said: list[str] = field(default_factory=list)
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
            self.asked = data.get("prompt", self.asked)
            self.said.append(_text(data.get("sampled")))
        elif kind == "error":
            self.error = str(data.get("message") or data.get("error") or "error")

    def rows(self, name: str) -> Iterator[Row]:
        if not self.scores:
            yield Row(sample=name, error=self.error or "no event scores it", input=self.asked)
        for epoch in range(max(map(len, self.scores.values()), default=0)):
            yield Row(
                sample=name,
                epoch=epoch,
                scores={metric: values[epoch] for metric, values in self.scores.items() if epoch < len(values)},
                reply=Reply(text=self.said[epoch]) if epoch < len(self.said) else None,
                input=self.asked,
                expected=self.expected,
            )


def _text(sampled: Any) -> str:
    if isinstance(sampled, list) and len(sampled) == 1:
        return str(sampled[0])
    return "" if sampled is None else str(sampled)
