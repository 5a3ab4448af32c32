"""The samples of a run in its store."""

from __future__ import annotations

from experiment_builders import store_run
from sqlalchemy import select

from pytest_crucible.records import Sample
from pytest_crucible.records.redaction import hider
from pytest_crucible.store import schema
from pytest_crucible.store.runs import RunStore


def test_no_field_of_a_sample_keeps_a_secret(tmp_path):
    secret = "tml-1"
    sample = Sample(
        id=f"id {secret}",
        input=f"in {secret}",
        expected=[f"out {secret}"],
        metadata={"key": secret},
        group=f"of {secret}",
    )
    store = RunStore(f"sqlite:///{tmp_path}/runs.db", hider({secret}))
    store_run(store, "a1", [sample], v2=[True])

    with store.engine.connect() as connection:
        (row,) = connection.execute(select(schema.samples)).mappings()

    assert secret not in str(dict(row))
    fields = ("sample_id", "sample_group", "input", "expected", "metadata")
    assert all("(key hidden)" in str(row[name]) for name in fields)
    store.close()
