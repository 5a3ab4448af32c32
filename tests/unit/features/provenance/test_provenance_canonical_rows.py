"""A row has one form, before it is written and after it is read, in SQLite and in PostgreSQL."""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plan_builders import plan_of

from pytest_crucible.features.provenance.canonical_rows import row_hashes, sealed_columns
from pytest_crucible.features.provenance.verify import verify_run
from pytest_crucible.records import Event, Lost, ModelCall, Observation, Outcome, Reply, Sample, Unit
from pytest_crucible.store import schema
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.table import Column

# Half a surrogate pair, NUL, controls, and other scripts.
TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=120) | st.text("a\0\ud83d\x01", min_size=79)
FLOATS = st.floats() | st.sampled_from([-0.0, 5e-324, 1e308, 2.0**53, 2.0**63, 12.0, math.inf, 0.1 + 0.2])
# An INTEGER of PostgreSQL has 32 bits.
COUNTS = st.integers(-(2**31), 2**31 - 1) | st.floats(-1e6, 1e6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS.filter(math.isfinite) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
EVENTS = st.builds(
    Event,
    name=st.just("request.stop"),
    at=FLOATS.filter(math.isfinite),
    seconds=st.none() | FLOATS,
    sample=TEXTS,
    facts=st.fixed_dictionaries({"error": TEXTS}, optional={"input_tokens": COUNTS, "cost_usd": FLOATS, "more": JSON}),
)
ROWS = st.tuples(TEXTS, st.none() | FLOATS, st.none() | FLOATS | st.booleans() | TEXTS, JSON)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    if request.param == "sqlite":
        url = str(tmp_path_factory.mktemp("seals") / "runs.db")
    else:
        url = request.getfixturevalue("_postgresql_server")
    with contextlib.closing(RunStore(url)) as opened:
        yield opened


def write(store: RunStore, rows: list[Any], events: list[Event]) -> str:
    """Store a run with a sample, call, reply, score and loss for each row, and return its id."""
    run = secrets.token_hex(6)
    samples = [Sample(id=f"q{k}", input=row[3], expected=row[3]) for k, row in enumerate(rows)]
    store.begin_run(run, started="now", seed=7, alpha=0.05, correction="holm", environment={"rows": rows[0][3]})
    experiment = store.add_experiment(run, replace(plan_of("v2", n=len(rows)), dataset_sha256=run), samples)
    arm = store.add_arm(experiment, 0, "v2", "")
    with contextlib.closing(store.writer()) as writer:
        for event in events:
            writer.tell(run, event)
        for position, (text, latency_s, value, _) in enumerate(rows):
            unit, reply = Unit(position, 0, 0, 0), Reply(text=text, latency_s=latency_s)
            call = ModelCall(text=text, is_json=False, request=1, parameters={"stop": text}, system="", reply=reply)
            observations, lost = [Observation(unit, "m", value)], [Lost(unit, "other", "scorer", text)]
            outcome = Outcome(unit, reply=reply, calls=[call], sample=samples[position], detail=text, started=latency_s)
            writer.add(outcome, arm, observations, lost)
    return run


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(rows=st.lists(ROWS, min_size=1, max_size=4), events=st.lists(EVENTS, max_size=3))
def test_no_row_is_taken_for_an_edited_one(store, rows, events):
    verification = verify_run(store, write(store, rows, events))

    assert verification is not None
    assert verification.is_intact


def test_both_databases_give_equal_hashes():
    sqlite = {
        "arm": [1],
        "position": [0],
        "epoch": [0],
        "metric": ["m"],
        "value": [0.0],
        "is_bool": [1],
        "label": [None],
    }
    postgresql = {**sqlite, "value": [-0.0], "is_bool": [True], "reason": [None]}

    assert row_hashes(schema.observations, sqlite, 1) == row_hashes(schema.observations, postgresql, 1)


@pytest.mark.parametrize(
    ("text", "number"), [("12", 12), ("12.0", 12), ("-0.5", -0.5), ("1e3", 1000), (str(10**30), 1e30)]
)
def test_a_number_in_a_json_column_has_one_form(text, number):
    """SQLite stores the JSON text 12.0 as the integer 12, PostgreSQL as it is."""
    assert row_hashes(schema.samples, {"input": [text]}, 1) == row_hashes(schema.samples, {"input": [number]}, 1)


def test_a_hash_is_what_it_was():
    """Another version of Python, or of this package, must verify what this one has sealed."""
    columns = {"arm": [1], "position": [70000], "epoch": [0], "metric": ["é\ud83d"], "value": [0.1], "is_bool": [0]}

    [digest] = row_hashes(schema.observations, columns, 1)

    assert digest.hex() == "c4addf846a4c7540b2194015eb7c44aa302f67e87552628ad5d8703dd59f0b89"


def test_a_column_of_a_later_format_changes_no_hash_until_it_has_a_value(monkeypatch):
    columns = {"arm": [1], "position": [0], "epoch": [0], "metric": [""], "reason": ["error"]}
    before = row_hashes(schema.lost, columns, 1)
    later = replace(schema.lost, columns=(*schema.lost.columns, Column("since", "FLOAT")))
    monkeypatch.setattr(schema, "ADDED", (*schema.ADDED, ((later, "since"),)))
    sealed_columns.cache_clear()

    assert row_hashes(later, {**columns, "since": [None]}, 1) == before
    assert row_hashes(later, {**columns, "since": [1.0]}, 1) != before


@pytest.mark.parametrize("table", schema.all_tables().values(), ids=lambda table: table.name)
def test_columns_of_later_formats_stand_last(table):
    """A row is hashed by the order of its columns."""
    names, later = sealed_columns(table)

    assert [name for name in table.names if name in {*names, *later}] == [*names, *later]


CALLS = st.fixed_dictionaries(
    {
        "arm": st.just(1),
        "position": st.integers(0, 9),
        "epoch": st.just(0),
        "call": st.just(1),
        "member": st.sampled_from(["", "v2"]),
        "finish": st.none() | st.sampled_from(["", "length"]),
        "has_texts": st.none() | st.booleans(),
    }
)


@given(st.lists(CALLS, min_size=1, max_size=6))
def test_a_row_among_others_has_the_hash_that_it_has_alone(rows):
    def hashes(some: list[dict[str, Any]]) -> list[bytes]:
        return row_hashes(schema.calls, {name: [row[name] for row in some] for name in some[0]}, len(some))

    assert hashes(rows) == [digest for row in rows for digest in hashes([row])]


@given(st.lists(FLOATS | st.none(), min_size=1, max_size=6))
def test_a_number_among_others_has_the_hash_that_it_has_alone(values):
    def hashes(some: list[float | None]) -> list[bytes]:
        return row_hashes(schema.observations, {"position": [1] * len(some), "value": some}, len(some))

    assert hashes(values) == [digest for value in values for digest in hashes([value])]
