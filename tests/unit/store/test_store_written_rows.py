"""Rows kept in memory after they are committed, and rows in spill files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from other_user import OTHER, run_as_other_user

from pytest_crucible.records import ArmEvents, ArmOutcomes, Event, Lost, Observation, Outcome, Reply, Unit
from pytest_crucible.records.errors import StoreError
from pytest_crucible.store import schema
from pytest_crucible.store.events import load_events
from pytest_crucible.store.outcomes import load_arm
from pytest_crucible.store.rows import AMOUNTS
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.spill_file import write_spill_file
from pytest_crucible.store.writer import Recorder, Writer

ARM, ANOTHER = 1, 2
FIRST = Unit(0, 0, 0, 0)
Written = tuple[Outcome, int, list[Observation], list[Lost]]

finite = st.floats(allow_nan=False, allow_infinity=False)
values = st.none() | st.booleans() | finite | st.text(max_size=3)


@contextmanager
def open_written(write: Callable[[Writer], None]) -> Iterator[tuple[RunStore, RunStore]]:
    """Yield the store that was written to, and the same database opened again."""
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "runs.db")
        with closing(RunStore(path)) as own, closing(RunStore(path)) as other:
            writer = own.writer()
            write(writer)
            writer.close()
            yield own, other


@st.composite
def outcomes(draw: st.DrawFn) -> Written:
    """An outcome as it is written, lost and scored by three metrics in every way, though no session has all of them."""
    unit = Unit(draw(st.integers(0, 30)), 0, 0, draw(st.integers(0, 2)))
    ending = draw(st.sampled_from([{}, {"failure": "timeout"}, {"skipped": True}, {"lost": "error"}]))
    names = draw(st.sets(st.sampled_from(["exact", "rouge", "judge.told"])))
    observations = [Observation(unit, name, draw(values), "why") for name in names]
    lost = [Lost(unit, draw(st.none() | st.just("exact")), "error", "gone")] if draw(st.booleans()) else []
    return Outcome(unit, reply=Reply(text="yes"), **ending), draw(st.sampled_from([ARM, ANOTHER])), observations, lost


def by_unit(written: Written) -> tuple[Any, ...]:
    return written[1], written[0].unit


def add_all(writer: Writer, many: Sequence[Written]) -> None:
    for k, item in enumerate(many):
        writer.add(*item)
        # Several commits.
        if k % 7 == 6:
            writer.flush()


def bits(value: float | None) -> bytes | None:
    return None if value is None else struct.pack("d", value)


def plain(arm: ArmOutcomes) -> Any:
    scores = {
        name: ([*of.positions], [*of.repeats], [bits(value) for value in of.values], [*of.is_bool])
        for name, of in arm.scores.items()
    }
    units = [*zip(arm.positions, arm.repeats, arm.failures, arm.skipped, strict=True)]
    return units, list(scores.items()), arm.labels, arm.judge_texts, arm.lost


def counts_of(store: RunStore, arm: int) -> tuple[int, int]:
    """Return the counts under which the rows of this process are used."""
    replies, observations = (
        store.scalar(f"SELECT COUNT(*) FROM {table} WHERE arm = :arm", arm=arm) for table in ("replies", "observations")
    )
    return replies, observations


def is_read_back(store: RunStore, arm: int = ARM) -> bool:
    return store.written.outcomes(arm, lambda: counts_of(store, arm)) is None


@given(st.lists(outcomes(), max_size=40, unique_by=by_unit))
@example([(Outcome(FIRST, reply=Reply(text="yes")), ARM, [Observation(FIRST, "exact", -0.0)], [])])
def test_outcomes_that_were_written_are_those_that_the_database_returns(many):
    with open_written(lambda writer: add_all(writer, many)) as (own, other):
        for arm in {ARM, ANOTHER}:
            assert plain(load_arm(own, arm, 0)) == plain(load_arm(other, arm, 0))
            rows = [entry for entry in many if entry[1] == arm and (entry[2] or not entry[0].lost)]
            assert is_read_back(own, arm) == (not rows)


@given(st.lists(outcomes(), max_size=20))
def test_of_a_unit_that_is_written_twice_the_first_row_counts(many):
    with open_written(lambda writer: add_all(writer, many)) as (own, other):
        assert plain(load_arm(own, ARM, 0)) == plain(load_arm(other, ARM, 0))


def test_rows_of_another_process_are_read_from_the_database():
    item = (Outcome(FIRST, reply=Reply(text="yes")), ARM, [Observation(FIRST, "exact", True)], [])
    with open_written(lambda writer: writer.add(*item)) as (own, other):
        assert not is_read_back(own)
        row = {"arm": ARM, "position": 1, "epoch": 0, "metric": "exact", "value": 0.0, "is_bool": True}
        other.insert(schema.observations, [row])

        assert is_read_back(own)
        assert list(load_arm(own, ARM, 0).scores["exact"].values) == [1.0, 0.0]


def test_a_unit_that_another_process_wrote_first_has_the_scores_of_that_process():
    """The numbers of rows are equal: the database ignored the later ones."""
    first, later = (
        (Outcome(FIRST, reply=Reply(text="yes")), ARM, [Observation(FIRST, "exact", value)], [])
        for value in (True, False)
    )
    with open_written(lambda writer: None) as (own, other):
        for store, item in ((other, first), (own, later)):
            writer = store.writer()
            writer.add(*item)
            writer.close()

        assert is_read_back(own)
        assert list(load_arm(own, ARM, 0).scores["exact"].values) == [1.0]


def test_a_metric_whose_name_holds_a_key_is_named_as_the_database_has_it(tmp_path):
    observation = Observation(FIRST, "exact of sk-secret", True)
    with closing(RunStore(str(tmp_path / "runs.db"), lambda text: text.replace("sk-secret", "***"))) as own:
        writer = own.writer()
        writer.add(Outcome(FIRST, reply=Reply(text="yes")), ARM, [observation], [])
        writer.tell("run", Event(name="retry", at=1.0, experiment="t", arm="v1 of sk-secret"))
        writer.close()

        assert list(load_arm(own, ARM, 0).scores) == ["exact of ***"]
        assert list(load_events(own, "run")) == [("t", "v1 of ***")]


def test_replies_of_one_metric_more_than_others_keep_their_own_units():
    def write(writer: Writer) -> None:
        for position in (2, 0, 1):
            unit = Unit(position, 0, 0, 0)
            calls = [Observation(unit, "exact", position > 0)]
            extra = [Observation(unit, "rouge", position / 10)] if position != 1 else []
            writer.add(Outcome(unit, reply=Reply(text="yes")), ARM, [*calls, *extra], [])

    with open_written(write) as (own, _):
        arm = load_arm(own, ARM, 0)

    assert not any(arm.failures)
    assert list(arm.positions) == [0, 1, 2]
    assert (list(arm.scores["rouge"].positions), list(arm.scores["rouge"].values)) == ([0, 2], [0.0, 0.2])


# -- events -------------------------------------------------------------------------------------------------------

amounts = st.none() | st.integers(0, 10**6) | st.floats(0, 1e6)
events = st.builds(
    Event,
    name=st.sampled_from(["request.stop", "limiter.wait", "retry", "budget"]),
    at=st.floats(0, 2e9),
    seconds=st.none() | st.floats(0, 1e4),
    experiment=st.sampled_from(["", "t.py::a", "t.py::b"]),
    arm=st.sampled_from(["v1", "judge:gpt"]),
    sample=st.just("q"),
    facts=st.fixed_dictionaries({}, optional={"error": st.sampled_from([None, "", "429", "timeout"])})
    | st.dictionaries(st.sampled_from(AMOUNTS), amounts),
)


def record(writer: Writer, many: Sequence[tuple[str, Event]]) -> None:
    for k, (run, event) in enumerate(many):
        writer.tell(run, event)
        if k % 7 == 6:
            writer.flush()


def plain_events(by_arm: dict[tuple[str, str], ArmEvents]) -> Any:
    return [(place, repr(of)) for place, of in by_arm.items()]


@given(st.lists(st.tuples(st.sampled_from(["run1", "run2"]), events), max_size=40))
def test_events_that_were_written_are_those_that_the_database_returns(many):
    with open_written(lambda writer: record(writer, many)) as (own, other):
        for run in ("run1", "run2"):
            assert plain_events(load_events(own, run)) == plain_events(load_events(other, run))
            count = sum(entry[0] == run for entry in many)
            assert (own.written.events(run, lambda count=count: count) is None) == (not count)


def test_events_of_another_process_are_counted():
    def tell(store: RunStore) -> None:
        recorder, writer = Recorder("run"), store.writer()
        recorder.open(writer)
        recorder(Event(name="request.stop", at=1.0, seconds=0.5, experiment="t", arm="v1", facts={}))
        writer.close()

    with open_written(lambda writer: None) as (own, other):
        tell(own)
        tell(other)
        [of_arm] = load_events(own, "run").values()

    assert (of_arm.counts[0].n, list(of_arm.latencies)) == (2, [0.5, 0.5])


REPLY = {"arm": 1, "position": 0, "epoch": 0, "skipped": False, "text": "4"}
FACTS = {"started": "2026-01-01", "seed": 0, "alpha": 0.05, "correction": "holm", "environment": {}}


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def path(tmp_path, temporary):
    path = tmp_path / "runs.db"
    store = RunStore(str(path))
    store.begin_run("run", **FACTS)
    store.close()
    return path


def key_of(path: Path) -> bytes:
    store = RunStore(str(path))
    store.close()
    return store.key


def texts(path: Path) -> list[str]:
    store = RunStore(str(path))
    result = list(store.scalars("SELECT text FROM replies"))
    store.close()
    return result


def test_rows_of_this_store_are_entered_from_either_folder(path, tmp_path, temporary):
    Path(f"{path}.unsaved").write_text("no folder")
    spill_file = write_spill_file(str(path), key_of(path), "run", [(schema.replies, False, [REPLY])])

    assert spill_file.is_relative_to(temporary / f"pytest-crucible-{os.geteuid()}")
    assert stat.S_IMODE(spill_file.stat().st_mode) == 0o600
    assert (
        stat.S_IMODE(spill_file.parent.stat().st_mode) == stat.S_IMODE(spill_file.parent.parent.stat().st_mode) == 0o700
    )
    assert texts(path) == ["4"]


@pytest.mark.parametrize("change", ["a row", "the run", "another key", "no signature"])
def test_rows_that_were_changed_are_refused(path, change):
    key = b"0" * 32 if change == "another key" else key_of(path)
    spill_file = write_spill_file(str(path), key, "run", [(schema.replies, False, [REPLY])])
    text = spill_file.read_text()
    old, new = {"a row": ('"4"', '"5"'), "the run": ('"run": "run"', '"run":"run"')}.get(change, ("", ""))
    spill_file.write_text(text.partition("\n")[2] if change == "no signature" else text.replace(old, new))

    with pytest.raises(StoreError, match=r"was not written for this store, or was changed since.*: move the file away"):
        RunStore(str(path))
    spill_file.unlink()
    assert texts(path) == []


def test_a_signed_row_of_a_table_that_does_not_spill_is_refused(path):
    spill_file = write_spill_file(
        str(path), key_of(path), "run", [(schema.verdicts, False, [{"experiment": 1, "subject": "x", "state": "met"}])]
    )

    with pytest.raises(StoreError, match="table 'verdicts'"):
        RunStore(str(path))
    spill_file.unlink()


@OTHER
def test_rows_that_another_user_left_are_never_read(path, temporary):
    """The folder is that of earlier versions, or that of this version, created by that user first."""
    temporary.chmod(0o1777)
    shutil.rmtree(temporary / f"pytest-crucible-{os.geteuid()}")
    line = json.dumps(["replies", True, [REPLY]])
    name = f"pytest-crucible-{os.geteuid()}"
    store_name = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    run_as_other_user(
        f"""
for folder in ({str(temporary / f"{name}-{store_name}.unsaved")!r}, {str(temporary / name / f"{store_name}.unsaved")!r}):
    os.makedirs(folder)
    with open(folder + "/1-1.jsonl", "w") as file:
        file.write({json.dumps({"run": "run"})!r} + "\\n" + {line!r} + "\\n")
    os.system("chmod -R 777 " + folder)
""",
        temporary,
    )

    assert texts(path) == []
    Path(f"{path}.unsaved").write_text("no folder")
    assert write_spill_file(str(path), key_of(path), "run", [(schema.replies, False, [REPLY])]) is None


def test_a_folder_that_others_can_reach_is_not_read(path):
    spill_file = write_spill_file(str(path), key_of(path), "run", [(schema.replies, False, [REPLY])])
    spill_file.parent.chmod(0o777)

    assert texts(path) == []
    spill_file.parent.chmod(0o700)
    assert texts(path) == ["4"]
