"""Named variants in the run store: their names by number, and the twin of each sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from pytest_crucible.records import UNCHANGED, NoTwin, Plan, Sample, Variant
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.serialize import plain_or_repr
from pytest_crucible.store import schema
from pytest_crucible.store.engine import explain_errors
from pytest_crucible.store.sanitize import sanitize_text

if TYPE_CHECKING:
    from pytest_crucible.store.runs import RunStore

Row = dict[str, Any]


def variant_rows(experiment: int, plan: Plan) -> list[Row]:
    """Return the rows of `variants`: each form of the prompt of the samples as they are, then those of their twins."""
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


def samples_without_twin(store: RunStore, sha256: str) -> Mapping[int, str]:
    """Return the positions of the samples that a variant does not apply to, each with the reason."""
    table = schema.twins
    query = select(table.c.position, table.c.reason).where(table.c.variant == sha256, table.c.reason.is_not(None))
    with explain_errors(store.location), store.engine.connect() as connection:
        return {row.position: row.reason for row in connection.execute(query)}


def load_twins(store: RunStore, sha256: str, position: int | None = None) -> Mapping[int, Mapping[str, Any]]:
    """Return input, expected, reason and facts of a variant's twins by position: of all samples, or of one."""
    table = schema.twins
    query = select(table).where(table.c.variant == sha256)
    if position is not None:
        query = query.where(table.c.position == position)
    with explain_errors(store.location), store.engine.connect() as connection:
        return {row["position"]: dict(row) for row in connection.execute(query).mappings()}
