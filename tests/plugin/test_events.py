"""Events of requests reach hooks, the run store and the report, and do not mix."""

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
def listening(suite):
    """A suite whose hook records the events of two experiments on two arms."""
    suite.script(SCRIPTS, others={"base": {"backend": "scripted", "script": "scripts:base", "latency_s": 0.001}})
    suite.pytester.makeconftest(LISTENER)
    suite.test(TWO.format(name="sums"))
    suite.test(TWO.format(name="others"), name="test_others")
    return suite


def events(suite) -> list[dict[str, Any]]:
    names = ("name", "experiment", "arm", "sample", "repeat", "seconds", "facts", "worker")
    return [dict(zip(names, json.loads(line), strict=True)) for line in suite.calls()]


def stored_events(suite, query: str = "SELECT * FROM events ORDER BY id") -> list[dict[str, Any]]:
    with contextlib.closing(sqlite3.connect(suite.path / ".crucible/crucible.db")) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


EXPERIMENTS = ("test_sums.py::test_sums", "test_others.py::test_others")


def test_each_request_event_has_its_experiment_arm_and_sample(listening, run):
    run(*ARMS)

    places = [
        (experiment, arm, f"q{k:02}", 0)
        for experiment in EXPERIMENTS
        for arm in ("scripted", "base")
        for k in range(20)
    ]
    for name in ("request.start", "request.stop", "sample.start", "sample.stop"):
        rows = [
            (event["experiment"], event["arm"], event["sample"], event["repeat"])
            for event in events(listening)
            if event["name"] == name
        ]
        assert sorted(rows) == sorted(places)
    for name in ("experiment.start", "experiment.stop"):
        assert sorted(event["experiment"] for event in events(listening) if event["name"] == name) == sorted(
            EXPERIMENTS
        )


def test_sample_events_have_their_outcome(listening, run):
    run(*ARMS)

    stops = [event for event in events(listening) if event["name"] == "request.stop"]
    assert all(stop["seconds"] >= 0 for stop in stops)
    answered = {"input_tokens": 7, "output_tokens": 3, "finish": "stop"}
    assert all(answered.items() <= stop["facts"].items() for stop in stops if stop["sample"] != "q05")
    assert [stop["facts"] for stop in stops if stop["sample"] == "q05"] == [{"error": "BackendError"}] * 4
    outcomes = Counter(json.dumps(event["facts"]) for event in events(listening) if event["name"] == "sample.stop")
    assert outcomes == {'{"outcome": "answered"}': 76, '{"outcome": "lost", "reason": "error"}': 4}


def test_each_event_is_stored_once(listening, run):
    run(*ARMS)

    def place(event: dict[str, Any]) -> tuple[Any, ...]:
        repeat = event["repeat"] if "repeat" in event else event["epoch"]  # as the store calls it
        return event["name"], event["experiment"], event["arm"], event["sample"], repeat, event["seconds"]

    remaining = [event for event in events(listening) if event["name"] in ("request.stop",)]
    assert sorted(map(place, stored_events(listening))) == sorted(map(place, remaining))
    [row] = stored_events(listening, "SELECT DISTINCT run FROM events")
    assert row["run"] == stored_events(listening, "SELECT id FROM runs")[0]["id"]


def test_two_runs_into_one_store_have_their_own_usage(listening):
    documents = [listening.json("--crucible-adapter=scripted", "--compare=base", "--crucible-fresh") for _ in range(2)]

    for document in documents:
        for experiment in document["experiments"]:
            assert [of_arm["sent"] for of_arm in of_arms(experiment, "usage")] == [20, 20]
    assert len(stored_events(listening)) == 160


# -- listeners that are broken --------------------------------------------------------------------------------------

BROKEN = "{} raised ZeroDivisionError: division by zero on the event {}: it receives no more events"


def test_a_hook_that_raises_is_reported_once(listening, run):
    listening.pytester.makeconftest("def pytest_crucible_event(event):\n    1 / 0")
    result = run(*ARMS)

    result.assert_outcomes(passed=4)
    lines = [line for line in result.outlines if "ZeroDivisionError" in line]
    name = f"pytest_crucible_event in {str(listening.path / 'conftest.py')!r}"
    assert lines == [BROKEN.format(name, "experiment.start")]
    assert len(stored_events(listening)) == 80


# -- where else something is asked ----------------------------------------------------------------------------------


def test_joined_tests_emit_events_of_their_items(listening, run):
    (listening.path / "test_others.py").unlink()
    listening.test(
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

    counts = Counter((event["name"], event["arm"], event["sample"]) for event in events(listening))
    names = ("sample.start", "request.start", "request.stop", "sample.stop")
    assert counts == {(name, arm, str(k)): 1 for name in names for arm in ("scripted", "base") for k in range(3)}
    stops = {event["sample"]: event["facts"] for event in events(listening) if event["name"] == "sample.stop"}
    assert stops == {
        "0": {"outcome": "failed", "reason": "assertion"}, "1": {"outcome": "answered"}, "2": {"outcome": "answered"}
    }  # fmt: skip
    assert len(stored_events(listening)) == 6


def test_events_of_one_sample_alone_are_not_stored(listening):
    listening.run("--crucible-adapter=scripted", "--crucible-sample=q03")

    assert {(event["name"], event["sample"]) for event in events(listening)} == {
        ("request.start", "q03"),
        ("request.stop", "q03"),
    }
    assert not (listening.path / ".crucible/crucible.db").exists() or stored_events(listening) == []


def test_recorded_answers_are_no_requests(suite):
    suite.pytester.makeconftest(LISTENER)
    document = suite.json("--crucible-adapter=v2", "--compare=v1")

    assert {event["name"] for event in events(suite)} == {
        "experiment.start", "experiment.stop", "sample.start", "sample.stop"
    }  # fmt: skip
    assert of_arms(document["experiments"][0], "usage") == [None, None]


def test_cancelled_samples_emit_cancelled_events(listening):
    (listening.path / "test_others.py").unlink()
    listening.script(
        "from pytest_crucible import Refused\ndef answer(request):\n    raise Refused('no key')\nbase = answer"
    )
    listening.run("--crucible-adapter=scripted")

    outcomes = {event["facts"]["outcome"] for event in events(listening) if event["name"] == "sample.stop"}
    starts = Counter(event["name"] for event in events(listening) if event["name"].endswith(".start"))
    stops = Counter(event["name"] for event in events(listening) if event["name"].endswith(".stop"))
    assert outcomes == {"cancelled"}
    assert [starts[f"{entry}.start"] for entry in ("experiment", "sample", "request")] == [
        stops[f"{entry}.stop"] for entry in ("experiment", "sample", "request")
    ]


# -- the report -----------------------------------------------------------------------------------------------------


@pytest.fixture
def modelled(suite):
    """A model that is no script."""
    suite.pytester.makeconftest(MODEL)
    suite.adapters({name: {"backend": "model"} for name in ("large", "small")})
    suite.test(TWO.format(name="sums"))
    return suite


def test_usage_is_printed_below_the_verdicts(modelled, run):
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
def test_quiet_prints_no_usage(modelled, quiet):
    result = modelled.run("--crucible-adapter=large", *(["-q"] if quiet else []))

    assert any(line.startswith("arm ") for line in result.outlines) is not quiet


def test_verbose_prints_all_percentiles(modelled):
    result = modelled.run("-v", "--crucible-adapter=large")

    result.stdout.fnmatch_lines(
        ["arm *time of *n *p50 *p90 *p95 *p99", "large  reply *20 *", "seconds; percentiles linear between *"]
    )


def test_stored_replies_count_as_no_usage(modelled):
    modelled.run("--crucible-adapter=large", "--compare=small")
    document = modelled.json("--crucible-adapter=large", "--compare=small", "--crucible-cache=off")

    [first, second] = of_arms(document["experiments"][0], "usage")
    assert (first["sent"], first["answered"], first["input_tokens"], first["output_tokens"]) == (20, 20, 140, 60)
    assert first["latency"]["n"] == 20
    assert second is None


def test_a_clock_set_back_gives_no_negative_durations(listening):
    """An hour back with every look at it; in a process of its own, since it is not set right again."""
    listening.pytester.makeconftest(
        f"""
        import itertools, time

        hours = itertools.count()
        now = time.time()
        time.time = lambda: now - 3600 * next(hours)
        {textwrap.indent(LISTENER, "    ")}
        """
    )
    result = listening.run_apart(*ARMS)

    assert result.ret == 0
    assert min(event["seconds"] for event in events(listening) if event["seconds"] is not None) >= 0
