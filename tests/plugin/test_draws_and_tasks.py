"""Sessions whose targets are about draws of several replies, and about means over tasks."""

from __future__ import annotations

from itertools import combinations

import pytest

from pytest_crucible.cli import main

SCRIPT = """
    from collections import Counter

    CALLS = Counter()

    def answer(request):
        # Sample k is right in its first k % 6 replies.
        CALLS[request.sample] += 1
        return "yes" if CALLS[request.sample] <= int(request.sample[1:]) % 6 else "no"
"""
TEST = """
    import pytest

    @pytest.mark.crucible(dataset=[{{"id": f"q{{k}}", "input": str(k), "task": "abc"[k % 3]}} for k in range(36)], epochs={epochs})
    @pytest.mark.quality_target({targets})
    async def test_yes(sample, sampler, score):
        score(ok=(await sampler.generate(sample.input)).text == "yes")
"""


def share_of_draws(rule, k=3):
    rows = [[True] * (sample % 6) + [False] * (5 - sample % 6) for sample in range(36)]
    return sum(sum(map(rule, combinations(row, k))) / 10 for row in rows) / 36


def test_draws_of_replies_are_judged_shown_and_stored(suite, capsys):
    suite.script(SCRIPT)
    suite.test(
        TEST.format(
            epochs=5, targets='"pass^3(ok) >= 0.2", "pass@3(ok) >= 0.9", "rate(mean_by_sample(ok) >= 0.8) >= 0.3"'
        )
    )

    document = suite.json("--crucible-adapter=scripted")["experiments"][0]

    values = {each["statistic"]: each["value"] for each in document["estimates"]}
    assert values["pass^3"] == pytest.approx(share_of_draws(all))
    assert values["pass@3"] == pytest.approx(share_of_draws(any))
    assert values["rate mean_by_sample >= 0.8"] == pytest.approx(1 / 3)
    assert [verdict["state"] for verdict in document["verdicts"]] == ["met", "missed", "met"]
    # Samples that are right in none or in all of five replies are stable: two in six.
    assert {"repeats": 5, "n": 36, "flaky": 24}.items() <= document["sections"]["stability"][0].items()
    capsys.readouterr()
    main(["show", "-v"])
    output = capsys.readouterr().out
    assert "pass^3(ok) >= 0.2" in output
    assert "A sample is flaky if two of its repeats have different scores" in output


def test_more_draws_than_replies_are_a_usage_error(suite):
    suite.script(SCRIPT)
    suite.test(TEST.format(epochs=2, targets='"pass^3(ok) >= 0.2"'))

    suite.refuses(
        suite.run("--crucible-adapter=scripted"), "*draws 3 replies to each sample, which has 2: draw at most 2*"
    )


@pytest.mark.uses("slices")
def test_each_task_has_a_verdict_below_the_mean_over_tasks(suite):
    suite.script(SCRIPT)
    suite.test(TEST.format(epochs=5, targets='"overall(ok by task, macro) >= 0.45"'))

    document = suite.json("--crucible-adapter=scripted")["experiments"][0]

    slices = document["sections"]["slices"]
    claims = [claim for each in slices for claim in each["claims"]]
    assert [each["slice"] for each in slices] == ["a", "b", "c"]
    assert claims[0]["subject"] == "ok by task = a >= 0.45"
    smallest = min(claims, key=lambda claim: claim["p_value"])
    assert smallest["p_adjusted"] == pytest.approx(3 * smallest["p_value"])
    assert document["verdicts"][0]["state"] == "met"
    assert "the claim is about these 3 values of task alone" in document["verdicts"][0]["reason"]
