"""Reads the prompts that an arm was sent, as they were sent, or as hashes: equal ones are equal prompts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pytest_crucible.records import Sample
from pytest_crucible.records.calls import CallColumns
from pytest_crucible.store.outcomes import read_columns
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import form_of, messages_of, sample_texts, split_form, text_of_input


class Form(NamedTuple):
    """Messages with references to texts of their sample."""

    parts: Sequence[str]
    """Texts and names of references, in turn."""
    around: Sequence[str] | None
    """The texts around the sample's input, where each reference is to the whole of it."""


def load_prompts(store: RunStore, dataset: str, arms: Sequence[CallColumns]) -> list[dict[int, tuple[int, ...]]]:
    """Return, by arm, a hash of each prompt that it was sent for its first reply to a sample, by the sample's position.

    Of replies within a conversation only their places count: another reply to one question does not make another prompt.
    """
    keys = {form for calls in arms for form in calls.forms if form is not None}
    samples = _load_samples(store, dataset) if any(calls.positions for calls in arms) else {}
    forms = _read_forms(store, keys)
    return [_hash_prompts(calls, samples, forms) for calls in arms]


def load_twin_prompts(store: RunStore, dataset: str, variant: str, calls: CallColumns) -> dict[int, tuple[int, ...]]:
    """Return the same of an arm's calls about the twins of a variant, by its hash: of those whose input is not the sample's."""
    samples = _load_samples(store, dataset) if calls.positions else {}
    query = "SELECT position, CAST(input AS TEXT) FROM twins WHERE variant = :variant AND reason IS NULL"
    twins = {
        position: (text or "null", samples[position][1])
        for position, text in store.rows(query, variant=variant)
        if position in samples and (text or "null") != samples[position][0]
    }
    forms = _read_forms(store, {form for form in calls.forms if form is not None})
    return _hash_prompts(calls, twins, forms)


def _hash_prompts(
    calls: CallColumns, samples: Mapping[int, tuple[str, str]], forms: Mapping[int, Form]
) -> dict[int, tuple[int, ...]]:
    first: dict[int, int] = {}
    prompts: dict[int, tuple[int, ...]] = {}
    for position, place, form, member in zip(calls.positions, calls.repeats, calls.forms, calls.members, strict=True):
        if not member and position in samples and first.setdefault(position, place) == place:
            # Of a run without texts of calls, its key alone is known: equal forms of one sample are equal prompts.
            is_known = form is None or form in forms
            prompt = (
                prompt_hash(forms.get(form or 0), *samples[position]) if is_known else hash((form, samples[position]))
            )
            prompts[position] = (*prompts.get(position, ()), prompt)
    return prompts


def prompt_hash(form: Form | None, prompt: str, metadata: str) -> int:
    """Return the hash of a prompt: of a form with the texts of its sample, or of the input itself; both are JSON."""
    if form is None:
        return hash(prompt if _is_text(prompt) else text_of_input(json.loads(prompt)))
    # Decoding the JSON of every sample takes longer than everything else.
    if form.around is not None and _is_text(prompt):
        return hash(prompt[1:-1].join(form.around))
    texts = sample_texts(json.loads(prompt), json.loads(metadata) or {})
    return hash("".join(texts.get(part, part) if odd % 2 else part for odd, part in enumerate(form.parts)))


def first_prompts(
    store: RunStore, samples: Mapping[int, Sample], forms: Mapping[int, int | None]
) -> dict[int, tuple[Any, Any]]:
    """Return by position the first prompt of a unit as it was sent, and with references in place of its sample's texts.

    `forms` has the keys of the forms of their messages. A prompt that refers to a text that is not stored is left out.
    """
    keys = {key for key in forms.values() if key is not None}
    bodies = _load_forms(store, keys)
    prompts = {}
    for position, sample in samples.items():
        texts, key = sample_texts(sample.input, sample.metadata or {}), forms[position]
        form = form_of(sample.input, texts) if key is None else bodies.get(key)
        with contextlib.suppress(KeyError):
            if form is not None:
                prompts[position] = (messages_of(form, texts), json.loads(form, strict=False))
    return prompts


def read_form(text: str) -> Form:
    """Return the form that is stored as a text."""
    parts = split_form(text)
    return Form(parts, parts[::2] if set(parts[1::2]) <= {"i0"} else None)


def _is_text(prompt: str) -> bool:
    return prompt.startswith('"')


def _load_samples(store: RunStore, dataset: str) -> Mapping[int, tuple[str, str]]:
    query = "SELECT position, CAST(input AS TEXT), CAST(metadata AS TEXT) FROM samples WHERE dataset = :dataset"
    with store.connect() as connection:
        positions, inputs, metadata = read_columns(connection.execute(query, dataset=dataset), 3)
    texts = ([text or "null" for text in column] for column in (inputs, metadata))
    return dict(zip(positions, zip(*texts, strict=True), strict=True))


def _read_forms(store: RunStore, keys: set[int]) -> Mapping[int, Form]:
    return {key: read_form(form) for key, form in _load_forms(store, keys).items()}


def _load_forms(store: RunStore, keys: set[int]) -> Mapping[int, str]:
    if not keys:
        return {}
    # Imported here: most tests send the input of the sample, which has no form.
    from pytest_crucible.store.forms import load_forms

    return load_forms(store.rows, keys)
