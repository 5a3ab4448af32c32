"""Targets and comparisons by slice in real sessions, and the commands that analyse a stored run by slice."""

from __future__ import annotations

import json

import pytest

from pytest_crucible.cli import main

TEST = """
    import pytest
    from pytest_crucible import fairness

    def read(reply):
        return reply.text

    METRICS = fairness.decision(read, favourable="{favourable}")

    @pytest.mark.crucible(dataset="people.jsonl", metrics=METRICS)
    @pytest.mark.quality_target(fairness.demographic_parity(by="sex"), "gap(correct by topic) <= 0.9"{more})
    @pytest.mark.ab_compare("gap(selected by sex)", "correct by topic")
    async def test_loans(sample, sampler):
        return await sampler.generate(sample.input)
"""
BOTH = ("--crucible-adapter=v2", "--compare=v1")


@pytest.fixture
def loans(suite):
    """v2 approves men only; v1 approves everybody."""
    people = [
        {"id": f"p{k}", "input": f"person {k}", "expected": ("approve", "deny")[k % 4 == 0], "sex": "fm"[k % 2],
         "topic": "abc"[k % 3]}
        for k in range(120)
    ]  # fmt: skip
    suite.write_rows("people.jsonl", people)
    suite.write_rows(
        "answers/v2.jsonl", [{"sample_id": f"p{k}", "text": ("deny", "approve")[k % 2]} for k in range(120)]
    )
    suite.write_rows("answers/v1.jsonl", [{"sample_id": f"p{k}", "text": "approve"} for k in range(120)])
    suite.test(TEST.format(favourable="approve", more=""))
    return suite


def test_a_session_decides_by_slice_and_its_run_is_analysed_again(loans, capsys):
    result = loans.run(*BOTH, "-v")

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*gap(selected by sex) <= 0.10*",
            "missed: 1.000 [[]*n=120; one-sided bound * > target 0.10 (m 1, f 0)",
            "*correct by topic = a: v2 vs v1*",
            "*correct by topic = c: v2 vs v1*",
            "*base rates by sex differ*",
        ]
    )
    capsys.readouterr()
    assert main(["show", "--by", "sex", "--reference", "m", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)["experiments"][0]
    assert document["fairness"][0]["differences"][0]["demographic_parity"] == -1.0
    changes = {change["measure"]: change for change in document["changes"]}
    assert changes["gap(selected by sex)"]["difference"] == -1.0
    assert main(["show", "--by", "topic", "--metric", "correct"]) == 0
    assert "worst(correct by topic)" in capsys.readouterr().out
    assert main(["show", "--why-better", "--metric", "correct", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["experiments"][0]["search"]["findings"]
    assert findings[0]["slice"].startswith(("sex = ", "expected = "))
    assert main(["show", "--by", "sexe"]) != 0
    assert "no sample has a field 'sexe'; did you mean 'sex'?" in capsys.readouterr().err


def test_workers_decide_by_slice_too(loans):
    result = loans.run_n2(*BOTH)

    result.stdout.fnmatch_lines(["*gap(selected by sex) <= 0.10*missed*"])


@pytest.mark.parametrize(
    ("favourable", "more", "message"),
    [
        ("yes", "", 'favourable="yes" is not an expected answer; choose "approve" or "deny"'),
        (
            "approve",
            ', "gap(correct by sexe) <= 0.1"',
            "gap(correct by sexe): no sample has a field 'sexe'; did you mean 'sex'?",
        ),
        ("approve", ', "gap(correct by sex) <= 0.1", decide="point"', "the estimate of an extreme is biased"),
    ],
)
def test_an_undecidable_slice_target_is_an_error_before_any_request(loans, favourable, more, message):
    loans.test(TEST.format(favourable=favourable, more=more))

    result = loans.run(*BOTH)

    assert message in result.stdout.str() + result.stderr.str()
    assert result.ret != 0


TWINS = """
    import pytest
    from pytest_crucible import fairness

    PROMPTS = [{"id": f"p{k}", "input": f"She is a nurse, {k}.", "expected": "yes", "dept": "ab"[k % 2]} for k in range(30)]

    @pytest.mark.crucible(dataset=fairness.twins(PROMPTS, swap="gender"), metrics="exact_match")
    @pytest.mark.quality_target("gap(exact_match by twin) <= 0.5", "gap(exact_match by twin & dept) <= 0.5")
    def test_nurses(sample):
        return "yes" if sample.input.startswith("He") else "no"
"""


def test_prompts_of_one_version_are_compared_with_their_twins(suite, capsys):
    suite.test(TWINS)

    result = suite.run()

    result.stdout.fnmatch_lines(
        [
            "missed: 1.000 [[]*one-sided bound * > target 0.5 (male 1, female 0)",
            "*not proven either way: one-sided bounds*(male & * 1, female & * 0)*",
        ]
    )
    capsys.readouterr()
    assert main(["show", "--by", "twin", "--json"]) == 0
    gap = next(part for part in json.loads(capsys.readouterr().out)["experiments"][0]["slices"] if "expression" in part)
    assert (gap["expression"], gap["value"]) == ("gap(exact_match by twin)", 1.0)
