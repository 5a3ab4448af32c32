"""Copying the runs of shards into one: in parts, in one transaction, into SQLite and PostgreSQL alike."""

from __future__ import annotations

import contextlib

import pytest
from plan_builders import plan_of

from pytest_crucible.features.provenance.verify import verify_run
from pytest_crucible.features.scale import merging
from pytest_crucible.features.scale.merging import merge_shards
from pytest_crucible.features.scale.shard_files import read_shards
from pytest_crucible.records import BUDGET, Observation, Outcome, Reply, Sample, SentAgain, Unit
from pytest_crucible.records.errors import SpecError
from pytest_crucible.store import schema
from pytest_crucible.store.events import load_budgets
from pytest_crucible.store.outcomes import load_outcomes
from pytest_crucible.store.reused_outcomes import add_sent_again, sent_again
from pytest_crucible.store.runs import RunStore

SAMPLES, ARMS = 12, ("v2", "v1")


def write_shard(path, number, of=2):
    """Write the file of a shard as its session does, every second sample from its own on."""
    plan = plan_of(*ARMS, n=SAMPLES, selected=SAMPLES // of)
    with contextlib.closing(RunStore(str(path))) as store:
        run = f"shard{number}"
        facts = {"environment": {"rules": "2", "packages": {}}, "git": None}
        settings = {"shard": f"{number}/{of}", "tag": []}
        store.begin_run(
            run,
            started=f"2026-01-0{number}T00:00:00+00:00",
            seed=0,
            alpha=0.05,
            correction="holm",
            manifest={"command": ["-q", f"--crucible-shard={number}/{of}"], "settings": settings},
            **facts,
        )
        samples = [Sample(id=f"s{k}", input=f"question {k}") for k in range(SAMPLES)]
        key = store.add_experiment(run, plan, samples)
        arms = [store.add_arm(key, k, name, name) for k, name in enumerate(ARMS)]
        writer = store.writer()
        for position in range(number - 1, SAMPLES, of):
            for k, arm in enumerate(arms):
                unit = Unit(position, 0, k, 0)
                outcome = Outcome(unit, reply=Reply(text=f"answer {position} " * 40), started=0.0)
                outcome.sample = samples[position]
                writer.add(outcome, arm, [Observation(unit, "right", position % 3 > k)], ())
        writer.close()
        store.add_requests(run, plan.nodeid, "v2", requests=6, hits=2, since=10.0 - number)
        add_sent_again(store, run, arms[1], SentAgain(replies=number, differences={}))
        spent = {"budget": "30 requests", "usd": 0.0, "tokens": 5.0, "requests": 6.0, "said": "6 of 15 requests spent"}
        event = {"run": run, "experiment": "", "arm": "", "sample": "", "epoch": 0, "name": BUDGET, "at": 1.0}
        store.insert(schema.events, [{**event, "facts": spent}])
        store.finish_experiment(key)
        store.end_run(run, finished="2026-01-09T00:00:00+00:00", status="finished")
    return path


@pytest.fixture
def files(tmp_path):
    return [write_shard(tmp_path / f"shard{number}.db", number) for number in (1, 2)]


@pytest.fixture
def target(tmp_path):
    with contextlib.closing(RunStore(str(tmp_path / "target.db"))) as store:
        # Other runs have the first keys.
        store.begin_run("other", started="", seed=0, alpha=0.05, correction="holm", environment={})
        other = store.add_experiment(
            "other", plan_of(*ARMS, nodeid="other", dataset_sha256="o"), [Sample(id="x", input="y")]
        )
        store.add_arm(other, 0, "v2", "v2")
        yield store


def merged_experiment(target, files):
    run = merge_shards(target, read_shards(files).files)
    [(key, plan, finished)] = target.experiments(run)
    return run, key, plan, finished


def test_replies_of_all_shards_are_in_one_experiment(target, files):
    _, key, plan, finished = merged_experiment(target, files)

    assert (plan.selected, plan.planned, finished) == (SAMPLES, SAMPLES, True)
    for number in range(len(ARMS)):
        outcomes = load_outcomes(target, key, number)
        assert list(outcomes.positions) == list(range(SAMPLES))
        assert list(outcomes.scores["right"].values) == [float(position % 3 > number) for position in range(SAMPLES)]
    texts = target.scalars("SELECT body FROM texts JOIN replies ON replies.text_id = texts.id ORDER BY position, arm")
    assert list(texts) == [f"answer {position} " * 40 for position in range(SAMPLES) for _ in ARMS]


@pytest.mark.parametrize(("run_format", "stored"), [(12, b"whole"), (13, b"apart")])
def test_whole_conversations_of_an_earlier_format_replace_those_with_texts_apart(target, files, run_format, stored):
    """`crucible gc` would remove the texts with the run that keeps them."""
    target.insert(schema.messages, [{"id": 7, "body": b"apart"}])
    with contextlib.closing(RunStore(str(files[0]))) as shard:
        shard.insert(schema.messages, [{"id": 7, "body": b"whole"}])
        shard.execute("UPDATE runs SET format = :format", format=run_format)

    merge_shards(target, read_shards(files).files)

    assert target.scalar("SELECT body FROM messages WHERE id = 7") == stored


def test_counts_of_arms_and_expenses_are_added(target, files):
    run, key, _, _ = merged_experiment(target, files)

    counts = target.first("SELECT requests, cache_hits, cache_since FROM arms WHERE experiment = :key", key=key)
    assert counts == (12, 4, 8.0)
    [budget] = load_budgets(target, run)
    assert (budget.budget, budget.requests, budget.said) == ("30 requests", 12.0, "12 of 30 requests spent")


def test_the_command_is_that_of_a_session_without_shards(target, files):
    run, *_ = merged_experiment(target, files)

    manifest = target.run(run)["manifest"]
    assert (manifest["command"], manifest["settings"]["shard"]) == (["-q"], None)
    assert [entry["run"] for entry in manifest["shards"]] == ["shard1", "shard2"]


def test_decisions_on_arms_name_those_of_the_merged_run(target, files):
    run, key, _, _ = merged_experiment(target, files)

    arm = target.scalar("SELECT id FROM arms WHERE experiment = :key AND number = 1", key=key)
    assert sent_again(target, run, arm) == SentAgain(replies=3, differences={})


@pytest.mark.parametrize("part", [1, 5, 10_000])
def test_a_merged_run_is_sealed_whatever_the_size_of_its_parts(target, files, monkeypatch, part):
    monkeypatch.setattr(merging, "_PART", part)

    run, *_ = merged_experiment(target, files)

    verification = verify_run(target, run)
    assert verification is not None
    assert verification.is_intact
    target.execute("UPDATE observations SET value = 1 - value WHERE position = 3")
    assert not verify_run(target, run).is_intact


def test_a_shard_that_cannot_be_copied_leaves_nothing(target, files):
    with contextlib.closing(RunStore(str(files[1]))) as store:
        store.execute("INSERT INTO lost (arm, position, epoch, metric, reason) VALUES (1, 5, 0, '', x'00')")

    with pytest.raises(SpecError, match=r"^shard2.db has a value of another kind in lost.reason: run its job again$"):
        merge_shards(target, read_shards(files).files)

    assert list(target.scalars("SELECT id FROM runs")) == ["other"]
    assert target.scalar("SELECT COUNT(*) FROM replies") == 0


def test_a_merged_run_is_found_and_not_entered_again(target, files):
    shards = read_shards(files).files

    assert merge_shards(target, shards) == merge_shards(target, shards)
    assert target.scalar("SELECT COUNT(*) FROM runs") == 2
