"""Reads the units of an arm with their calls, as metrics of calls score them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import JUDGE, ModelCall, Outcome, Plan, Reply, Unit
from pytest_crucible.records.errors import NotStored
from pytest_crucible.records.outcomes import FeatureRows, Place
from pytest_crucible.records.redaction import HIDDEN
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.records.usage import ROLE
from pytest_crucible.store.calls import unknown_calls
from pytest_crucible.store.database import Row, from_json
from pytest_crucible.store.forms import load_forms
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import all_samples, load_twins
from pytest_crucible.store.texts import SHORTEST_REFERENCE, messages_of, sample_texts, stored_text, text_form

TOOLS_STORED = 13
"""The format from which on the tools that a reply calls are stored with it."""


@dataclass(frozen=True)
class StoredArm:
    """An arm of a stored run, on the original samples or on a variant of them."""

    key: int
    number: int
    """Its place in the plan."""
    variant: int
    run: str
    source: str
    """The run whose replies were copied into it; empty for none."""
    plan: Plan


_ARMS = """
    SELECT arms.id, arms.number, COALESCE(arms.variant, 0), experiments.run, COALESCE(arms.reused_from, ''), experiments.plan
    FROM arms JOIN experiments ON experiments.id = arms.experiment
"""


def load_stored_arm(store: RunStore, key: int) -> StoredArm:
    """Return the arm with a key."""
    [arm] = _read_arms(store.rows(f"{_ARMS} WHERE arms.id = :key", key=key))
    return arm


def arms_of_test(
    store: RunStore, nodeid: str, name: str, variant: int, *, run: str, latest: bool
) -> Iterator[StoredArm]:
    """Yield the arms of other runs of a test, of one name: first those of complete experiments, or with `latest` the latest."""
    query = f"""
        {_ARMS} WHERE experiments.nodeid = :nodeid AND arms.name = :name AND COALESCE(arms.variant, 0) = :variant
        AND experiments.run <> :run ORDER BY {"" if latest else "experiments.finished DESC,"} arms.id DESC LIMIT {_MOST_ARMS}
    """
    yield from _read_arms(list(store.rows(query, nodeid=nodeid, name=name, variant=variant, run=run)))


# The plan of each is read, and earlier ones than these have hardly the same test.
_MOST_ARMS = 20


def _read_arms(rows: Any) -> Iterator[StoredArm]:
    for key, number, variant, run, source, text in rows:
        plan = from_plain(Plan, from_json(text))
        # Variants are numbered after all arms.
        yield StoredArm(key, number % len(plan.arms), variant, run, source, plan)


def missing_calls(store: RunStore, arm: StoredArm) -> str:
    """Return why the calls of an arm are not stored whole, as a sentence; empty if they are."""
    for run in filter(None, (arm.run, arm.source)):
        row = store.first("SELECT format FROM runs WHERE id = :run", run=run)
        if row is None:
            return f"run {run}, which has sent its calls, is not in the store"
        if why := unknown_calls(store, run):
            return why
        if (row[0] or 0) < TOOLS_STORED:
            return f"run {run} has store format {row[0]}, and the tools that replies call are stored from {TOOLS_STORED} on"
    return ""


def load_units(store: RunStore, arm: StoredArm, tables: Sequence[str] = ()) -> Iterator[Outcome]:
    """Yield the units of an arm that have a reply, with their calls, and their rows in these tables of features.

    Replies of calls have no numbers of tokens. Raises NotStored where calls are not there as they were sent.
    """
    if why := missing_calls(store, arm):
        raise NotStored(why)
    calls = _load_calls(store, arm)
    rows = _load_rows(store, arm, tables)
    query = f"""
        SELECT position, epoch, failure, skipped, input_tokens, output_tokens, {stored_text("replies")} FROM replies
        WHERE arm = :arm ORDER BY position, epoch
    """
    for position, epoch, failure, skipped, input_tokens, output_tokens, text in store.rows(query, arm=arm.key):
        reply = Reply(text=text or "", input_tokens=input_tokens, output_tokens=output_tokens)
        unit = Unit(position, arm.variant, arm.number, epoch)
        place = (position, epoch)
        yield Outcome(
            unit,
            reply=reply,
            failure=failure,
            skipped=bool(skipped),
            calls=calls.get(place, []),
            feature_rows=rows.get(place, {}),
        )


def _load_rows(store: RunStore, arm: StoredArm, tables: Sequence[str]) -> Mapping[Place, FeatureRows]:
    rows: dict[Place, FeatureRows] = defaultdict(dict)
    for name in tables:
        query = f"SELECT * FROM {name} WHERE arm = :arm ORDER BY position, epoch, number"
        with store.connect() as connection:
            for row in connection.named_rows(query, arm=arm.key):
                rows[row["position"], row["epoch"]].setdefault(name, []).append(row)
    return rows


def _load_calls(store: RunStore, arm: StoredArm) -> Mapping[Place, list[ModelCall]]:
    query = f"""
        SELECT calls.position, calls.epoch, calls.call, calls.request, calls.member, calls.tool_calls, calls.error,
            calls.has_texts, {stored_text("calls")} AS text, is_scored, {stored_text("replies")} AS scored
        FROM calls
        LEFT JOIN replies ON replies.arm = calls.arm AND replies.position = calls.position AND replies.epoch = calls.epoch
        WHERE calls.arm = :arm ORDER BY calls.position, calls.epoch, calls.call, calls.member
    """
    of_unit: dict[Place, list[Row]] = defaultdict(list)
    with store.connect() as connection:
        for row in connection.named_rows(query, arm=arm.key):
            of_unit[row["position"], row["epoch"]].append(row)
        keys = {row["tool_calls"] for rows in of_unit.values() for row in rows} - {None}
        forms = load_forms(connection.execute, keys, arm=arm.key)
    texts = _sample_texts(store, arm, forms)
    return {place: list(_read_calls(rows, forms, texts.get(place[0], {}))) for place, rows in of_unit.items()}


def _sample_texts(store: RunStore, arm: StoredArm, forms: Mapping[int, str]) -> Mapping[int, Mapping[str, str]]:
    """Return the texts of samples that forms may refer to, by position."""
    if not forms:
        return {}
    samples = all_samples(store, arm.plan.dataset_sha256)
    twin = arm.plan.draws(arm.number).twin(arm.variant)
    twins = load_twins(store, arm.plan.variants[twin - 1].sha256) if twin else {}
    inputs = [twins[at]["input"] if at in twins else sample.input for at, sample in enumerate(samples)]
    return {at: sample_texts(inputs[at], dict(sample.metadata)) for at, sample in enumerate(samples)}


def _read_calls(rows: Sequence[Row], forms: Mapping[int, str], of_sample: Mapping[str, str]) -> Iterator[ModelCall]:
    """Yield the calls of a unit. Raises NotStored."""
    texts = dict(of_sample)
    for row in rows:
        member, text = row["member"], row["scored"] if row["is_scored"] else row["text"]
        if member and not member.startswith((JUDGE, ROLE)):
            raise NotStored("its arm is an ensemble, whose members are scored apart")
        if row["has_texts"] is not None:
            raise NotStored("its calls were recorded with --crucible-trace=off")
        tools = _read_tools(row["tool_calls"], forms, texts)
        reply = None if text is None else Reply(text=text, tool_calls=tools)
        yield ModelCall("", False, row["request"], None, "", reply=reply, error=row["error"] or "", judge=member)
        if not member and text is not None and len(text) >= SHORTEST_REFERENCE:
            texts[f"r{row['call']}"] = text_form(text)


def _read_tools(form: int | None, forms: Mapping[int, str], texts: Mapping[str, str]) -> tuple[Mapping[str, Any], ...]:
    if form is None:
        return ()
    try:
        tools = messages_of(forms[form], texts)
    except KeyError:
        raise NotStored("the tools that a reply calls are no longer stored") from None
    if HIDDEN in json.dumps(tools):
        raise NotStored("a key is hidden in the tools that a reply calls")
    return tuple(tools)
