"""Training a linear guard, for `crucible guards train`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.commands.dataset_argument import parse_field
from pytest_crucible.datasets import load_file
from pytest_crucible.metrics.guards import read_expected
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.labels import label_number
from pytest_crucible.records.suggestions import closest_name

# Common names for the field of labels.
_LABEL_NAMES = ("label", "labels", "target", "class", "attack", "injection")
_LABELS = '1 or 0, true or false, "attack" or "benign"'


def train_guard(file: str, output: str, fields: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Fit a guard to a file of labelled texts and write it. Returns lines and a document about it.

    Raises SpecError for texts or labels that cannot be used, and for a file that cannot be written.
    """
    from pytest_crucible.guards.linear import fit_linear, save_linear

    renamed = dict(map(parse_field, fields))
    samples = load_file(Path(file), fields=renamed, has_option=True)
    labels = _read_labels(samples, renamed.get("expected", "expected"))
    try:
        model = fit_linear([str(sample.input) for sample in samples], labels)
    except ValueError as error:
        raise SpecError(f"{file}: {error}") from None
    try:
        save_linear(model, Path(output))
    except OSError as error:
        raise SpecError(f"{output} cannot be written: {error}") from None
    attacks, benign = sum(labels), len(labels) - sum(labels)
    lines = [
        f"{output}: fitted to {attacks:,} attacks and {benign:,} benign texts",
        f'use it in crucible.toml: kind = "linear", path = "{output}"',
    ]
    return lines, {"file": output, "attacks": attacks, "benign": benign}


def _read_labels(samples: Sequence[Sample], field: str) -> list[bool]:
    labels = [label_number(read_expected(sample.expected)) for sample in samples]
    unread = next((sample for sample, label in zip(samples, labels, strict=True) if label is None), None)
    if unread is None:
        return [label == 1 for label in labels]
    if unread.expected is not None:
        raise SpecError(f"label {unread.expected!r:.60} of sample {unread.id}: expected {_LABELS}")
    if any(label is not None for label in labels) or not unread.metadata:
        raise SpecError(f"sample {unread.id} has no label in {field!r}: write {_LABELS}")
    likely = closest_name(field, unread.metadata) or next(filter(unread.metadata.__contains__, _LABEL_NAMES), "...")
    names = ", ".join(map(repr, unread.metadata))
    raise SpecError(
        f"sample {unread.id} has no label in {field!r} (its other fields: {names}): "
        f"name the field with --field expected={likely}"
    )
