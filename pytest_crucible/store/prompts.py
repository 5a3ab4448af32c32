"""Reads which prompts an arm was sent, as hashes: equal ones are equal prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from pytest_crucible.records import Draws
from pytest_crucible.store import schema
from pytest_crucible.store.outcomes import of_arm, place_of, read_columns
from pytest_crucible.store.replies import BATCH_SIZE
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import sample_texts, split_form, text_of_input, unpack_form


def load_prompts(
    store: RunStore, experiment: int, number: int, draws: Draws, dataset: str
) -> dict[int, tuple[int, ...]]:
    """Return a hash of each prompt that an arm was sent for its first reply to a sample, by the sample's position.

    Of replies within a conversation only their places count: another reply to one question does not make another prompt.
    """
    table = schema.calls
    query = (
        select(table.c.position, place_of(table, draws).label("place"), table.c.messages)
        .select_from(table.join(schema.arms, schema.arms.c.id == table.c.arm))
        .where(of_arm(experiment, number), table.c.member == "")
        .order_by(table.c.position, "place", table.c.call)
    )
    with store.connect() as connection:
        columns = read_columns(connection.execute(query), 3)
    samples, forms = _load_samples(store, dataset) if columns[0] else {}, _load_forms(store, set(columns[2]) - {None})
    first: dict[int, int] = {}
    prompts: dict[int, list[int]] = {}
    for position, place, form in zip(*columns, strict=True):
        if first.setdefault(position, place) == place:
            prompts.setdefault(position, []).append(_hash(forms.get(form), *samples[position]))
    return {position: tuple(hashes) for position, hashes in prompts.items()}


def _hash(form: list[str] | None, prompt: Any, metadata: Any) -> int:
    """Return the hash of a prompt: of a form with the texts of its sample, or of the input itself."""
    if form is None:
        return hash(text_of_input(prompt))
    texts = sample_texts(prompt, metadata or {}) if len(form) > 1 else {}
    # Texts and names of references alternate.
    return hash("".join(texts.get(part, part) if odd % 2 else part for odd, part in enumerate(form)))


def _load_samples(store: RunStore, dataset: str) -> Mapping[int, tuple[Any, Any]]:
    table = schema.samples
    query = select(table.c.position, table.c.input, table.c.metadata).where(table.c.dataset == dataset)
    with store.connect() as connection:
        positions, *texts = read_columns(connection.execute(query), 3)
    return dict(zip(positions, zip(*texts, strict=True), strict=True))


def _load_forms(store: RunStore, keys: set[int]) -> Mapping[int, list[str]]:
    table, ordered = schema.messages, sorted(keys)
    forms: dict[int, list[str]] = {}
    for start in range(0, len(ordered), BATCH_SIZE):
        query = select(table.c.id, table.c.body).where(table.c.id.in_(ordered[start : start + BATCH_SIZE]))
        forms |= {key: split_form(unpack_form(body)) for key, body in store.rows(query)}
    return forms
