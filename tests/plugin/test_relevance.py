"""Relevant differences from the marker to every report, in stored runs, and invalid ones."""

from __future__ import annotations

import json

import pytest

from pytest_crucible import runs
from pytest_crucible.cli import main

SUITE = """
    import pytest
    from pytest_crucible import Sample, metric

    SAMPLES = [Sample(id=f"q{{n:03}}", input=str(n)) for n in range(400)]

    @metric(bounds=(0, 1), version="1", relevant=0.02)
    def quality(reply, sample):
        return float(reply.text)

    @metric(kind="binary", version="1")
    def right(reply, sample):
        return float(reply.text) >= 0.5

    def untold(reply, sample):
        return float(reply.text) >= 0.5

    @pytest.mark.crucible(dataset=SAMPLES, metrics=["latency_s", quality, right, untold])
    {marks}
    async def test_claims(sample, sampler):
        return await sampler.generate(sample.input)
"""
ARMS = ("--crucible-adapter=v2", "--compare=v1")
EQUIVALENT = "proven equivalent: no difference of the relevant 0.02 or more (one-sided bounds -0.00792 and +0.00703)"


@pytest.fixture
def claims(suite):
    """Recorded replies: v2 is worse by 0.0004 to 0.0005 on each sample, right half as often again, and 1 % slower."""
    for name in ("v1", "v2"):
        worse = name == "v2"
        quality = [0.3 + 0.4 * (n % 7 > 2) - worse * (0.0004 + 0.00001 * (n % 11)) for n in range(400)]
        rows = [
            {"sample_id": f"q{n:03}", "text": f"{q:.6f}", "latency_s": (1 + n % 5) * (1.01 if worse else 1.0)}
            for n, q in enumerate(quality)
        ]
        suite.write_rows(f"answers/{name}.jsonl", rows)
    suite.adapters({name: {"backend": "recorded", "path": f"answers/{name}.jsonl"} for name in ("v1", "v2")})
    return suite


def experiment(*marks: str) -> str:
    return SUITE.format(marks="\n    ".join(f"@pytest.mark.{mark}" for mark in marks))


@pytest.mark.slow
def test_a_proven_regression_that_does_not_matter_is_met_in_every_report(claims, capsys, monkeypatch):
    claims.test(
        experiment('ab_compare("quality")', 'ab_compare("latency_s", relevant="10 %")', 'ab_compare("right")'),
        name="test_sums",
    )
    result = claims.run(*ARMS, "--crucible-json=run.json")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "  quality: can detect differences of 0.041 or more, or losses of 0.053 where",
            "    replies fall from best to worst; too few samples for the relevant 0.02,",
            "    which needs about n=*",
            "  latency_s: can detect ratios of * or more; enough samples for the relevant",
            "    10 %",
            "quality: v2 vs v1 (relevant 0.02) * met, proven",
            f"    {EQUIVALENT}",
        ]
    )
    document = json.loads((claims.path / "run.json").read_text())["experiments"][0]
    quality, seconds, right = document["comparisons"]
    # The replies differ, and the mean is not proven to: only that no difference matters is.
    assert quality["p_adjusted"] < 0.001 < 0.05 < quality["proof_adjusted"]
    assert (quality["relevant"], quality["relevant_is_relative"], quality["margin"]) == (0.02, False, None)
    assert (seconds["relevant"], seconds["relevant_is_relative"], seconds["margin_is_relative"]) == (0.1, True, False)
    assert (right["relevant"], right["relevant_is_relative"]) == (None, False)
    verdicts = {verdict["subject"]: (verdict["state"], verdict["proven"]) for verdict in document["verdicts"]}
    assert verdicts == {
        "quality: v2 vs v1 (relevant 0.02)": ("met", True),
        "latency_s: v2 vs v1 (relevant 10 %)": ("met", True),
        "right: v2 vs v1": ("met", False),
    }

    monkeypatch.chdir(claims.path)
    for name in ("report.html", "report.md", "report.tex"):
        assert main(["report", "-o", name]) == 0
        text = (claims.path / name).read_text(encoding="utf-8").replace("\\allowbreak{}", "")
        assert "proven equivalent: no difference of the relevant 0.02 or more" in text
        assert "relevant 0.02)" in text
    assert runs.load().comparisons()["relevant"].tolist()[:2] == [0.02, 0.1]
    capsys.readouterr()
    assert main(["show", "latest"]) == 0
    assert EQUIVALENT in capsys.readouterr().out
    # The suite's relevant difference holds where the metric is named without one.
    for options, text in (
        (("--metric", "quality"), EQUIVALENT),
        (
            ("--metric", "quality", "--relevant", "0.0001"),
            "that it is worse by the relevant 0.0001 or more is not excluded",
        ),
        (
            ("--metric", "latency_s", "--relevant", "5 %"),
            "proven equivalent: no difference of the relevant 5 % or more",
        ),
    ):
        status = main(["compare", "latest", "latest:v1", *options])
        out = " ".join(capsys.readouterr().out.split())
        assert text in out
        assert status == int("is not excluded" in text)


def test_without_a_relevant_difference_the_same_candidate_is_missed(claims):
    claims.test(
        experiment('ab_compare("quality", alternative="regression")').replace(", relevant=0.02", ""), name="test_sums"
    )
    result = claims.run(*ARMS)

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "missed: -0.00045 *; the replies of v2 and v1 differ (permutation p = 1e-04); v2's observed mean is lower; "
            "that the mean is lower is not proven*"
        ]
    )


@pytest.mark.parametrize(
    ("mark", "sentence"),
    [
        (
            'ab_compare("right", relevant=5)',
            "ab_compare('right') has relevant=5, and no two values are further apart than 1: ",
        ),
        ('ab_compare("right", relevant=-0.1)', "ab_compare('right') has relevant=-0.1: write a positive number"),
        ('ab_compare("right", relevant=float("nan"))', "ab_compare('right') has relevant=nan: write a positive number"),
        (
            'ab_compare("right", margin=0.1, relevant=0.02)',
            "ab_compare('right') has relevant=0.02 beside margin=0.1: relevant= is for a comparison that guards",
        ),
        (
            'ab_compare("rate(quality >= 0.5)", relevant="5 %")',
            "has relevant='5 %', and only a metric alone is compared by a ratio",
        ),
        ('ab_compare("right", relevant="5 %")', "has relevant='5 %', and 'right' is not an amount"),
    ],
)
def test_an_invalid_relevant_difference_is_refused_before_sampling(claims, mark, sentence):
    claims.test(experiment(mark), name="test_sums")
    result = claims.run(*ARMS)

    assert result.ret == 4
    assert sentence in " ".join(str(result.stderr).split())


@pytest.mark.parametrize(
    ("relevant", "sentence"),
    [
        ("5", "ab_compare('untold') has relevant=5, and no two values are further apart than 1: "),
        ('"5 %"', "ab_compare('untold') has relevant='5 %', and 'untold' is not an amount: "),
    ],
)
def test_a_relevant_difference_of_the_wrong_inferred_kind_is_an_error_in_the_suite(claims, relevant, sentence):
    claims.test(experiment(f'ab_compare("untold", relevant={relevant})'), name="test_sums")

    (verdict,) = claims.json(*ARMS)["experiments"][0]["verdicts"]

    assert (verdict["state"], verdict["proven"], verdict["suite_error"]) == ("undecided", False, True)
    assert sentence in verdict["reason"]
