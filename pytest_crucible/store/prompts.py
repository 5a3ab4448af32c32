"""Reads which prompts an arm was sent, as hashes: equal ones are equal prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping

import sqlalchemy as sa

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
        sa.select(table.c.position, place_of(table, draws).label("place"), table.c.messages)
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
            prompts.setdefault(position, []).append(prompt_hash(forms.get(form), *samples[position]))
    return {position: tuple(hashes) for position, hashes in prompts.items()}


def prompt_hash(form: list[str] | None, prompt: str, metadata: str) -> int:
    """Return the hash of a prompt: of a form with the texts of its sample, or of the input itself; both are JSON."""
    if form is None:
        return hash(prompt if _is_text(prompt) else text_of_input(json.loads(prompt)))
    names = form[1::2]
    # Decoding the JSON of every sample takes longer than everything else.
    if _is_text(prompt) and all(name == "i0" for name in names):
        texts = {"i0": prompt[1:-1]}
    else:
        texts = sample_texts(json.loads(prompt), json.loads(metadata) or {})
    # Texts and names of references alternate.
    return hash("".join(texts.get(part, part) if odd % 2 else part for odd, part in enumerate(form)))


def _is_text(prompt: str) -> bool:
    return prompt.startswith('"')


def _load_samples(store: RunStore, dataset: str) -> Mapping[int, tuple[str, str]]:
    table = schema.samples
    texts = (sa.func.coalesce(sa.cast(column, sa.Text), "null") for column in (table.c.input, table.c.metadata))
    query = sa.select(table.c.position, *texts).where(table.c.dataset == dataset)
    with store.connect() as connection:
        positions, *columns = read_columns(connection.execute(query), 3)
    return dict(zip(positions, zip(*columns, strict=True), strict=True))


def _load_forms(store: RunStore, keys: set[int]) -> Mapping[int, list[str]]:
    table, ordered = schema.messages, sorted(keys)
    forms: dict[int, list[str]] = {}
    for start in range(0, len(ordered), BATCH_SIZE):
        query = sa.select(table.c.id, table.c.body).where(table.c.id.in_(ordered[start : start + BATCH_SIZE]))
        forms |= {key: split_form(unpack_form(body)) for key, body in store.rows(query)}
    return forms
