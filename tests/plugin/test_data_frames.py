"""Results of stored runs as data frames: `from pytest_crucible import runs`."""

from __future__ import annotations

import datetime
import json
import time

import pytest

from pytest_crucible import runs, stats
from pytest_crucible.records.errors import SpecError


def run_both(suite):
    suite.json("--crucible-adapter=v2", "--compare=v1", "--crucible-tag=nightly")


@pytest.fixture
def stored(suite, monkeypatch):
    """The JSON of a run of two arms, in whose directory the test goes on."""
    suite.prepare_once(run_both)
    monkeypatch.chdir(suite.path)
    return json.loads((suite.path / "run.json").read_text(encoding="utf-8"))


def test_a_run_is_loaded_as_the_command_line_names_it(stored):
    for name in ("latest", stored["run"]["id"][:6], "tag:nightly"):
        assert runs.load(name).ids == (stored["run"]["id"],)
    with pytest.raises(SpecError, match="has no run that begins with 'zzz'"):
        runs.load("zzz")
    with pytest.raises(SpecError, match=r"nowhere\.db"):
        runs.load(store="nowhere.db")


def test_observations_have_a_row_for_each_score(stored):
    frame = runs.load().observations()

    arm = frame[(frame.arm == "v2") & (frame.metric == "exact_match")]
    assert len(arm) == stored["experiments"][0]["estimates"][0]["n"]
    assert set(arm.value) <= {0.0, 1.0}
    assert arm.lost.isna().all()
    assert (frame.run == stored["run"]["id"]).all()


def test_replies_have_the_input_and_the_text(stored):
    frame = runs.load().replies()

    assert set(frame.arm) == {"v2", "v1"}
    assert frame.text.notna().all()
    assert frame.input.notna().all()
    assert str(frame.dtypes["input_tokens"]) == "Int64"


def test_estimates_comparisons_and_verdicts_are_those_of_the_session(stored):
    run, document = runs.load(), stored["experiments"][0]

    estimates = run.estimates().set_index(["metric", "arm"])
    for estimate in document["estimates"]:
        row = estimates.loc[(estimate["metric"], estimate["arm"])]
        assert all(row[name] == estimate[name] for name in ("value", "low", "high", "n"))
    (comparison,), (frame,) = run.comparisons().to_dict("records"), document["comparisons"]
    assert all(comparison[name] == frame[name] for name in ("difference", "low", "p_value"))
    verdicts = run.verdicts()
    shown_verdicts = [verdict for experiment in stored["experiments"] for verdict in experiment["verdicts"]]
    assert sorted(verdicts.state) == sorted(verdict["state"] for verdict in shown_verdicts)
    assert sum(verdicts.proven) == sum(verdict["proven"] for verdict in shown_verdicts)


def test_scores_of_a_run_are_compared_by_sample(stored):
    frame = (
        runs.load().observations().query("metric == 'exact_match'").pivot(index="sample", columns="arm", values="value")
    )

    result = stats.compare(frame["v2"], frame["v1"].sort_index(ascending=False), kind="binary")

    assert result.estimate == stored["experiments"][0]["comparisons"][0]["difference"]
    assert result.p_value == stored["experiments"][0]["comparisons"][0]["p_value"]


def test_a_query_spans_runs(suite, stored):
    second = suite.json("--crucible-adapter=poor")

    everything = runs.query()
    assert everything.ids == (second["run"]["id"], stored["run"]["id"])
    assert set(everything.estimates().run) == {second["run"]["id"], stored["run"]["id"]}
    assert len(everything.observations()) == len(runs.load().observations()) + len(
        runs.load(stored["run"]["id"]).observations()
    )
    assert runs.query(adapter="v1").ids == (stored["run"]["id"],)
    assert runs.query(tag="nightly").ids == (stored["run"]["id"],)
    assert runs.query(suite="test_sums", since=datetime.date.today() - datetime.timedelta(days=1)).ids == everything.ids


def test_since_is_the_first_instant_and_without_a_zone_it_is_local(stored, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    started = datetime.datetime.fromisoformat(stored["run"]["started"])
    local, instant = started.astimezone().replace(tzinfo=None), datetime.timedelta(microseconds=1)
    try:
        assert runs.query(since=started).ids == runs.query(since=local).ids == (stored["run"]["id"],)
        for later in (started + instant, local + instant):
            with pytest.raises(SpecError, match="has no run with since="):
                runs.query(since=later)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_no_runs_cannot_be_read():
    with pytest.raises(SpecError, match=r"StoredRuns needs the id of a run: use runs.load\(\) or runs.query\(\)"):
        runs.StoredRuns("runs.db", ())


@pytest.mark.parametrize(
    ("conditions", "sentence"),
    [
        ({"adapter": "v9"}, "has no run with adapter='v9'"),
        ({"since": "2999-01-01T00:00Z"}, "has no run with since='2999-01-01T00:00Z'"),
        ({"since": "yesterday"}, "since='yesterday' is not a time: write ISO 8601"),
    ],
)
def test_an_empty_query_reports_what_was_searched(stored, conditions, sentence):
    with pytest.raises(SpecError, match=sentence):
        runs.query(**conditions)


def test_a_lost_score_has_a_reason_and_no_value(suite, monkeypatch):
    monkeypatch.chdir(suite.path)
    suite.test(
        """
        import pytest
        from pytest_crucible import metric

        @metric
        def fragile(reply, sample):
            return 1 / (sample.id != "q00")

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=[fragile])
        async def test_fragile(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )
    suite.run("--crucible-adapter=v2")

    frame = runs.load().observations().set_index("sample")
    assert frame.loc["q00", "lost"] == "scorer"
    assert frame.isna().loc["q00", "value"]
    assert frame.loc["q01", "value"] == 1.0
