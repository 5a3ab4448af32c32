"""sampler.choose in a session: probabilities of the local model, cached as any reply, and a backend that has none."""

from __future__ import annotations

import pytest

TEST = """
    import pytest

    QUESTIONS = [{"id": f"q{k}", "input": f"{k}?", "expected": "yes" if k % 2 else "no"} for k in range(4)]

    @pytest.mark.crucible(dataset=QUESTIONS, metrics=["expected_score"])
    @pytest.mark.quality_target("expected_score >= 0.05")
    async def test_async(sample, sampler):
        reply = await sampler.choose(sample.input, [" yes", " no"])
        assert abs(sum(reply.value.values()) - 1) < 1e-9
        return reply

    @pytest.mark.crucible(dataset=QUESTIONS, metrics=["expected_score"])
    def test_plain(sample, sampler):
        return sampler.choose(sample.input, [" yes", " no"])
"""


def test_choices_are_scored_cached_or_refused(suite):
    suite.test(TEST)
    suite.adapters({"tiny": {"backend": "local"}, "v1": {"backend": "recorded", "path": "answers/v1.jsonl"}})
    suite.write_rows("answers/v1.jsonl", [{"sample_id": f"q{k}", "text": "yes"} for k in range(4)])
    first = suite.json("--crucible-adapter=tiny")
    again = suite.json("--crucible-adapter=tiny", "--crucible-cache=only")
    refused = suite.run("--crucible-adapter=v1")

    means = [[estimate["value"] for estimate in run["experiments"][0]["estimates"]] for run in (first, again)]
    assert means[0] == means[1]
    assert 0 < means[0][0] < 1
    assert refused.ret == pytest.ExitCode.TESTS_FAILED
    refused.stdout.fnmatch_lines(["adapter 'v1' cannot score choices; use a backend with prompt logprobs: *"])
