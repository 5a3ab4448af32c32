"""Explanations that are run again, cut short, random, on two workers, of several requests, and of hostile prompts."""

from __future__ import annotations

import json

import pytest

CONFTEST = """
    import random

    import pytest_crucible as crucible

    class Model:
        simulated = False

        def __init__(self, name, options):
            self.identity, self.spread = name, options.get("spread", 0.0)

        async def generate(self, request):
            prompt = request.input
            text = prompt if isinstance(prompt, str) else "|".join(message["content"] for message in prompt)
            with open("calls.txt", "a") as file:
                print(request.sample[:4], len(text), file=file)
            if "broken" in text and "rule" not in text:
                raise ConnectionError("no server")
            noise = random.Random(f"{text[:200]} {request.repeat}").uniform(-self.spread, self.spread)
            return crucible.Reply(text=f"{.3 + noise + .3 * ('rule' in text) + .2 * ('second' in text):.6f}")

    def pytest_crucible_backend(adapter):
        return Model(adapter.name, adapter.options) if adapter.backend == "model" else None
"""
TEST = """
    import pytest
    from pytest_crucible import metric

    @metric(bounds=(0, 1))
    def score(reply, sample):
        return float(reply.text)

    @metric
    def is_high(reply, sample):
        return float(reply.text) > .7

    SAMPLES = [
        {{"id": name, "input": f"the rule\\n\\nsecond\\n\\n{{more}}"}}
        for name, more in {samples}
    ]

    @pytest.mark.crucible(SAMPLES, metrics=[score, is_high])
    async def test_claims(sample, sampler):
        {body}
"""
PLAIN = "return await sampler.generate(sample.input)"


@pytest.fixture
def model(suite):
    suite.pytester.makeconftest(CONFTEST)
    suite.adapters(
        {
            "exact": {"backend": "model", "parameters.temperature": 0},
            "random": {"backend": "model", "spread": 0.1},
        }
    )
    return suite


def write(suite, *samples, body=PLAIN):
    suite.test(TEST.format(samples=repr(list(samples)), body=body))
    return suite


def results(suite):
    document = json.loads((suite.path / "run.json").read_text())
    return document["experiments"][0]["sections"]["explanation"]


def test_repeating_the_command_sends_nothing_and_gives_the_same(model, run):
    write(model, ("q1", "idle"), ("q2", "idle"))
    arguments = (
        "--crucible-adapter=random",
        "--crucible-explain=q2",
        "--crucible-explain=q1",
        "--crucible-json=run.json",
    )
    model.run(*arguments)
    first, sent = results(model), len(model.calls())
    again = run(*arguments)

    assert (again.ret, len(model.calls()), results(model)) == (0, sent, first)
    assert sent == 2 * 200
    assert [sample["sample"] for sample in first] == ["q2", "q1"]
    values = first[0]["metrics"]["score"]["arms"]["random"]
    for low, value, high in zip(values["low"], [0.3, 0.2, 0.0], values["high"], strict=True):
        assert low < value < high
    assert set(first[0]["metrics"]) == {"score", "is_high"}


def test_a_budget_that_ends_finishes_the_first_sample_and_counts_what_is_missing(model):
    write(model, ("q1", "idle"), ("q2", "idle"))
    names = ("--crucible-explain=q2", "--crucible-explain=q1")
    arguments = ("--crucible-adapter=exact", *names, "--crucible-concurrency=1")
    result = model.run(*arguments, "--crucible-budget=11 requests")

    assert (result.ret, len(model.calls())) == (0, 11)
    result.stdout.fnmatch_lines(
        ["q2, exact, score: 0.80 * 8 requests, exact", "q1, exact, score: * 3 of 8 requests, 5 missing*"]
    )
    model.run(*arguments)
    assert len(model.calls()) == 16


def test_a_lost_version_is_lost_and_not_0(model):
    write(model, ("q1", "broken"))
    result = model.run("--crucible-adapter=exact", "--crucible-explain=q1", "--crucible-json=run.json")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["q1, exact, score: 0.80 with the whole prompt, 0.30 *; 6 of 8 requests, 2 lost*"])
    values = results(model)[0]["metrics"]["score"]["arms"]["exact"]
    assert (values["lost"], values["missing"], values["left_out"][0]) == (2, 2, None)


def test_later_requests_of_the_sample_leave_out_the_same_text(model):
    body = """first = await sampler.generate(sample.input)
        messages = [
            {"role": "user", "content": sample.input},
            {"role": "assistant", "content": first.text},
            {"role": "user", "content": "again, by the rule"},
        ]
        return await sampler.generate(messages)"""
    write(model, ("q1", "idle"), body=body)
    model.run("--crucible-adapter=exact", "--crucible-explain=q1", "--crucible-json=run.json")

    # "the rule" is a segment, and "by the rule" in the second request has its text.
    assert results(model)[0]["metrics"]["score"]["arms"]["exact"]["shapley"] == pytest.approx([0.3, 0.2, 0], abs=1e-6)


def test_an_explanation_is_never_a_baseline(model, crucible):
    write(model, ("q1", "idle"))
    source = (
        (model.path / "test_sums.py").read_text().replace("async def", '@pytest.mark.ab_compare("score")\nasync def')
    )
    (model.path / "test_sums.py").write_text(source)
    model.run("--crucible-adapter=exact")
    model.run("--crucible-adapter=exact", "--crucible-explain=q1")
    latest = model.run("--crucible-adapter=random", "--compare=run:latest")
    status, listed, _ = crucible("runs", "--json")
    explained = json.loads(listed)[1]["id"]

    latest.stdout.fnmatch_lines(["score: random vs run:latest*"])
    refused = model.run("--crucible-adapter=random", f"--compare=run:{explained}")
    model.refuses(refused, "*explains replies to changed prompts: compare with a run that has all of them")
    assert [run["explains"] for run in json.loads(listed)] == [False, True, False]
    status, output, _ = crucible("show", explained)
    assert (status, "q1, exact, score: 0.80 with the whole prompt" in output) == (0, True)


def test_hostile_prompts_are_inert(model):
    name = "<b>q</b>\x1b[2J"
    more = "<script>alert(1)</script>\x1b[31m " + "x" * 1_000_000
    write(model, (name, more))
    report = model.path / "run.html"
    result = model.run("--crucible-adapter=exact", f"--crucible-explain={name}", "--crucible-report=run.html")

    page = report.read_text(encoding="utf-8")
    assert result.ret == 0
    assert "\x1b" not in result.stdout.str() + page
    assert "<script>alert" not in page
    assert "<b>q" not in page
    assert "characters more) ..." in page
    assert '<mark class="more5">the rule<sup>1: +0.30</sup></mark>' in page
    assert len(page) < 1_000_000
