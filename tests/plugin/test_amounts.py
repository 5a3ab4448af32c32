"""Latency and cost from the marker to every report: compared by the ratio that is declared, of geometric means or of means."""

from __future__ import annotations

import json

import pytest

from pytest_crucible import runs
from pytest_crucible.cli import main

SUITE = """
    import pytest
    from pytest_crucible import Reply, Sample, metric

    SAMPLES = [Sample(id=f"q{{n:03}}", input=str(n)) for n in range(400)]

    @metric(kind="positive", direction="lower", bounds=(0, 1), version="1")
    def dollars(reply, sample):
        return 0.0 if int(sample.id[1:]) % 4 == 0 else reply.latency_s / 100

    @pytest.mark.crucible(dataset=SAMPLES, metrics=["latency_s", dollars])
    {marks}
    async def test_claims(sample, sampler):
        return await sampler.generate(sample.input)
"""
ARMS = ("--crucible-adapter=v2", "--compare=v1")


@pytest.fixture
def claims(suite):
    """Recorded replies of 400 samples: v2 takes 1.25 times as long as v1, give or take a fifth."""
    for name, factor in (("v1", 1.0), ("v2", 1.25)):
        seconds = [factor * (1 + n % 13) * 1.2 ** ((n * 7 % 5 - 2) * (name == "v2")) for n in range(400)]
        rows = [{"sample_id": f"q{n:03}", "text": "x", "latency_s": s} for n, s in enumerate(seconds)]
        suite.write_rows(f"answers/{name}.jsonl", rows)
    suite.adapters({name: {"backend": "recorded", "path": f"answers/{name}.jsonl"} for name in ("v1", "v2")})
    return suite


def experiment(*marks: str) -> str:
    return SUITE.format(marks="\n    ".join(f"@pytest.mark.{mark}" for mark in marks))


def document_of(suite, *marks: str) -> dict:
    suite.test(experiment(*marks), name="test_sums")
    (document,) = suite.json(*ARMS)["experiments"]
    return document


def test_amounts_are_compared_by_ratios_in_every_report(claims, capsys, monkeypatch):
    document = document_of(claims, 'ab_compare("latency_s", margin="10 %")', 'ab_compare("mean(dollars)")')

    seconds, dollars = document["comparisons"]
    assert seconds["ratio"]["name"] == "ratio of geometric means"
    assert seconds["ratio"]["value"] == pytest.approx(1.25, rel=0.01)
    assert 1.1 < seconds["ratio"]["bounds"]["lower"] < 1.25 < seconds["ratio"]["bounds"]["upper"]
    assert 1.02 < seconds["ratio"]["detectable"] < 1.1
    assert (seconds["difference"], seconds["low"], seconds["detectable"]) == (None, None, None)
    assert (seconds["margin"], seconds["margin_is_relative"], seconds["method"]) == (0.1, True, "sign flips")
    assert dollars["ratio"]["name"] == "ratio of means"
    assert (dollars["method"], dollars["bounds"]["method"]) == ("sign flips", "gaffke of x - r y")
    verdicts = {
        verdict["subject"]: (verdict["state"], verdict["proven"], verdict["reason"]) for verdict in document["verdicts"]
    }
    assert verdicts["latency_s: v2 vs v1 non-inferior by 10 %"][:2] == ("missed", True)
    assert "times the baseline, margin 10 %" in verdicts["latency_s: v2 vs v1 non-inferior by 10 %"][2]
    assert verdicts["mean(dollars): v2 vs v1"] == (
        "missed",
        True,
        "the replies of v2 and v1 differ (permutation p = 1e-04); that the ratio of means is higher (worse) is proven",
    )

    monkeypatch.chdir(claims.path)
    frame = runs.load().comparisons()
    assert frame["difference"].isna().all()
    assert frame["ratio"].tolist() == pytest.approx([1.25, 1.292], rel=0.01)
    assert (frame["ratio_low"] < frame["ratio"]).all()
    for name in ("report.html", "report.md", "report.tex"):
        assert main(["report", "-o", name]) == 0
        text = (claims.path / name).read_text(encoding="utf-8")
        assert "1.250x" in text or "1.25x" in text
        assert "-0.22" not in text  # the difference of logarithms
    page = (claims.path / "report.html").read_text(encoding="utf-8")
    assert "latency_s (ratio to the baseline)" in page


def test_the_terminal_and_the_plan_show_ratios(claims):
    claims.test(
        experiment('ab_compare("latency_s", margin="10 %")', 'ab_compare("latency_s", alternative="superior")'),
        name="test_sums",
    )
    result = claims.run(*ARMS)

    result.stdout.fnmatch_lines(
        [
            "  latency_s: margin 10 % needs about n=*",
            "  latency_s: can detect ratios of 1.06 or more",
            "  (80 % power, if logarithms of the ratios have a standard deviation of 0.4)",
            "latency_s: v2 vs v1 non-inferior by 10 %*1.25*x [[]1.2*, 1.*]*400*missed, proven",
        ]
    )


def test_a_zero_is_an_error_of_its_comparison_alone(claims):
    claims.test(experiment('ab_compare("dollars")', 'ab_compare("latency_s", margin="50 %")'), name="test_sums")
    result = claims.run(*ARMS)

    result.stdout.fnmatch_lines(
        [
            "*200 of 800 values of 'dollars' are 0 (v2 100, v1 100)*compare mean(dollars), p50(dollars) or rate(dollars > 0)*"
        ]
    )
    assert result.ret == 1
    (document,) = claims.json(*ARMS)["experiments"]
    states = {verdict["subject"]: (verdict["state"], verdict["suite_error"]) for verdict in document["verdicts"]}
    assert states["latency_s: v2 vs v1 non-inferior by 50 %"] == ("met", False)
    assert states["dollars: v2 vs v1"] == ("undecided", True)
    assert [comparison["pairs"] for comparison in document["comparisons"]] == [400, 400]


def test_a_comparison_of_the_command_line_claims_nothing_with_zeros(claims, capsys, monkeypatch):
    claims.test(experiment('quality_target("latency_s <= 60")'), name="test_sums")
    earlier, later = (claims.json(f"--crucible-adapter={name}")["run"]["id"] for name in ("v1", "v2"))
    monkeypatch.chdir(claims.path)
    capsys.readouterr()

    assert main(["compare", later, earlier, "--json"]) == 1
    (document,) = json.loads(capsys.readouterr().out)["experiments"]
    assert [verdict["subject"] for verdict in document["verdicts"]] == ["latency_s: v2 vs v1"]
    assert {comparison["metric"]: comparison["alternative"] for comparison in document["comparisons"]} == {
        "latency_s": "regression",
        "dollars": "estimate",
    }


def test_a_margin_in_seconds_asks_for_the_mean_and_says_what_it_lacks(claims):
    claims.test(experiment('ab_compare("latency_s", margin=5)'), name="test_sums")
    result = claims.run(*ARMS)

    result.stdout.fnmatch_lines(
        [
            "  latency_s: nothing is proven about a difference of means without bounds:",
            "*declare bounds of 'latency_s' or its reach, or write the margin as a share, such as margin=\"10 %\"*",
        ]
    )
    result.assert_outcomes(passed=1, skipped=1)


def test_a_share_of_a_metric_that_is_not_an_amount_is_an_error_before_sampling(claims):
    claims.test(
        experiment('ab_compare("passed", margin="10 %")').replace('metrics=["latency_s", dollars]', "metrics=[]"),
        name="test_sums",
    )
    result = claims.run(*ARMS)

    assert result.ret == 4
    result.stderr.fnmatch_lines(["*margin='10 %', and 'passed' is not an amount*"])


def test_a_target_on_the_mean_is_proven_in_one_direction_only(claims):
    document = document_of(claims, 'quality_target("latency_s <= 4", "latency_s <= 20")')

    too_long, short = document["verdicts"]
    assert (too_long["state"], too_long["proven"]) == ("missed", True)
    assert (short["state"], short["proven"]) == ("met", False)
    assert "never proven from above: declare bounds of 'latency_s'" in short["reason"]


def test_the_command_line_takes_a_share(claims, capsys, monkeypatch):
    document_of(claims, 'ab_compare("latency_s")')
    monkeypatch.chdir(claims.path)
    capsys.readouterr()

    assert main(["compare", "latest", "latest:v1", "--metric", "latency_s", "--margin", "40 %", "--json"]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)["experiments"][0]["verdicts"]
    assert (verdict["subject"], verdict["state"]) == ("latency_s: v2 vs v1 non-inferior by 40 %", "met")
    assert main(["compare", "latest", "latest:v1", "--metric", "latency_s", "--margin", "much"]) == 4


@pytest.mark.parametrize(
    ("marker", "sentence"),
    [
        ("score_bounds(a=(0, 1, 2))", "score_bounds has a=(0, 1, 2): write two numbers, for example a=(0, 1)"),
        ("score_bounds(a=(1, 0))", "metric 'a' has bounds (1, 0): write the lower one first"),
        ("score_bounds('a')", "score_bounds takes bounds by name: write for example relevance=(0, 1)"),
        ("score_bounds(a=(0, 1))", "test_claims does not take the argument score: add it"),
    ],
)
def test_bounds_of_scores_are_checked(claims, marker, sentence):
    source = experiment(marker)
    claims.test(source if "argument" in sentence else source.replace("sampler)", "sampler, score)"), name="test_sums")
    result = claims.run("--crucible-adapter=v2")

    assert result.ret == 4
    assert sentence in result.stderr.str()


def test_an_item_of_a_joined_test_declares_the_bounds_of_its_scores_too(claims):
    claims.test(
        """
        import pytest

        @pytest.mark.score_bounds(relevance=(0, 1))
        @pytest.mark.quality_target("relevance >= 0.5", decide="bound")
        @pytest.mark.parametrize("n", range(60))
        def test_claims(n, crucible):
            crucible.score(relevance=0.8 + n / 1000)
        """,
        name="test_sums",
    )
    (verdict,) = claims.json("--crucible-adapter=v2")["experiments"][0]["verdicts"]

    assert (verdict["state"], verdict["proven"]) == ("met", True)


@pytest.mark.uses("stages")
def test_a_run_that_may_stop_early_refuses_an_amount_that_is_named_alone(claims):
    claims.test(experiment('ab_compare("dollars")'), name="test_sums")
    claims.refuses(
        claims.run(*ARMS, "--crucible-stop"),
        "*--crucible-stop compares means, and 'dollars' alone is compared by the ratio of geometric means: write mean(dollars)*",
    )
    claims.test(experiment('ab_compare("mean(dollars)")'), name="test_sums")
    assert claims.run(*ARMS, "--crucible-stop").ret in (0, 1)
