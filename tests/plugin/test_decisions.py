"""Decisions that a test records: stored with the reply, of the right sample, in tasks and threads, and copied with it."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from pytest_crucible import SpecError
from pytest_crucible.features.provenance.differences import compare_runs
from pytest_crucible.features.provenance.load_decisions import Chain, load_decisions
from pytest_crucible.features.provenance.load_timeline import load_timelines
from pytest_crucible.features.provenance.search import find_decisions
from pytest_crucible.store.runs import RunStore

TEST = """
    import pytest
    from pytest_crucible import trace

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.20")
    async def test_sums(sample, sampler):
        with trace.step("choose"):
            first = trace.decision("count", over=["guess"], because="small", confidence=0.8, kind="hypothesis_formed")
            trace.decision("add", because=f"of {sample.id}", revises=first)
        return trace.read(await sampler.generate(sample.input))
"""


def load_chains(suite: Any, run: str = "latest", **selected: str) -> list[Chain]:
    with closing(RunStore(str(suite.path / ".crucible" / "crucible.db"))) as store:
        return load_decisions(store, store.find_run(run), **selected)


def test_decisions_are_stored_with_their_sample(suite, run):
    suite.test(TEST)
    run("--crucible-adapter=v1").assert_outcomes(passed=2)

    chains = load_chains(suite)

    assert [chain.sample for chain in chains] == [f"q{k:02}" for k in range(20)]
    for chain in chains:
        assert [(d.number, d.kind, d.decision, d.stage) for d in chain.decisions] == [
            (1, "stage_started", "choose", ""),
            (2, "hypothesis_formed", "count", "choose"),
            (3, "decision", "add", "choose"),
            (4, "stage_completed", "choose", ""),
        ]
        first, second = chain.decisions[1:3]
        assert (first.over, first.because, first.confidence, first.is_claim) == (("guess",), "small", 0.8, False)
        assert (second.because, second.confidence, second.revises) == (f"of {chain.sample}", None, 2)


def test_decisions_are_steps_of_a_timeline(suite):
    suite.test(TEST)
    suite.run("--crucible-adapter=v1").assert_outcomes(passed=2)

    with closing(RunStore(str(suite.path / ".crucible" / "crucible.db"))) as store:
        (timeline,) = load_timelines(store, "latest", "q03")

    steps = [step for step in timeline.steps if step.kind in ("decision", "stage")]
    assert [step.title for step in steps] == [
        "stage choose: started",
        "hypothesis_formed: count (confidence 0.8)",
        "decision: add",
        "stage choose: completed",
    ]
    assert steps[-1].seconds is not None
    assert steps[2].facts["because"] == "of q03"


CALIBRATED = """
    import pytest
    from pytest_crucible import trace

    @pytest.mark.crucible(
        dataset="questions.jsonl",
        metrics=["exact_match", "stated_confidence", "decision_count", "revision_count", "ambiguity_count"],
    )
    @pytest.mark.quality_target("ece(stated_confidence) <= 0.50")
    async def test_sums(sample, sampler):
        number = int(sample.id[1:])
        trace.decision("unclear", kind="ambiguity_flagged", confidence=0.3)
        first = trace.decision("add", confidence=0.8)
        if number % 2:
            trace.decision("count", revises=first, confidence=0.9)
        assert number != 4
        reply = await sampler.generate(sample.input)
        return trace.read(reply)
"""


def test_metrics_of_decisions_are_named_in_marks(suite):
    suite.test(CALIBRATED)

    result = suite.run("--crucible-adapter=v1")

    # 0.8 is stated for the even numbers, of which 5 of 10 are right: 4 fails after it has stated its confidence. 0.9 is stated
    # for the others, of which 6 of 10 are right.
    result.stdout.fnmatch_lines(["ece(stated_confidence) <= 0.50  0.300 *  20     0  met"])
    for name, value in (("decision_count", 2.5), ("revision_count", 0.5), ("ambiguity_count", 1)):
        assert stored_mean(suite, name) == value


def stored_mean(suite: Any, metric: str) -> float:
    with closing(sqlite3.connect(suite.path / ".crucible" / "crucible.db")) as database:
        (mean,) = database.execute("SELECT AVG(value) FROM observations WHERE metric = ?", [metric]).fetchone()
    return mean


def test_a_confidence_without_one_metric_to_compare_it_with_is_refused(suite):
    suite.test(CALIBRATED.replace('"exact_match"', '"exact_match", "contains_expected"'))

    result = suite.run("--crucible-adapter=v1")

    suite.refuses(
        result,
        "*ece(stated_confidence) does not name its accuracy, and the experiment has 2 yes-or-no metrics: write for example "
        "ece(stated_confidence, exact_match)",
    )


CONCURRENT = """
    import asyncio
    import threading
    from concurrent.futures import ThreadPoolExecutor

    import pytest
    from pytest_crucible import metrics, metric, trace

    pool = ThreadPoolExecutor(3)

    def note(where, sample):
        with trace.step(where):
            trace.decision(sample.id, because=where)

    async def note_in_task(sample):
        await asyncio.sleep(0.001 * (int(sample.id[1:]) % 3))
        note("task", sample)

    async def note_everywhere(sample):
        thread = threading.Thread(target=note, args=("thread", sample))
        thread.start()
        await asyncio.gather(note_in_task(sample), asyncio.create_task(note_in_task(sample)))
        await asyncio.to_thread(note, "to_thread", sample)
        await asyncio.wrap_future(pool.submit(note, "pool", sample))
        await asyncio.get_running_loop().run_in_executor(pool, note, "executor", sample)
        await asyncio.to_thread(thread.join)

    @metric
    async def noted(reply, sample):
        await asyncio.sleep(0)
        note("metric", sample)
        await asyncio.gather(note_in_task(sample))
        return True

    @pytest.mark.crucible(dataset=[{"id": f"s{k}", "input": str(k)} for k in range(256)], metrics=[noted])
    @pytest.mark.quality_target("noted >= 0.5")
    async def test_tasks(sample, sampler):
        await note_everywhere(sample)
        return await sampler.generate(sample.input)

    @pytest.mark.crucible(dataset=[{"id": f"s{k}", "input": str(k)} for k in range(64)], metrics=[noted])
    @pytest.mark.quality_target("noted >= 0.5")
    def test_threads(sample, sampler):
        note("test", sample)
        list(pool.map(note, ["map", "map"], [sample, sample]))
        thread = threading.Timer(0.001, note, ["timer", sample])
        thread.start()
        thread.join()
        return sampler.generate(sample.input)
"""


def test_64_concurrent_samples_record_nothing_for_another_one(suite, run):
    suite.script("def answer(request):\n    return request.input\n")
    suite.test(CONCURRENT)

    run("--crucible-adapter=scripted", "--crucible-concurrency=64").assert_outcomes(passed=4)

    chains = load_chains(suite)
    assert len(chains) == 256 + 64
    for chain in chains:
        decisions = [decision for decision in chain.decisions if decision.kind == "decision"]
        assert {decision.decision for decision in decisions} == {chain.sample}
        assert [decision.number for decision in chain.decisions] == [*range(1, 1 + len(chain.decisions))]
        assert all(decision.stage == decision.because for decision in decisions)
        places = Counter(decision.because for decision in decisions)
        if chain.experiment.endswith("test_tasks"):
            assert places == {"thread": 1, "task": 3, "to_thread": 1, "pool": 1, "executor": 1, "metric": 1}
        else:
            assert places == {"test": 1, "map": 2, "timer": 1, "metric": 1, "task": 1}


def test_what_carries_decisions_into_threads_is_restored(suite):
    before = threading.Thread.start, ThreadPoolExecutor.submit
    suite.test(TEST)
    suite.run("--crucible-adapter=v1").assert_outcomes(passed=2)

    assert (threading.Thread.start, ThreadPoolExecutor.submit) == before


def test_decisions_are_searched_and_compared_over_runs(suite):
    suite.test(TEST)
    suite.run("--crucible-adapter=v1").assert_outcomes(passed=2)
    suite.test(TEST.replace('trace.decision("add"', 'trace.decision("add" if sample.id != "q03" else "guess"'))
    suite.run("--crucible-adapter=v1", "--crucible-fresh").assert_outcomes(passed=2)

    with closing(RunStore(str(suite.path / ".crucible" / "crucible.db"))) as store:
        newest, oldest = store.scalars("SELECT id FROM runs ORDER BY started DESC")
        guesses = find_decisions(store, "latest", "kind = decision and decision = guess")
        low = find_decisions(store, newest, "kind = hypothesis_formed and confidence < 0.9 and not sample contains 0")
        scores = find_decisions(store, newest, "kind = metric_recorded and sample = q12")
        changed = [each for each in compare_runs(store, newest, oldest) if each.similarity < 1]

    assert [(each.chain.sample, each.decision.number) for each in guesses] == [("q03", 3)]
    assert [each.chain.sample for each in low] == [f"q{k}" for k in range(11, 20)]
    assert [each.decision.decision for each in scores] == ["exact_match = 0.0"]
    (difference,) = changed
    assert (difference.sample, difference.similarity) == ("q03", 0.75)
    assert [[event.decision for event in events] for events in (difference.added, difference.removed)] == [
        ["guess"],
        ["add"],
    ]


def test_without_tracing_decisions_are_counted_and_not_stored(suite):
    suite.test(CALIBRATED)
    suite.run("--crucible-adapter=v1", "--crucible-trace=off").assert_outcomes(passed=2)

    assert stored_mean(suite, "decision_count") == 2.5
    with closing(RunStore(str(suite.path / ".crucible" / "crucible.db"))) as store:
        assert load_decisions(store, store.find_run()) == []
        with pytest.raises(SpecError, match=r"was recorded with --crucible-trace=off: its decisions are unknown"):
            find_decisions(store, "latest")


COMPARED = TEST.replace(">= 0.20", ">= 0").replace(
    "    async def", '    @pytest.mark.ab_compare("exact_match")\n    async def'
)


def test_decisions_of_reused_and_resumed_replies_are_those_of_the_run_that_sent_them(suite):
    suite.script("def answer(request):\n    return '4'\n\ndef base(request):\n    return '6'\n")
    suite.test(COMPARED)
    suite.run("--crucible-adapter=scripted", "--compare=base", "--crucible-budget=12 requests")
    first = {(chain.arm, chain.sample): chain.decisions for chain in load_chains(suite)}
    suite.run("--crucible-adapter=scripted", "--compare=base", "--crucible-resume")

    chains = load_chains(suite)

    # Lost samples have decided something, too, and decide it again.
    assert (len(first), len(chains)) == (40, 40)
    assert sum(first[chain.arm, chain.sample] == chain.decisions for chain in chains) == 12


CLAIMS = """
    import pytest
    from pytest_crucible import trace

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match", "stated_confidence"])
    @pytest.mark.quality_target("exact_match >= 0.99")
    def test_sums(sample, sampler):
        return trace.read(sampler.generate(trace.prompt(sample.input)))
"""
ANSWER = """
def answer(request):
    prompt, _, form = request.input.partition("\\n\\n")
    assert '<event type="hypothesis_formed">' in form
    total = 2 * int(prompt.split()[0])
    return f"<event type='my_own'><decision>add\\0</decision><confidence>{total}%</confidence></event>\\n{total}\\n<event>"
"""


def test_what_a_model_states_is_a_claim_and_no_part_of_its_answer(suite):
    suite.script(ANSWER.replace('<event>"', '"'))
    suite.test(CLAIMS)
    suite.run("--crucible-adapter=scripted").assert_outcomes(passed=2)

    claims = [event for chain in load_chains(suite) for event in chain.decisions]

    assert len(claims) == 20
    assert all(
        (event.kind, event.decision, event.is_claim, event.calls) == ("my_own", "add\ufffd", True, 1)
        for event in claims
    )
    assert [event.confidence for event in claims] == [2 * k / 100 for k in range(20)]


def test_a_tag_that_is_not_closed_is_counted_and_stays_in_the_answer(suite):
    suite.script(ANSWER)
    suite.test(CLAIMS)
    suite.run("--crucible-adapter=scripted").assert_outcomes(passed=1, failed=1)

    events = load_chains(suite)[0].decisions
    assert [(event.kind, event.decision, event.is_claim) for event in events] == [
        ("my_own", "add\ufffd", True),
        ("unclosed_tags", "1 <event> tag without an end: not read", False),
    ]


JOINED = """
    import threading
    import pytest
    from pytest_crucible import trace

    trace.decision("at import")

    @pytest.mark.quality_target("right >= 0.20")
    @pytest.mark.parametrize("number", range(20), ids=[f"q{k:02}" for k in range(20)])
    def test_sums(crucible, number):
        thread = threading.Thread(target=trace.decision, args=(f"in a thread of {number}",))
        thread.start()
        thread.join()
        reply = crucible.sampler.generate(f"{number} + {number}")
        trace.decision(f"after the reply to {number}")
        crucible.score(right=reply.text == str(2 * number))

    def test_of_nothing():
        trace.decision("outside of samples")
"""


def test_items_of_a_joined_test_record_for_themselves(suite, run):
    suite.test(JOINED)
    run("--crucible-adapter=v1").assert_outcomes(passed=22)

    chains = load_chains(suite)

    assert [chain.sample for chain in chains] == [f"q{k:02}" for k in range(20)]
    for number, chain in enumerate(chains):
        assert [(event.decision, event.calls) for event in chain.decisions] == [
            (f"in a thread of {number}", 0),
            (f"after the reply to {number}", 1),
        ]


LATE = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.20")
    async def test_sums(sample, sampler):
        import asyncio
        import threading
        from pytest_crucible import trace

        thread = threading.Thread(target=trace.decision, args=(sample.id,))
        thread.start()
        await asyncio.to_thread(thread.join)
        return await sampler.generate(sample.input)
"""


def test_a_sample_that_imports_the_module_first_has_its_threads_carried_too(suite):
    suite.test(LATE)
    suite.run_apart("--crucible-adapter=v1").assert_outcomes(passed=2)

    assert [[event.decision for event in chain.decisions] for chain in load_chains(suite)] == [
        [f"q{k:02}"] for k in range(20)
    ]


LEFT_BEHIND = """
    import threading
    import pytest
    from pytest_crucible import trace

    late = threading.Semaphore(0)

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match", "decision_count"], timeout=0.7)
    @pytest.mark.quality_target("exact_match >= 0")
    def test_sums(sample, sampler):
        trace.decision("in time")
        if sample.id in ("q05", "q15"):
            threading.Event().wait(1)
            trace.decision("too late")
            late.release()
        return sampler.generate(sample.input)

    def test_last():
        assert all(late.acquire(timeout=60) for _ in range(2))
"""


def test_a_thread_that_exceeds_its_time_records_no_more(suite):
    suite.test(LEFT_BEHIND)
    suite.run("--crucible-adapter=v1").assert_outcomes(passed=3)

    assert [[event.decision for event in chain.decisions] for chain in load_chains(suite)] == [["in time"]] * 20
    assert stored_mean(suite, "decision_count") == 1
