"""Rows of named variants: their names by number, and the twin of each sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_crucible.records import UNCHANGED, NoTwin, Plan, Sample, Variant
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.serialize import plain_or_repr
from pytest_crucible.store.sanitize import sanitize_text

Row = dict[str, Any]


def variant_rows(experiment: int, plan: Plan) -> list[Row]:
    """Return the rows of `variants`: each form of the prompt of the original samples, then those of their twins."""
    prompts = max(len(plan.prompts), 1)
    rows: list[tuple[int, int, str | None, str | None]] = [(k, 0, None, None) for k in range(prompts)]
    rows += [
        (k, twin, variant.name, variant.sha256)
        for twin, variant in enumerate(plan.variants, start=1)
        for k in range(prompts)
    ]
    names = ("prompt", "twin", "name", "sha256")
    return [
        {"experiment": experiment, "number": number, **dict(zip(names, row, strict=True))}
        for number, row in enumerate(rows)
    ]


def twin_row(sha256: str, position: int, sample: Sample, variant: Variant, hide: Callable[[str], str]) -> Row:
    """Return the row of a sample's twin, or of the reason why it has none."""
    twin = variant.twin(sample.id)
    row = {"variant": sha256, "position": position, "input": None, "expected": None, "reason": None, "facts": None}
    if isinstance(twin, NoTwin):
        return {**row, "reason": sanitize_text(hide(twin.reason))}
    expected = sample.expected if twin.expected is UNCHANGED else twin.expected
    facts = redact(plain_or_repr(twin.facts), hide) if twin.facts else None
    return {
        **row,
        "input": redact(plain_or_repr(twin.input), hide),
        "expected": redact(plain_or_repr(expected), hide),
        "facts": facts,
    }
