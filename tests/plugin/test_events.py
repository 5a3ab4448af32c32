"""What happens between questions and answers reaches hooks, the run store and the report; and nothing mixes."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import textwrap
from collections import Counter
from typing import Any

import pytest
from run_documents import of_arms

LISTENER = """
    import json, os

    def pytest_crucible_event(event):
        with open("calls.txt", "a") as file:
            told = [event.name, event.experiment, event.arm, event.sample, event.repeat, event.seconds, dict(event.facts)]
            file.write(json.dumps([*told, os.environ.get("PYTEST_XDIST_WORKER", "")]) + chr(10))
"""
SCRIPTS = """
    from pytest_crucible import BackendError, Reply

    def answer(request):
        if request.sample == "q05":
            raise BackendError("rebooted")
        return Reply(text=request.input, input_tokens=7, output_tokens=3)

    def base(request):
        return answer(request)
"""
MODEL = """
    from pytest_crucible import Reply

    class Model:
        simulated = False

        def __init__(self, name):
            self.identity = name

        async def generate(self, request):
            return Reply(text="0", input_tokens=7, output_tokens=3)

    def pytest_crucible_backend(adapter):
        return Model(adapter.name) if adapter.backend == "model" else None
"""
TWO = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.ab_compare("exact_match")
    async def test_{name}(sample, sampler):
        return await sampler.generate(sample.input)
"""
ARMS = ("--crucible-adapter=scripted", "--compare=base")


@pytest.fixture
def told(suite):
    """A hook that writes down what it is told of two experiments on two arms."""
    suite.script(SCRIPTS, others={"base": {"backend": "scripted", "script": "scripts:base", "latency_s": 0.001}})
    suite.pytester.makeconftest(LISTENER)
    suite.test(TWO.format(name="sums"))
    suite.test(TWO.format(name="others"), name="test_others")
    return suite


def events(suite) -> list[dict[str, Any]]:
    names = ("name", "experiment", "arm", "sample", "repeat", "seconds", "facts", "worker")
    return [dict(zip(names, json.loads(line), strict=True)) for line in suite.calls()]


def stored(suite, query: str = "SELECT * FROM events ORDER BY id") -> list[dict[str, Any]]:
    with contextlib.closing(sqlite3.connect(suite.path / ".crucible/crucible.db")) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


EXPERIMENTS = ("test_sums.py::test_sums", "test_others.py::test_others")


def test_each_request_is_told_with_its_experiment_arm_and_sample(told, run):
    run(*ARMS)

    places = [
        (experiment, arm, f"q{k:02}", 0)
        for experiment in EXPERIMENTS
        for arm in ("scripted", "base")
        for k in range(20)
    ]
    for name in ("request.start", "request.stop", "sample.start", "sample.stop"):
        found = [
            (one["experiment"], one["arm"], one["sample"], one["repeat"]) for one in events(told) if one["name"] == name
        ]
        assert sorted(found) == sorted(places)
    for name in ("experiment.start", "experiment.stop"):
        assert sorted(one["experiment"] for one in events(told) if one["name"] == name) == sorted(EXPERIMENTS)


def test_what_became_of_each_is_told(told, run):
    run(*ARMS)

    stops = [one for one in events(told) if one["name"] == "request.stop"]
    assert all(one["seconds"] >= 0 for one in stops)
    answered = {"input_tokens": 7, "output_tokens": 3, "finish": "stop"}
    assert all(answered.items() <= one["facts"].items() for one in stops if one["sample"] != "q05")
    assert [one["facts"] for one in stops if one["sample"] == "q05"] == [{"error": "BackendError"}] * 4
    outcomes = Counter(json.dumps(one["facts"]) for one in events(told) if one["name"] == "sample.stop")
    assert outcomes == {'{"outcome": "answered"}': 76, '{"outcome": "lost", "reason": "error"}': 4}


@pytest.mark.slow
def test_under_xdist_workers_tell_what_they_ask(told):
    told.run_n2(*ARMS)

    by_experiment = {one["experiment"]: set() for one in events(told)}
    for one in events(told):
        by_experiment[one["experiment"]].add(one["worker"])
    assert sorted(map(len, by_experiment.values())) == [1, 1]
    assert set().union(*by_experiment.values()) <= {"gw0", "gw1"}


def test_what_is_told_is_stored_too_once(told, run):
    run(*ARMS)

    def place(one: dict[str, Any]) -> tuple[Any, ...]:
        repeat = one["repeat"] if "repeat" in one else one["epoch"]  # as the store calls it
        return one["name"], one["experiment"], one["arm"], one["sample"], repeat, one["seconds"]

    kept = [one for one in events(told) if one["name"] in ("request.stop",)]
    assert sorted(map(place, stored(told))) == sorted(map(place, kept))
    [row] = stored(told, "SELECT DISTINCT run FROM events")
    assert row["run"] == stored(told, "SELECT id FROM runs")[0]["id"]


def test_two_runs_into_one_store_have_their_own_usage(told):
    documents = [told.json("--crucible-adapter=scripted", "--compare=base", "--crucible-fresh") for _ in range(2)]

    for document in documents:
        for experiment in document["experiments"]:
            assert [one["sent"] for one in of_arms(experiment, "usage")] == [20, 20]
    assert len(stored(told)) == 160


# -- listeners that are broken --------------------------------------------------------------------------------------

BROKEN = "{} raised ZeroDivisionError: division by zero on the event {}: it receives no more events"


def test_a_hook_that_raises_breaks_nothing_and_is_told_once(told, run):
    told.pytester.makeconftest("def pytest_crucible_event(event):\n    1 / 0")
    result = run(*ARMS)

    result.assert_outcomes(passed=4)
    lines = [line for line in result.outlines if "ZeroDivisionError" in line]
    name = f"pytest_crucible_event in {str(told.path / 'conftest.py')!r}"
    assert lines == [BROKEN.format(name, "experiment.start")]
    assert len(stored(told)) == 80


def test_a_hook_that_raises_does_not_silence_another(told, run):
    (told.path / "below").mkdir()
    (told.path / "below/conftest.py").write_text("def pytest_crucible_event(event):\n    1 / 0\n")
    (told.path / "test_others.py").rename(told.path / "below/test_others.py")
    run(*ARMS)

    assert len([one for one in events(told) if one["name"] == "request.stop"]) == 80


# -- where else something is asked ----------------------------------------------------------------------------------


def test_joined_tests_tell_of_their_items(told, run):
    (told.path / "test_others.py").unlink()
    told.test(
        """
        import pytest

        @pytest.mark.ab_compare("passed")
        @pytest.mark.parametrize("number", range(3))
        def test_sums(crucible, number):
            crucible.sampler.generate(f"{number}?")
            assert number
        """
    )
    run(*ARMS)

    found = Counter((one["name"], one["arm"], one["sample"]) for one in events(told))
    names = ("sample.start", "request.start", "request.stop", "sample.stop")
    assert found == {(name, arm, str(k)): 1 for name in names for arm in ("scripted", "base") for k in range(3)}
    stops = {one["sample"]: one["facts"] for one in events(told) if one["name"] == "sample.stop"}
    assert stops == {
        "0": {"outcome": "failed", "reason": "assertion"}, "1": {"outcome": "answered"}, "2": {"outcome": "answered"}
    }  # fmt: skip
    assert len(stored(told)) == 6


def test_one_sample_alone_is_told_of_and_not_stored(told):
    told.run("--crucible-adapter=scripted", "--crucible-sample=q03")

    assert {(one["name"], one["sample"]) for one in events(told)} == {("request.start", "q03"), ("request.stop", "q03")}
    assert not (told.path / ".crucible/crucible.db").exists() or stored(told) == []


def test_recorded_answers_are_no_requests(suite):
    suite.pytester.makeconftest(LISTENER)
    document = suite.json("--crucible-adapter=v2", "--compare=v1")

    assert {one["name"] for one in events(suite)} == {
        "experiment.start", "experiment.stop", "sample.start", "sample.stop"
    }  # fmt: skip
    assert of_arms(document["experiments"][0], "usage") == [None, None]


def test_samples_that_are_cut_short_are_told_as_cancelled(told):
    (told.path / "test_others.py").unlink()
    told.script("from pytest_crucible import Refused\ndef answer(request):\n    raise Refused('no key')\nbase = answer")
    told.run("--crucible-adapter=scripted")

    outcomes = {one["facts"]["outcome"] for one in events(told) if one["name"] == "sample.stop"}
    starts = Counter(one["name"] for one in events(told) if one["name"].endswith(".start"))
    stops = Counter(one["name"] for one in events(told) if one["name"].endswith(".stop"))
    assert outcomes == {"cancelled"}
    assert [starts[f"{one}.start"] for one in ("experiment", "sample", "request")] == [
        stops[f"{one}.stop"] for one in ("experiment", "sample", "request")
    ]


# -- the report -----------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(suite):
    """A model that is no script."""
    suite.pytester.makeconftest(MODEL)
    suite.adapters({name: {"backend": "model"} for name in ("large", "small")})
    suite.test(TWO.format(name="sums"))
    return suite


def test_what_it_took_stands_below_the_verdicts(asked, run):
    result = run("--crucible-adapter=large", "--compare=small")

    result.stdout.fnmatch_lines(
        [
            "exact_match: large vs small *",
            "arm    requests  tokens in  out  latency p50 * p95  replies/s",
            "large        20        140   60 *",
            "small        20        140   60 *",
        ]
    )


@pytest.mark.parametrize("quiet", [True, False])
def test_quietly_nothing_of_it_does(asked, quiet):
    result = asked.run("--crucible-adapter=large", *(["-q"] if quiet else []))

    assert any(line.startswith("arm ") for line in result.outlines) is not quiet


def test_verbosely_all_percentiles_do(asked):
    result = asked.run("-v", "--crucible-adapter=large")

    result.stdout.fnmatch_lines(
        ["arm *time of *n *p50 *p90 *p95 *p99", "large  reply *20 *", "seconds; percentiles linear between *"]
    )


def test_stored_answers_took_nothing_this_time(asked):
    asked.run("--crucible-adapter=large", "--compare=small")
    document = asked.json("--crucible-adapter=large", "--compare=small", "--crucible-cache=off")

    [first, second] = of_arms(document["experiments"][0], "usage")
    assert (first["sent"], first["answered"], first["input_tokens"], first["output_tokens"]) == (20, 20, 140, 60)
    assert first["latency"]["n"] == 20
    assert second is None


def test_a_clock_that_is_set_back_makes_nothing_shorter_than_nothing(told):
    """An hour back with every look at it; in a process of its own, since nobody sets it right again."""
    told.pytester.makeconftest(
        f"""
        import itertools, time

        hours = itertools.count()
        now = time.time()
        time.time = lambda: now - 3600 * next(hours)
        {textwrap.indent(LISTENER, "    ")}
        """
    )
    result = told.run_apart(*ARMS)

    assert result.ret == 0
    assert min(one["seconds"] for one in events(told) if one["seconds"] is not None) >= 0
