"""--crucible-stop: an experiment ends when its verdicts are settled, whichever replies came first."""

from __future__ import annotations

import json

import pytest

TEST = """
    import asyncio
    import pytest

    SAMPLES = [{{"id": f"s{{k}}", "input": f"q{{k}}", "task": "abc"[k % 3]}} for k in range(300)]

    @pytest.mark.crucible(dataset=SAMPLES{facts})
    {marks}
    async def test_sums(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        await asyncio.sleep({delay})
        score(ok={value})
"""
SCRIPTS = """
    import random

    def right(arm, request, share):
        with open("calls.txt", "a") as file:
            file.write(arm + chr(10))
        {before}
        return "right" if random.Random(arm + request.sample).random() < share else "wrong"

    def answer(request):
        return right("answer", request, {ours})

    def base(request):
        return right("base", request, {theirs})
"""
BOTH = ("--crucible-adapter=scripted", "--compare=base", "--crucible-stop")
MARKS = '@pytest.mark.quality_target("ok >= 0.75")\n    @pytest.mark.ab_compare("ok")'


def write_suite(
    suite, *, ours=0.95, theirs=0.4, delay="0", value='reply.text == "right"', marks=MARKS, facts="", before=""
):
    suite.script(SCRIPTS.format(ours=ours, theirs=theirs, before=before))
    suite.test(TEST.format(delay=delay, value=value, marks=marks, facts=facts))
    return suite


def stop_reasons(suite):
    (experiment,) = json.loads((suite.path / "r.json").read_text())["experiments"]
    verdicts = [(verdict["state"], verdict["proven"]) for verdict in experiment["verdicts"]]
    estimates = [(arm["arm"], arm["n"], arm["value"]) for arm in experiment["estimates"]]
    return experiment["sections"]["stopping"], verdicts, estimates


def calls(suite):
    return len(suite.calls())


def test_a_clear_difference_ends_the_run_early(suite):
    result = write_suite(suite).run(*BOTH, "--crucible-json=r.json", "--crucible-concurrency=4")

    assert result.ret == 0
    document, verdicts, estimates = stop_reasons(suite)
    assert document["samples"] < 150
    assert calls(suite) <= 2 * document["samples"] + 4 + 4
    assert verdicts == [("met", True), ("met", True)]
    assert {n for _, n, _ in estimates} == {document["samples"]}
    result.stdout.fnmatch_lines(
        [
            "*looks after every sample*",
            f"test_sums: stopped after {document['samples']} of 300 samples: all verdicts are settled",
        ]
    )
    result.stdout.no_fnmatch_line("*lost*not run*")


def test_an_unsettled_verdict_needs_all_samples(suite):
    result = write_suite(suite, ours=0.8, theirs=0.8).run(*BOTH)

    assert calls(suite) == 600
    result.stdout.fnmatch_lines(["*all 300 samples were needed: some verdict is not settled"])


def test_replies_that_are_slow_when_they_are_right_change_nothing(suite):
    stops = []
    for slow in ('0.004 * (reply.text == "right")', '0.004 * (reply.text == "wrong")'):
        write_suite(suite, delay=slow).run(
            *BOTH, "--crucible-json=r.json", "--crucible-cache=off", "--crucible-fresh", "--crucible-concurrency=8"
        )
        stops.append(stop_reasons(suite))

    assert stops[0] == stops[1]


def test_chances_of_draws_are_settled_by_their_value_of_each_sample(suite):
    """A sample that passes in 1 of 2 replies has the chance 0 that both do, and the chance 1 that one does."""
    marks = '@pytest.mark.quality_target("pass^2(ok) >= 0.6", "pass@2(ok) >= 0.2")\n    @pytest.mark.ab_compare("pass^2(ok)")'
    write_suite(suite, marks=marks, facts=", epochs=2").run(*BOTH, "--crucible-json=r.json")
    stopping, verdicts, _ = stop_reasons(suite)

    assert verdicts == [("met", True)] * 3
    assert stopping["samples"] < 200


@pytest.mark.slow
def test_a_run_on_workers_ends_at_the_same_sample(suite):
    write_suite(suite).run(*BOTH, "--crucible-json=r.json", "--crucible-store=a.db")
    alone = stop_reasons(suite)
    suite.run(*BOTH, "--crucible-json=r.json", "--crucible-store=b.db", "-n", "2")

    assert stop_reasons(suite) == alone


@pytest.mark.slow
def test_an_interrupted_run_ends_at_the_same_sample_when_it_is_resumed(suite):
    write_suite(suite).run(*BOTH, "--crucible-json=r.json", "--crucible-store=a.db")
    whole = stop_reasons(suite)
    interrupt = 'if len(open("calls.txt").readlines()) == 25: raise KeyboardInterrupt'
    (suite.path / "calls.txt").unlink()
    write_suite(suite, before=interrupt).run(*BOTH, "--crucible-concurrency=2")
    suite.run(*BOTH, "--crucible-resume", "--crucible-json=r.json")

    assert stop_reasons(suite) == whole


@pytest.mark.slow
def test_the_baseline_of_an_earlier_run_is_used_as_far_as_it_goes(suite):
    write_suite(suite).run(*BOTH, "--crucible-concurrency=1")
    before = suite.calls().count("base")
    result = suite.run(*BOTH, "--crucible-concurrency=1")

    assert suite.calls().count("base") == before
    assert result.ret == 0


@pytest.mark.uses("factors")
@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (
            {"marks": '@pytest.mark.quality_target("p95(latency_s) <= 5")'},
            "--crucible-stop decides means, rates, pass^k and pass@k, but not 'p95(latency_s)': ",
        ),
        (
            {"marks": '@pytest.mark.quality_target("overall(ok by task, macro) >= 0.5")'},
            "--crucible-stop cannot decide 'overall(ok by task, macro)': a look sees parts of its slices, and it is a mean over ",
        ),
        (
            {"marks": '@pytest.mark.quality_target("ok == 0.5")'},
            "--crucible-stop cannot prove 'ok == 0.5': ask for >= or <=",
        ),
        (
            {"marks": '@pytest.mark.ab_compare("mean(latency_s)")', "facts": ', metrics=["latency_s"]'},
            "--crucible-stop needs bounded metrics and 'latency_s' has no bounds: ",
        ),
        ({"facts": ', prompts=["a.txt", "b.txt"]'}, "--crucible-stop cannot count the noise of prompts: "),
    ],
    ids=["percentile", "overall", "equality", "no bounds", "prompts"],
)
def test_a_verdict_without_a_confidence_sequence_is_refused_before_any_request(suite, facts, sentence):
    for name in ("a.txt", "b.txt"):
        (suite.path / name).write_text(f"Answer as {name} says.")
    write_suite(suite, **facts)
    if "prompts" in facts.get("facts", ""):
        file = next(suite.path.glob("test_*.py"))
        file.write_text(file.read_text().replace("(sample, sampler, score)", "(sample, sampler, score, prompt)"))
    result = suite.run(*BOTH)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{sentence.replace('[', '[[]')}*"])
    assert not (suite.path / "calls.txt").exists()


def test_numbers_without_bounds_are_refused_after_the_first_sample(suite):
    write_suite(suite, value='0.5 + (reply.text == "right")', marks='@pytest.mark.ab_compare("ok")')
    result = suite.run(*BOTH, "--crucible-concurrency=1")

    assert calls(suite) <= 4
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --crucible-stop needs bounded metrics and 'ok' has no bounds: declare @metric(bounds=(0, 500))"]
    )


@pytest.mark.uses("factors")
def test_prompts_that_claims_are_about_are_repeats_of_a_look(suite):
    for name in ("a.txt", "b.txt"):
        (suite.path / name).write_text(f"Answer as {name} says.")
    write_suite(suite, facts=', prompts=["a.txt", "b.txt"], fixed="prompts"')
    file = suite.path / "test_sums.py"
    file.write_text(file.read_text().replace("sampler, score)", "sampler, score, prompt)"))
    result = suite.run(*BOTH, "--crucible-json=r.json")

    document, verdicts, _ = stop_reasons(suite)
    assert result.ret == 0
    assert document["samples"] < 150
    assert verdicts == [("met", True), ("met", True)]


UNEVEN = """
    import pytest

    LARGE = [{"id": f"l{k}", "input": f"q{k}", "group": f"g{k // 20}"} for k in range(800)]
    SINGLE = [{"id": f"s{k}", "input": f"q{k}", "group": f"s{k}"} for k in range(80)]

    @pytest.mark.crucible(dataset=[*LARGE, *SINGLE])
    @pytest.mark.quality_target("ok >= 0.7", decide="bound")
    async def test_sums(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        score(ok=reply.text == "right")
"""


@pytest.mark.parametrize("looks", [(), ("--crucible-stop",)], ids=["plain", "looks"])
def test_unequal_groups_have_one_verdict_with_looks_and_without(suite, looks):
    """.56 of samples are right, and .77 of an average group: by the groups' means the target was met and proven."""
    suite.script(
        "import random\n\ndef answer(request):\n"
        "    share = 0.5 if request.sample.startswith('l') else 1.0\n"
        "    return 'right' if random.Random(request.sample).random() < share else 'wrong'\n"
    )
    suite.test(UNEVEN)
    suite.run("--crucible-adapter=scripted", *looks, "--crucible-json=r.json")
    (experiment,) = json.loads((suite.path / "r.json").read_text())["experiments"]

    assert [(verdict["state"], verdict["proven"]) for verdict in experiment["verdicts"]] == [("missed", True)]
    assert experiment["estimates"][0]["value"] < 0.62
