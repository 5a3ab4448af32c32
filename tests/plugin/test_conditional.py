"""Metrics that apply to some replies only, in sessions: their comparison, their declaration, and repeats of which one is lost."""

from __future__ import annotations

import random

import pytest

PPV = """
    import pytest
    from pytest_crucible import Sample, fairness, metric

    SAMPLES = [
        Sample(id=f"s{k}", input="q", expected=str(k % 2), metadata={"sex": "fm"[k // 2 % 2], "age": 20 + k % 50})
        for k in range(400)
    ]

    @metric(bounds=(0, 1)APPLIES)
    def quality(reply, sample):
        return float(sample.expected == "1") if reply.text == "1" else None

    @pytest.mark.crucible(dataset=SAMPLES, metrics=[*fairness.decision(lambda reply: reply.text, favourable="1"), quality])
    MARK
    async def test_decisions(sample, sampler):
        return await sampler.generate(sample.input)
"""
REPEATS = """
    import pytest
    from pytest_crucible import Sample

    SAMPLES = [Sample(id=f"s{k}", input="q", expected="1", metadata={"age": 20 + k % 50}) for k in range(400)]

    @pytest.mark.crucible(dataset=SAMPLES, metrics="exact_match", epochs=2)
    @pytest.mark.ab_compare("gap(exact_match by age(30, 50))", "worst(exact_match by age(30, 50))", "exact_match")
    async def test_repeats(sample, sampler):
        return await sampler.generate(sample.input)
"""


@pytest.fixture
def decisions(suite):
    """v1 selects those who deserve it, v2 nearly everybody."""
    rng, rows = random.Random(1), {"v1": [], "v2": []}
    for k in range(400):
        strict = rng.random() < (0.9 if k % 2 else 0.1)
        lax = strict or rng.random() < 0.9
        for name, selects in (("v1", strict), ("v2", lax)):
            rows[name].append({"sample_id": f"s{k}", "text": str(int(selects))})
    for name, answers in rows.items():
        suite.write_rows(f"answers/{name}.jsonl", answers)
    suite.adapters({name: {"backend": "recorded", "path": f"answers/{name}.jsonl"} for name in rows})
    return suite


def write(suite, mark: str, applies: str = "") -> None:
    suite.test(PPV.replace("MARK", mark).replace("APPLIES", applies))


def compare(suite) -> dict:
    (experiment,) = suite.json("--crucible-adapter=v2", "--compare=v1")["experiments"]
    means = {
        (estimate["metric"], estimate["arm"]): estimate["value"]
        for estimate in experiment["estimates"]
        if estimate["statistic"] == "mean"
    }
    return {"means": means, "comparisons": experiment["comparisons"], "verdicts": experiment["verdicts"]}


@pytest.mark.parametrize(
    ("metric", "applies"), [("right_if_selected", ""), ("quality", ""), ("quality", ", applies='reply'")]
)
def test_a_rate_of_the_selected_is_compared_by_the_rates_of_both_arms(decisions, metric, applies):
    write(decisions, f'@pytest.mark.ab_compare("{metric}", margin=0.02)', applies)

    document = compare(decisions)

    (comparison,), (verdict,) = document["comparisons"], document["verdicts"]
    means = document["means"]
    assert comparison["difference"] == pytest.approx(means[metric, "v2"] - means[metric, "v1"])
    assert comparison["difference"] < -0.3
    assert (verdict["state"], verdict["proven"]) == ("missed", True)


def test_a_conditional_rate_is_shown_by_slice(decisions):
    write(decisions, '@pytest.mark.ab_compare("right_if_selected by sex")')

    document = compare(decisions)

    assert len(document["comparisons"]) == 2
    assert all(comparison["difference"] < -0.3 for comparison in document["comparisons"])
    assert {verdict["state"] for verdict in document["verdicts"]} == {"missed"}


def test_a_declaration_for_samples_that_replies_contradict_is_an_error_in_the_suite(decisions):
    write(decisions, '@pytest.mark.ab_compare("quality")', ", applies='sample'")

    result = decisions.run("--crucible-adapter=v2", "--compare=v1")

    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        ["*'quality' is declared to apply to samples, and applied to * samples in one arm only:*"]
    )


def test_a_rate_that_is_conditional_by_definition_is_not_shown_at_the_worst_value(decisions):
    write(decisions, '@pytest.mark.ab_compare("right_if_selected")')

    result = decisions.run("--crucible-adapter=v2", "--compare=v1")

    lines = [line for line in result.outlines if "does not apply to" in line]
    assert any("right_if_selected of v2 does not apply to" in line for line in lines)
    assert [line for line in lines if "at the worst value" in line and "quality" not in line] == []


@pytest.mark.uses("stages")
def test_a_run_that_may_stop_early_cannot_compare_it(decisions):
    write(decisions, '@pytest.mark.ab_compare("right_if_selected")')

    result = decisions.run("--crucible-adapter=v2", "--compare=v1", "--crucible-stop")

    assert result.ret == 4
    result.stderr.fnmatch_lines(["*'right_if_selected' applies to some replies only*"])


def test_an_unknown_declaration_is_refused(decisions):
    write(decisions, '@pytest.mark.ab_compare("quality")', ", applies='always'")

    result = decisions.run("--crucible-adapter=v2", "--compare=v1")
    result.stdout.fnmatch_lines(["*metric 'quality' has applies='always': write 'sample' or 'reply'*"])


def test_a_sample_has_a_value_if_one_repeat_is_scored(decisions):
    """Each arm has one row a sample, so that the second repeat of each is lost."""
    decisions.test(REPEATS)

    document = compare(decisions)

    assert [(comparison["pairs"], comparison["lost"]) for comparison in document["comparisons"]] == [(400, 400)] * 3
    assert all(comparison["difference"] is not None for comparison in document["comparisons"])
    result = decisions.command("show", "--by", "age(30, 50)")
    assert result.ret == 0
    assert "gap(exact_match by age(30, 50)): v2 vs v1:" in result.stdout.str()
