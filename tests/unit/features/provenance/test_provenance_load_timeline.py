"""Timelines of runs of earlier formats, and of imported ones."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_crucible.features.provenance.load_timeline import check_arm, load_timelines
from pytest_crucible.records.errors import SpecError
from pytest_crucible.store.runs import RunStore


@pytest.fixture
def open_packed(tmp_path: Path) -> Iterator[Callable[[str], RunStore]]:
    """Opens a store that the last version of a format wrote: six samples in format 3, two calls each in format 4."""
    with contextlib.ExitStack() as opened:

        def open_store(name: str) -> RunStore:
            packed = Path(__file__).parents[3] / f"data/stores/{name}.db.gz"
            (tmp_path / "runs.db").write_bytes(gzip.decompress(packed.read_bytes()))
            return opened.enter_context(contextlib.closing(RunStore(str(tmp_path / "runs.db"))))

        yield open_store


def test_a_run_of_format_3_has_scores_and_ends_without_calls(open_packed):
    [v2, v1] = load_timelines(open_packed("format3"), "latest", "q4")

    assert [step.title for step in v2.steps if step.kind in ("score", "end")] == ["exact_match = True", "answered"]
    assert [step.kind for step in v1.steps if step.kind == "call"] == []


def test_a_run_of_format_4_has_the_calls_of_a_sample_without_numbers_of_requests(open_packed):
    [timeline] = load_timelines(open_packed("format4"), "latest", "q1")

    calls = [step for step in timeline.steps if step.kind == "call"]
    assert [call.facts["reply"][:11] for call in calls] == ["Sample q1: "] * 2
    assert [call.facts["reasoning"][:9] for call in calls] == ["About q1:"] * 2
    assert {(step.call, step.request) for step in timeline.steps if step.kind == "request"} <= {(None, None)}


def test_an_imported_run_says_that_its_calls_are_unknown(open_packed):
    store = open_packed("format4")
    run = store.find_run()
    environment = '{"imported": [{"harness": "Inspect", "file": "a.eval"}]}'
    store.execute("UPDATE runs SET environment = :environment", environment=environment)

    [timeline] = load_timelines(store, run, "q1")

    assert timeline.unknown == f"run {run} was imported from Inspect: its calls are unknown"


def test_an_arm_of_several_experiments_is_named_once():
    with pytest.raises(SpecError, match=r"^run 3f2a has no arm 'zz': it has v2, v1$"):
        check_arm("3f2a", "zz", ["v2", "v1", "v2"])
