"""Rates, percentiles and counts of repeats: they are about single replies, and the sample is the cluster of their interval."""

from __future__ import annotations

import pytest

TEST = """
    import json

    import pytest
    from pytest_crucible import Sample, metric

    @metric(kind="bounded", bounds=(0, 1))
    def ent(reply, sample):
        return json.loads(reply.text)[0]

    @metric(kind="positive", direction="lower")
    def seconds(reply, sample):
        return json.loads(reply.text)[1]

    @metric(kind="count", direction="lower")
    def flags(reply, sample):
        return json.loads(reply.text)[2]

    SAMPLES = [Sample(id=f"q{n:03}", input=str(n)) for n in range(120)]

    @pytest.mark.crucible(dataset=SAMPLES, metrics=[ent, seconds, flags], epochs=5)
    MARK
    async def test_claims(sample, sampler):
        return await sampler.generate(sample.input)
"""
# The mean of a sample's replies passes in 98 of 120 samples, and a single reply in 315 of 600.
MOST = [1.0, 1.0, 1.0, 0.3, 0.3]
FEW = [0.9, 0.1, 0.1, 0.1, 0.1]
NONE = [0.1, 0.1, 0.1, 0.1, 0.1]
ENTAILMENTS = [MOST] * 98 + [FEW] * 21 + [NONE]


def write_suite(suite, name: str, slow: float) -> None:
    """Write a suite in which one reply to each sample is slow and six have a flag."""
    suite.write_rows(
        f"answers/{name}.jsonl",
        [
            {
                "sample_id": f"q{n:03}",
                "epoch": repeat,
                "text": str([ent, slow if repeat == n % 5 else 1 + n / 200, int(repeat == 0 and n < 6)]),
            }
            for n, row in enumerate(ENTAILMENTS)
            for repeat, ent in enumerate(row)
        ],
    )


@pytest.fixture
def repeats(suite):
    write_suite(suite, "v2", slow=5.68)
    write_suite(suite, "v1", slow=2.0)
    suite.adapters({name: {"backend": "recorded", "path": f"answers/{name}.jsonl"} for name in ("v1", "v2")})
    return suite


def test_targets_and_comparisons_are_about_replies(repeats):
    repeats.test(
        TEST.replace(
            "MARK",
            '@pytest.mark.quality_target("rate(ent >= 0.7) >= 0.6", "p95(seconds) <= 5", "count(flags) <= 2")\n'
            '    @pytest.mark.ab_compare("rate(ent >= 0.7)", "p95(seconds)", "p50(seconds)", "count(ent >= 0.7)")',
        )
    )

    (document,) = repeats.json("--crucible-adapter=v2", "--compare=v1")["experiments"]

    targets = {estimate["statistic"]: estimate for estimate in document["estimates"]}
    verdicts = {verdict["subject"]: (verdict["state"], verdict["proven"]) for verdict in document["verdicts"]}
    values = {
        name: (round(target["value"], 3), target["n"], target["replies"])
        for name, target in targets.items()
        if name != "mean"
    }
    assert values == {
        "rate >= 0.7": (0.525, 120, 600),
        "p95": (5.68, 120, 600),
        "count": (6.0, 120, 600),
    }
    assert verdicts["rate(ent >= 0.7) >= 0.6"] == ("missed", True)
    assert verdicts["p95(seconds) <= 5"] == ("missed", True)
    assert verdicts["count(flags) <= 2"] == ("missed", True)
    assert verdicts["rate(ent >= 0.7): v2 vs v1"] == ("met", False)
    assert verdicts["p95(seconds): v2 vs v1"] == ("missed", True)
    # The slow fifth of the replies leaves the median as it is.
    assert verdicts["p50(seconds): v2 vs v1"] == ("met", False)
    differences = {
        comparison["statistic"]: round(comparison["difference"], 3) for comparison in document["comparisons"]
    }
    assert differences == {"rate >= 0.7": 0.0, "p95": -3.68, "p50": 0.0, "count >= 0.7": 0.0}


def test_the_summary_says_how_many_replies(repeats):
    repeats.test(TEST.replace("MARK", '@pytest.mark.quality_target("count(flags) <= 2")'))

    result = repeats.run("--crucible-adapter=v2")

    result.stdout.fnmatch_lines(["*count(flags) <= 2 - missed: 6.* n=120 (600 replies)*"])
