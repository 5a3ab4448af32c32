"""Each change of a stored run is named, and what the package itself changes is none."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import psycopg
import pytest
from plan_builders import plan_of

from pytest_crucible.features.provenance.seals import Seal, next_seal
from pytest_crucible.features.provenance.verify import Verification, verify_run
from pytest_crucible.features.provenance.verify_command import edit_line
from pytest_crucible.records import Event, Lost, ModelCall, Observation, Outcome, Reply, Sample, Unit, Verdict
from pytest_crucible.store import schema
from pytest_crucible.store.decisions import add_decision, set_decision
from pytest_crucible.store.prune import Prunable, clear, redact_again
from pytest_crucible.store.reused_outcomes import copy_outcomes
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.spill_file import write_spill_file

RUN = "3f2a"
LONG = "because " * 30
SAMPLES = [Sample(id=f"q{k}", input=f"question {k}", expected=k, group="g") for k in range(3)]
PLAN = replace(plan_of("v2", "v1", n=3), nodeid="test_a.py::test_a")


@dataclass
class Place:
    """A run store, and statements that people execute on it by other programs."""

    url: str
    store: RunStore

    def edit(self, statement: str) -> None:
        """Execute a statement as `sqlite3` or `psql` would; BLOBs are written as in SQLite."""
        if self.store.database.is_sqlite:
            with contextlib.closing(sqlite3.connect(self.url)) as connection, connection:
                assert connection.execute(statement).rowcount > 0
        else:
            with psycopg.connect(self.url) as connection:
                assert connection.execute(statement.replace("x'", "'\\x")).rowcount > 0

    def verify(self, run: str = RUN) -> Verification:
        verification = verify_run(self.store, run)
        assert verification is not None
        return verification

    def first_edit(self) -> str:
        with self.store.connect() as connection:
            return edit_line(connection, self.verify().edits[0])


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path) -> Iterator[Place]:
    is_sqlite = request.param == "sqlite"
    url = str(tmp_path / "runs.db") if is_sqlite else str(request.getfixturevalue("postgresql_store"))
    with contextlib.closing(RunStore(url)) as store:
        yield Place(url, store)


def begin(store: RunStore, run: str = RUN) -> list[int]:
    """Enter a run with an experiment of two arms, and return the keys of the arms."""
    store.begin_run(run, started="now", seed=7, alpha=0.05, correction="holm", environment={"python": "3.11"})
    experiment = store.add_experiment(run, PLAN, SAMPLES)
    return [store.add_arm(experiment, number, arm.name, f"f{number}") for number, arm in enumerate(PLAN.arms)]


def answer(store: RunStore, arm: int, number: int) -> None:
    """Store replies to all samples of an arm: a short one, a long one, and a lost one."""
    with contextlib.closing(store.writer()) as writer:
        for position, sample in enumerate(SAMPLES):
            unit = Unit(position, 0, number, 0)
            reply = Reply(text="yes" if position == 0 else f"{LONG}{number} {position}", latency_s=0.25, input_tokens=3)
            call = ModelCall(
                text=f"Is it? {sample.input}", is_json=False, request=1, parameters=None, system="", reply=reply
            )
            outcome = Outcome(unit, reply=reply, calls=[call], sample=sample, started=1.5)
            if position == 2:
                writer.add(Outcome(unit, lost="error", detail="no"), arm, [], [Lost(unit, None, "error", "no")])
                continue
            writer.add(outcome, arm, [Observation(unit, "exact", position == 0), Observation(unit, "tone", "calm")], [])
            writer.tell(RUN, Event(name="request.stop", at=2.5, arm=PLAN.arms[number].name, sample=sample.id))


def whole_run(store: RunStore) -> None:
    for number, arm in enumerate(begin(store)):
        answer(store, arm, number)
    store.finish_experiment(1)
    add_decision(store, RUN, "looks", 0, {"dropped": []})
    verdict = Verdict(
        nodeid=PLAN.nodeid, subject="exact: v2 vs v1", kind="comparison", state="met", proven=True, reason=""
    )
    store.add_verdicts(1, [verdict])
    store.end_run(RUN, finished="later", status="finished")


@pytest.fixture
def stored(place: Place) -> Place:
    whole_run(place.store)
    return place


def test_a_run_is_as_it_was_written(stored):
    verification = stored.verify()

    assert verification.is_intact
    assert verification.processes == 1


UNIT = "test_a.py::test_a, arm v2, sample q1, repeat 0"
OF_UNIT = "arm = 1 AND position = 1 AND epoch = 0"
EDITS = {
    "UPDATE runs SET seed = 8": "runs: its own row was changed after it was written",
    "UPDATE experiments SET finished = NOT finished": "experiments: test_a.py::test_a, id 1 was changed after it was written",
    "UPDATE arms SET reused_from = 'a' WHERE id = 2": "arms: test_a.py::test_a, arm v1, id 2 was changed after it was written",
    "DELETE FROM repeats": "repeats: test_a.py::test_a, number 0 was removed",
    "UPDATE variants SET prompt = 1": "variants: test_a.py::test_a, number 0 was changed after it was written",
    """UPDATE samples SET input = '""' WHERE position = 1""": "samples: sample q1, position 1 was changed after it was written",
    "UPDATE samples SET expected = '8' WHERE position = 1": "samples: sample q1, position 1 was changed after it was written",
    "DELETE FROM samples WHERE position = 2": "samples: position 2 was removed",
    f"UPDATE replies SET latency_s = 0.5 WHERE {OF_UNIT}": f"replies: {UNIT} was changed after it was written",
    f"DELETE FROM replies WHERE {OF_UNIT}": f"replies: {UNIT} was removed",
    f"INSERT INTO replies (arm, position, epoch, skipped) SELECT arm, position, 4, skipped FROM replies WHERE {OF_UNIT}": (
        "replies: test_a.py::test_a, arm v2, sample q1, repeat 4 was added: no seal has it"
    ),
    f"UPDATE replies SET text = 'no', text_id = NULL WHERE {OF_UNIT}": f"replies: {UNIT} was changed after it was written",
    "UPDATE texts SET body = body || '.' WHERE body LIKE '%0 1'": f"texts: a text of {UNIT} was changed after it was written",
    "DELETE FROM texts WHERE body LIKE '%0 1'": f"texts: a text of {UNIT} was removed",
    "UPDATE messages SET body = x'2222'": (
        "messages: the messages of test_a.py::test_a, arm v2, sample q0, repeat 0, call 1 was changed after it was written"
    ),
    f"UPDATE calls SET error = 'no' WHERE {OF_UNIT}": f"calls: {UNIT}, call 1 was changed after it was written",
    f"UPDATE observations SET value = 1 WHERE {OF_UNIT} AND metric = 'exact'": (
        f"observations: {UNIT}, metric exact was changed after it was written"
    ),
    f"UPDATE observations SET label = 'rude' WHERE {OF_UNIT} AND metric = 'tone'": (
        f"observations: {UNIT}, metric tone was changed after it was written"
    ),
    f"DELETE FROM observations WHERE {OF_UNIT} AND metric = 'tone'": f"observations: {UNIT}, metric tone was removed",
    "DELETE FROM lost WHERE arm = 1": "lost: test_a.py::test_a, arm v2, sample q2, repeat 0 was removed",
    "UPDATE events SET at = 9 WHERE sample = 'q1' AND arm = 'v2'": (
        "events: arm v2, sample q1, request.stop, id 2 was changed after it was written"
    ),
    "DELETE FROM events WHERE id = 3": "events: id 3 was removed",
    "UPDATE verdicts SET state = 'missed'": (
        "verdicts: test_a.py::test_a, verdict exact: v2 vs v1 was changed after it was written"
    ),
    "DELETE FROM verdicts": "verdicts: test_a.py::test_a, verdict exact: v2 vs v1 was removed",
    """UPDATE decisions SET body = '{"dropped": ["v1"]}'""": "decisions: decision looks, number 0 was changed after it was written",
}


@pytest.mark.parametrize("edit", EDITS)
def test_each_edit_is_named(stored, edit):
    stored.edit(edit)

    assert stored.first_edit() == EDITS[edit]


def test_replies_that_are_exchanged_are_named(stored):
    stored.edit("UPDATE replies SET epoch = 1 WHERE arm = 2 AND position = 0")
    stored.edit("UPDATE replies SET position = 0 WHERE arm = 2 AND position = 1")

    edits = [(edit.key, edit.edit) for edit in stored.verify().edits if edit.table == "replies"]

    assert edits == [((2, 0, 0), "changed"), ((2, 0, 1), "added"), ((2, 1, 0), "removed")]


def test_columns_that_are_written_after_the_reports_are_not_sealed(stored):
    root = stored.verify().root
    stored.store.set_exit_status(RUN, 1)

    assert stored.verify().is_intact
    assert stored.verify().root == root


@pytest.mark.parametrize("edit", ["DELETE FROM {} WHERE number = 4", "UPDATE {} SET number = 99 WHERE number = 4"])
def test_a_removed_seal_is_named(stored, edit):
    [chain] = stored.store.scalars("SELECT id FROM seal_chains WHERE kind = 'runs'")
    stored.edit(edit.format("seals").replace("number = 4", f"number = 4 AND chain = {chain}"))

    assert (chain, 4, True) in stored.verify().broken


@pytest.mark.parametrize("column", ["sha256", "keys", "checksums"])
def test_a_changed_seal_is_named(stored, column):
    [chain] = stored.store.scalars("SELECT id FROM seal_chains WHERE kind = 'runs'")
    stored.edit(f"UPDATE seals SET {column} = x'00' WHERE number = 4 AND chain = {chain}")

    verification = stored.verify()
    assert (chain, 4, False) in verification.broken or (column == "checksums" and verification.edits)
    assert all(seal.number == 4 for seal in verification.broken)


HOSTILE = {
    "not compressed": b"[]",
    "too deep": zlib.compress(b"[" * 100_000),
    "another shape": zlib.compress(b"[[1]]"),
    "a billion rows": zlib.compress(b'[["runs", 0, 1000000000000, [1]]]'),
    "fewer than none": zlib.compress(b'[["runs", 0, -5, [1]], ["runs", 0, 5, [1]]]'),
    "keys that are lists": zlib.compress(b'[["runs", 0, 0, []], ["runs", 0, 1, [[[1]]]]]'),
}


@pytest.mark.parametrize("keys", HOSTILE)
def test_a_seal_that_cannot_be_read_is_named(stored, keys):
    [chain] = stored.store.scalars("SELECT id FROM seal_chains WHERE kind = 'runs'")
    stored.edit(f"UPDATE seals SET keys = x'{HOSTILE[keys].hex()}' WHERE number = 4 AND chain = {chain}")

    assert (chain, 4, False) in stored.verify().broken


def test_an_edit_of_another_type_is_named(tmp_path):
    with contextlib.closing(RunStore(str(tmp_path / "runs.db"))) as store:
        whole_run(store)
        place = Place(str(tmp_path / "runs.db"), store)
        [chain] = store.scalars("SELECT id FROM seal_chains WHERE kind = 'runs'")
        for edit in (
            "replies SET latency_s = 'slow'",
            "lost SET metric = x'00'",
            "events SET epoch = 0.5",
        ):
            place.edit(f"UPDATE {edit}")
        place.edit("UPDATE arms SET number = 'x' WHERE id = 2")
        place.edit("UPDATE experiments SET plan = '{'")
        place.edit(f"UPDATE seals SET number = 'x', checksums = 'y' WHERE number = 3 AND chain = {chain}")

        verification = place.verify()

    assert {edit.table for edit in verification.edits} >= {"replies", "lost", "events", "arms", "experiments"}
    assert (chain, 3, True) in verification.broken


def test_hostile_names_are_inert(stored):
    stored.edit("UPDATE samples SET sample_id = 'q1\x1b[2J' WHERE position = 1")

    assert "\x1b" not in stored.first_edit()


def test_the_last_rows_of_a_run_removed_with_their_seals_change_only_its_root(stored):
    root = stored.verify().root
    stored.edit("DELETE FROM verdicts")
    stored.edit(
        "DELETE FROM seals WHERE number = (SELECT MAX(number) FROM seals) "
        "AND chain = (SELECT id FROM seal_chains WHERE kind = 'runs')"
    )

    assert stored.verify().is_intact
    assert stored.verify().root != root


@pytest.mark.parametrize(
    "edit", ["UPDATE verdicts SET state = 'missed'", "UPDATE experiments SET kinds = '{}'", "UPDATE runs SET seed = 8"]
)
def test_the_root_covers_run_plans_and_verdicts_by_themselves(stored, edit):
    root = stored.verify().root
    stored.edit(edit)

    assert stored.verify().root != root


def test_a_seal_depends_on_the_one_before_it():
    seals = {next_seal(Seal(1, 1, before * 32), b"keys", [b"hash"]).sha256 for before in (b"a", b"b")}

    assert len(seals) == 2


def test_a_seal_is_one_hash_of_all_before_it_its_keys_and_its_rows_in_whatever_parts():
    content = b"a" * 32 + (4).to_bytes(8, "big") + b"keys" + b"b" * 32 + b"c" * 32
    parts = [b"b" * 32, b"c" * 32], [b"b" * 32 + b"c" * 32]

    assert {next_seal(Seal(1, 1, b"a" * 32), b"keys", of_seal).sha256 for of_seal in parts} == {
        hashlib.sha256(content).digest()
    }


def test_a_run_whose_seals_were_all_removed_cannot_be_verified(stored):
    stored.edit("DELETE FROM seal_chains")

    assert verify_run(stored.store, RUN) is None


# -- what the package does later ------------------------------------------------------------------------------------------


def test_a_second_process_continues_a_run(stored):
    with contextlib.closing(RunStore(stored.url)) as resumed:
        first, _ = begin(resumed)
        answer(resumed, first, 0)
        resumed.add_requests(RUN, PLAN.nodeid, "v2", requests=3, hits=1, since=2.0)
        set_decision(resumed, RUN, "looks", 0, {"dropped": ["v1"]})
        resumed.replace_plan(RUN, replace(PLAN, planned=4))
        resumed.set_kinds(1, {"exact": "binary"})

    verification = stored.verify()
    assert verification.is_intact
    assert verification.processes == 2


def test_an_edit_before_a_row_was_replaced_is_named(stored):
    stored.edit("UPDATE experiments SET kinds = '{}'")
    stored.store.set_kinds(1, {"exact": "binary"})

    assert stored.first_edit() == "experiments: test_a.py::test_a, id 1 was changed after it was written"


def test_copied_replies_and_their_removal_keep_a_run_valid(stored):
    store = stored.store
    target = begin(store, "later")[0]
    draws = PLAN.draws(0)
    copy_outcomes(store, 1, target, source_run=RUN, draws=draws)
    with contextlib.closing(store.writer()) as writer:
        writer.remove_copied(target, 1, 0)
    assert stored.verify("later").is_intact

    stored.edit(f"DELETE FROM replies WHERE arm = {target} AND position = 0")
    assert [edit.edit for edit in stored.verify("later").edits] == ["removed"]


def test_a_run_that_is_deleted_takes_its_seals_with_it(stored):
    begin(stored.store, "later")
    prunable = Prunable(runs=(RUN,), replies=0, before=None)
    clear(stored.store, prunable)

    assert stored.verify("later").is_intact
    assert set(stored.store.scalars("SELECT owner FROM seal_chains")) == {"later", PLAN.dataset_sha256}
    clear(stored.store, replace(prunable, runs=("later",)))
    assert not list(stored.store.scalars("SELECT chain FROM seals"))
    begin(stored.store)
    assert stored.verify().is_intact


def test_texts_that_are_redacted_later_keep_a_run_valid(stored):
    redact_again(stored.store, RUN, lambda text: text.replace("because", "[hidden]").replace("question 1", "[hidden]"))

    assert stored.verify().is_intact
    assert not stored.store.scalar("SELECT COUNT(*) FROM texts WHERE body LIKE '%because%'")


def test_rows_that_waited_in_a_spill_file_are_sealed(stored):
    rows = [{"arm": 1, "position": 0, "epoch": 5, "text": "late", "skipped": False}]
    store = stored.store
    assert write_spill_file(stored.url, store.key, RUN, [(schema.replies, False, rows)])
    with contextlib.closing(RunStore(stored.url)):
        pass

    assert stored.verify().is_intact
    assert stored.verify().processes == 2


def test_two_processes_that_write_the_same_rows_keep_a_run_valid(stored):
    with contextlib.closing(RunStore(stored.url)) as other:
        # Of these replies two are there already.
        for position in (0, 1, 2):
            with contextlib.closing(other.writer()) as writer:
                writer.add(Outcome(Unit(position, 0, 0, 0), reply=Reply(text="another")), 1, [], [])
        with contextlib.closing(other.writer()) as writer:
            for position in (0, 1, 2):
                writer.add(Outcome(Unit(position, 0, 0, 1), reply=Reply(text="another")), 1, [], [])
        with contextlib.closing(stored.store.writer()) as writer:
            for position in (0, 1, 2):
                writer.add(Outcome(Unit(position, 0, 0, 2 - position % 2), reply=Reply(text="mine")), 1, [], [])

    assert stored.verify().is_intact


def test_a_dataset_of_an_earlier_format_is_sealed_by_the_next_run_on_it(place):
    with contextlib.closing(RunStore(place.url, is_left_out=lambda name: True)) as earlier:
        begin(earlier, "earlier")
    begin(place.store)

    assert place.verify().is_intact
    place.edit("""UPDATE samples SET input = '""' WHERE position = 1""")
    assert [edit.edit for edit in place.verify().edits] == ["changed"]


def test_a_store_without_listeners_seals_nothing(tmp_path):
    with contextlib.closing(
        RunStore(str(tmp_path / "a.db"), is_left_out=lambda name: name == "crucible-provenance")
    ) as store:
        begin(store)

        assert verify_run(store, RUN) is None
