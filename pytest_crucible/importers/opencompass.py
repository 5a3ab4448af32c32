"""Results of OpenCompass: `results/MODEL/DATASET.json` of a run, beside `predictions/` (https://opencompass.readthedocs.io)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.importers.results import NoSampleScoresError, ParsedFile, Results, Row
from pytest_crucible.importers.source import Source, read_beside
from pytest_crucible.records import MetricFacts, Reply
from pytest_crucible.records.serialize import canonical

# The fields that OpenCompass itself counts as right or wrong (icl_base_evaluator.py).
_CORRECT = ("correct", "is_correct", "cascade_correct")
Record = Mapping[str, Any]


def recognises(source: Source) -> bool:
    """Return whether the document has details: of examples, or of prompts under their numbers."""
    details = source.document.get("details") if isinstance(source.document, dict) else None
    if isinstance(details, list):
        return bool(details) and "example_abbr" in details[0]
    return isinstance(details, dict) and details.get("type") in ("GEN", "PPL") and "0" in details


def read(source: Source, columns: Mapping[str, str]) -> ParsedFile:
    """Return one arm on one task, named by folder and file. The runs of a dataset with `n` are repeats of its samples."""
    examples = list(_examples(source.document["details"]))
    metrics = [name for name in _CORRECT if any(name in example for _, example in examples)]
    if not metrics:
        raise NoSampleScoresError(
            f"{source.path} has details, but no sample is right or wrong: its evaluator has only a total. Choose one with "
            "details, such as AccwithDetailsEvaluator, or write a table with a row for each sample"
        )
    repeats = max(len(example[name]) for _, example in examples for name in metrics if name in example)
    predictions = _predictions(source)
    rows = [
        _row(sample, repeat, example, metrics, predictions.get(str(repeat * len(examples) + k)))
        for k, (sample, example) in enumerate(examples)
        for repeat in range(repeats)
    ]
    results = Results(
        task=source.path.stem,
        arm=source.path.resolve().parent.name,
        rows=rows,
        facts={name: MetricFacts(name=name, low=0.0, high=1.0) for name in metrics},
        repeats=repeats,
    )
    return ParsedFile(version="", results=[results])


def _examples(details: Any) -> Iterator[tuple[str, Mapping[str, Sequence[Any]]]]:
    """Yield the id of each sample, and its fields with a value for each repeat."""
    if isinstance(details, list):
        for example in details:
            yield example["example_abbr"], {name: cell for name, cell in example.items() if isinstance(cell, list)}
    else:
        for number, entry in details.items():
            if number != "type":
                yield number, {name: [cell] for name, cell in entry.items()}


def _row(
    sample: str, repeat: int, example: Mapping[str, Sequence[Any]], metrics: Sequence[str], prediction: Record | None
) -> Row:
    """Return the row of a sample in one repeat. Its prompt is not its identity: each model has a template of its own."""
    values = {name: next(iter(example.get(name, ())[repeat : repeat + 1]), None) for name in metrics}
    return Row(
        sample=sample,
        repeat=repeat,
        scores={name: value for name, value in values.items() if value is not None},
        lost={name: "the evaluator gave no value" for name, value in values.items() if value is None},
        reply=Reply(text=_text(prediction["prediction"])) if prediction else None,
        expected=prediction.get("gold") if prediction else None,
    )


def _predictions(source: Source) -> Record:
    """Return the replies by their position: all samples, then all samples again for each further repeat."""
    path = source.path.resolve()
    results = path.parent.parent
    beside = results.parent / "predictions" / path.parent.name / path.name
    return read_beside(beside) if results.name == "results" else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)
