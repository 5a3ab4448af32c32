"""Metrics that apply to some replies only, in sessions: their comparison, their declaration, and repeats of which one is lost."""

from __future__ import annotations

import json
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

    @metric(bounds=(0, 1), applies="reply")
    def quality_of_replies(reply, sample):
        return quality(reply, sample)

    METRICS = [*fairness.decision(lambda reply: reply.text, favourable="1"), quality, quality_of_replies]

    @pytest.mark.crucible(dataset=SAMPLES, metrics=METRICS)
    MARK
    async def test_decisions(sample, sampler):
        return await sampler.generate(sample.input)
"""
REPEATS = """
    import pytest
    from pytest_crucible import Sample

    SAMPLES = [Sample(id=f"s{k}", input="q", expected="1", metadata={"age": 20 + k % 50}) for k in range(60)]

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


ARMS = ("--crucible-adapter=v2", "--compare=v1")
RATES = ("right_if_selected", "quality", "quality_of_replies")


def compare_rates(suite) -> None:
    claims = [f'"{rate}", margin=0.02' for rate in RATES]
    write(
        suite, "\n    ".join(f"@pytest.mark.ab_compare({claim})" for claim in (*claims, '"right_if_selected by sex"'))
    )
    result = suite.run(*ARMS, "--crucible-json=run.json")
    (suite.path / "printed.txt").write_text(result.stdout.str(), encoding="utf-8")


@pytest.fixture
def compared(decisions):
    """The suite after a session that compares each rate, and one of them by slice."""
    decisions.prepare_once(compare_rates)
    return decisions


def load_experiment(suite) -> dict:
    (experiment,) = json.loads((suite.path / "run.json").read_text(encoding="utf-8"))["experiments"]
    return experiment


def test_a_rate_of_the_selected_is_compared_by_the_rates_of_both_arms(compared):
    experiment = load_experiment(compared)

    means = {
        (estimate["metric"], estimate["arm"]): estimate["value"]
        for estimate in experiment["estimates"]
        if estimate["statistic"] == "mean"
    }
    comparisons, verdicts = experiment["comparisons"][:3], experiment["verdicts"][:3]
    assert [comparison["metric"] for comparison in comparisons] == list(RATES)
    for metric, comparison in zip(RATES, comparisons, strict=True):
        assert comparison["difference"] == pytest.approx(means[metric, "v2"] - means[metric, "v1"])
        assert comparison["difference"] < -0.3
    assert [(verdict["state"], verdict["proven"]) for verdict in verdicts] == [("missed", True)] * 3


def test_a_conditional_rate_is_shown_by_slice(compared):
    experiment = load_experiment(compared)

    assert len(experiment["comparisons"][3:]) == 2
    assert all(comparison["difference"] < -0.3 for comparison in experiment["comparisons"][3:])
    assert {verdict["state"] for verdict in experiment["verdicts"][3:]} == {"missed"}


def test_a_rate_that_is_conditional_by_definition_is_not_shown_at_the_worst_value(compared):
    lines = [line for line in (compared.path / "printed.txt").read_text().splitlines() if "does not apply to" in line]

    assert any("right_if_selected of v2 does not apply to" in line for line in lines)
    assert [line for line in lines if "at the worst value" in line and "quality" not in line] == []


def test_a_declaration_for_samples_that_replies_contradict_is_an_error_in_the_suite(decisions):
    write(decisions, '@pytest.mark.ab_compare("quality")', ", applies='sample'")

    result = decisions.run(*ARMS)

    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        ["*'quality' is declared to apply to samples, and applied to * samples in one arm only:*"]
    )


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


def test_a_sample_has_a_value_if_one_repeat_is_scored(decisions, command):
    """Each arm has one row a sample, so that the second repeat of each is lost."""
    decisions.test(REPEATS)
    for path in (decisions.path / "answers").iterdir():
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:60]))

    (document,) = decisions.json(*ARMS)["experiments"]

    assert [(comparison["pairs"], comparison["lost"]) for comparison in document["comparisons"]] == [(60, 60)] * 3
    assert all(comparison["difference"] is not None for comparison in document["comparisons"])
    status, output = command("show", "--by", "age(30, 50)")
    assert status == 0
    assert "gap(exact_match by age(30, 50)): v2 vs v1:" in output
