"""Explanations in real sessions: exact values, both arms, cost before requests, and bad input that sends nothing."""

from __future__ import annotations

import json

import pytest

SCRIPT = """
    def text_of(request):
        prompt = request.input
        return prompt if isinstance(prompt, str) else "|".join(message["content"] for message in prompt)

    def score(request, both, cited):
        text = text_of(request)
        with open("calls.txt", "a") as file:
            print(request.arm, request.sample, request.input, file=file)
        return f"{.1 + both * ('rule' in text and 'first' in text) + cited * ('second' in text):.3f}"

    def answer(request):
        return score(request, .5, .2)

    def base(request):
        return score(request, .2, .4 if 'q2' in request.sample else .2)
"""
TEST = """
    import pytest
    from pytest_crucible import metric

    @metric(bounds=(0, 1))
    def citation(reply, sample):
        return float(reply.text)

    SAMPLES = [
        {{
            "id": name,
            "input": [
                {{"role": "system", "content": "the rule"}},
                {{"role": "user", "content": "the first\\n\\nthe second\\n\\nidle"}},
            ],
        }}
        for name in ("q1", "q2", "q3")
    ]

    {fixture}
    @pytest.mark.crucible(SAMPLES, metrics=[citation])
    @pytest.mark.quality_target("citation >= 0.9")
    @pytest.mark.ab_compare("citation")
    async def test_claims(sample, sampler{argument}):
        return await sampler.generate(sample.input)
"""
V2 = "--crucible-adapter=scripted"
TABLE = """\
q2, scripted, citation: 0.80 with the whole prompt, 0.10 with an empty one; 16 requests, exact
segment                 Shapley  left out alone
1 system                  +0.25           +0.50
2 user, paragraph 1       +0.25           +0.50
3 user, paragraph 2       +0.20           +0.20
4 user, paragraph 3        0.00            0.00
interaction of 1 and 2    +0.50
"""


@pytest.fixture
def explained(suite):
    suite.script(SCRIPT)
    suite.test(TEST.format(fixture="", argument=""))
    return suite


def explanation(suite):
    document = json.loads((suite.path / "run.json").read_text())
    [sample] = document["experiments"][0]["sections"]["explanation"]
    return sample


def test_the_table_has_the_true_values_and_the_run_gives_no_verdict(explained, run):
    result = run(V2, "--crucible-explain=q2", "--crucible-json=run.json")

    assert result.ret == 0
    assert TABLE in result.stdout.str()
    result.assert_outcomes(passed=1)
    assert len(explained.calls()) == len(set(explained.calls())) == 16
    assert "scripted q2 [{'role': 'user', 'content': ''}]" in explained.calls()
    assert "scripted q2 [{'role': 'system', 'content': 'the rule'}]" in explained.calls()
    values = explanation(explained)["metrics"]["citation"]["arms"]["scripted"]
    assert values["shapley"] == pytest.approx([0.25, 0.25, 0.2, 0])
    assert values["left_out"] == pytest.approx([0.5, 0.5, 0.2, 0])
    assert len(explanation(explained)["versions"]) == 16


def test_requests_are_counted_and_nothing_is_sent_with_co(explained):
    result = explained.run(V2, "--crucible-explain=q1", "--crucible-explain=q3", "--co")

    assert explained.calls() == []
    result.stdout.fnmatch_lines(
        ["*explains q1: 4 segments (paragraph), 16 requests to scripted; cost unknown*", "*explains q3: 4 segments*"]
    )


def test_both_arms_answer_the_same_versions(explained):
    result = explained.run(V2, "--compare=base", "--crucible-explain=q2", "--crucible-json=run.json")

    assert result.ret == 0
    sent = {
        arm: {line.partition(" ")[2] for line in explained.calls() if line.startswith(arm)}
        for arm in ("scripted", "base")
    }
    assert sent["scripted"] == sent["base"]
    difference = explanation(explained)["metrics"]["citation"]["differences"]["base"]
    assert difference["shapley"] == pytest.approx([0.15, 0.15, -0.2, 0])
    assert "q2, scripted minus base, citation: the segments add +0.10; 32 requests, exact" in result.stdout.str()


def test_a_function_with_fixtures_is_planned_when_they_are_set_up(explained):
    fixture = "@pytest.fixture\n    def prefix():\n        return 'x'\n"
    explained.test(TEST.format(fixture=fixture, argument=", prefix"))
    result = explained.run(V2, "--crucible-explain=q2")

    assert result.ret == 0
    assert TABLE in result.stdout.str()
    result.stdout.fnmatch_lines(
        ["*explains q2: at most 200 requests*", "*explains q2: 4 segments (paragraph), 16 requests*"]
    )


def test_the_worst_and_the_most_changed_are_those_of_the_latest_run_that_is_no_explanation(explained):
    missing = explained.run(V2, "--crucible-explain=worst:1")
    explained.run(V2, "--compare=base")
    worst = explained.run(V2, "--compare=base", "--crucible-explain=changed:1", "--crucible-json=run.json")
    again = explained.run(V2, "--compare=base", "--crucible-explain=changed:1", "--crucible-json=run.json")

    explained.refuses(
        missing, "*--crucible-explain=worst:1 needs a stored run of test_claims; run it once without the option"
    )
    # The arms differ by .3 on q1 and q3, and by .1 on q2.
    assert (worst.ret, again.ret, explanation(explained)["sample"]) == (0, 0, "q1")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--crucible-explain=q21"],
            "--crucible-explain=q21: no selected experiment has a sample 'q21'; did you mean 'q2'?",
        ),
        (["--crucible-explain=changed:3"], "--crucible-explain=changed:3 compares two arms; add --compare=NAME"),
        (["--crucible-explain=q1", "--crucible-segments=words"], "--crucible-segments=words: write message, *"),
        (
            ["--crucible-explain=q1", "--crucible-explain-calls=5"],
            "*--crucible-explain-calls=5 is too few: 4 segments need *; raise it or use larger segments",
        ),
        (
            ["--crucible-explain=q1", "--crucible-segments=parts.py:overlapping"],
            "*parts.py:overlapping returned overlapping segments (0, 0, 5) and (0, 2, 6); return separate ones",
        ),
        (
            ["--crucible-explain=q1", "--crucible-segments=parts.py:one"],
            "*q1 has one segment (parts.py:one), so there is nothing to compare; use --crucible-segments=*",
        ),
        (
            ["--crucible-explain=q1", "--compare=v1"],
            "*adapter 'v1' is recorded and cannot answer a changed prompt; use an adapter that calls a model",
        ),
    ],
)
def test_bad_input_ends_before_any_request(explained, arguments, sentence):
    explained.script(SCRIPT, others={"v1": {"backend": "recorded", "path": "answers/v1.jsonl"}})
    explained.write_rows("answers/v1.jsonl", [{"sample_id": "q1", "text": "0.5"}])
    explained.pytester.makepyfile(
        parts="def overlapping(messages):\n    return [(0, 0, 5), (0, 2, 6)]\n\ndef one(messages):\n    return [(0, 0, 5)]\n"
    )
    result = explained.run(V2, *arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {sentence}"])
    assert explained.calls() == []


SWEEP = """
[adapters.tuned]
backend = "scripted"
script = "scripts:answer"

[adapters.tuned.sweep]
"parameters.quality" = [1, 2]
by = "citation"
"""


@pytest.mark.uses("sweeps")
def test_an_arm_of_several_models_is_refused(explained):
    explained.script(SCRIPT)
    with (explained.path / "crucible.toml").open("a") as file:
        file.write(SWEEP)

    result = explained.run("--crucible-adapter=tuned", "--crucible-explain=q1")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*adapter 'tuned' stands for several models; name one of them to explain its replies"])
    assert explained.calls() == []
