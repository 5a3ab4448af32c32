"""Targets and comparisons by slice with pooled sessions, stages, early looks and sweeps."""

from __future__ import annotations

import json

import pytest

SCRIPTS = """
    import random

    def right(request, share):
        with open("calls.txt", "a") as file:
            file.write(f"{request.arm} {request.sample}" + chr(10))
        # Both models fail women more often; `answer` far more.
        is_woman = int(request.sample[1:]) % 2
        chance = share if is_woman else 0.95
        return "right" if random.Random(f"{request.arm} {request.sample} {request.repeat}").random() < chance else "wrong"

    def answer(request):
        return right(request, request.parameters.get("quality", 2) / 10)

    def base(request):
        return right(request, 0.9)
"""
TEST = """
    import pytest

    SAMPLES = [
        {"id": f"s{k}", "input": f"q{k}", "expected": "right", "sex": "mf"[k % 2], "topic": "abc"[k % 3]} for k in range(240)
    ]

    @pytest.mark.crucible(SAMPLES, metrics="exact_match")
    @pytest.mark.quality_target("gap(exact_match by sex) <= 0.1", "worst(exact_match by topic) >= 0.3")
    @pytest.mark.ab_compare("gap(exact_match by sex)", "exact_match by topic")
    async def test_loans(sample, sampler):
        return await sampler.generate(sample.input)
"""
BOTH = ("--crucible-adapter=scripted", "--compare=base", "--crucible-json=r.json")


@pytest.fixture
def loans(suite):
    suite.script(SCRIPTS)
    suite.test(TEST)
    return suite


def experiment(suite):
    return json.loads((suite.path / "r.json").read_text())["experiments"][-1]


def states(suite):
    return {verdict["subject"]: verdict["state"] for verdict in experiment(suite)["verdicts"]}


def ini(suite, text):
    suite.pytester.makefile(".ini", pytest=f"[pytest]\n{text}\n")


GAP, CHANGE = "gap(exact_match by sex) <= 0.1", "gap(exact_match by sex): scripted vs base"


@pytest.mark.slow
def test_sessions_pool_their_replies_by_slice(loans):
    ini(loans, "crucible_memory = pool")
    loans.run(*BOTH)
    first = states(loans)
    loans.run(*BOTH, "--crucible-cache=refresh")

    second = states(loans)
    # Sessions are rounds, whose noise no bound of an extreme counts: what must be proven is open until rounds are fixed.
    changed = {subject for subject in first if first[subject] != second[subject]}
    assert changed == {GAP, "worst(exact_match by topic) >= 0.3"}
    assert {second[subject] for subject in changed} == {"undecided"}
    assert (first[GAP], first[CHANGE]) == ("missed", "missed")
    assert sum("exact_match by topic" in subject and "worst" not in subject for subject in first) == 3


@pytest.mark.uses("stages")
@pytest.mark.slow
def test_stages_end_where_a_gap_is_proven(loans):
    ini(loans, "crucible_stages = smoke: 10, dev: 120, full")
    result = loans.run(*BOTH)

    assert result.ret == 1
    assert (states(loans)[GAP], states(loans)[CHANGE]) == ("missed", "missed")
    # The gap of .75 is proven on 120 samples.
    assert len(loans.calls()) < 2 * 240


@pytest.mark.uses("stages")
def test_early_looks_take_comparisons_in_slices_and_no_extremes(loans):
    refused = loans.run(*BOTH, "--crucible-stop")

    assert refused.ret == 4
    refused.stderr.fnmatch_lines(
        ["*means, rates, pass^k and pass@k, but not 'gap(exact_match by sex)': ask for a rate*"]
    )
    assert not loans.calls()
    without = [line for line in TEST.splitlines() if "quality_target" not in line]
    loans.test("\n".join(without).replace('"gap(exact_match by sex)", ', "").replace("by topic", "by sex"))
    loans.run(*BOTH, "--crucible-stop")

    assert states(loans) == {
        "exact_match by sex = m: scripted vs base": "met",
        "exact_match by sex = f: scripted vs base": "missed",
    }


@pytest.mark.uses("sweeps")
@pytest.mark.parametrize(("confirm", "n"), [("0.5", 120), ("0", 240)])
def test_a_sweeps_winner_is_judged_by_slice(loans, confirm, n):
    """The slices are of the confirming half, or of all samples; the member of quality 2 would miss the target."""
    with (loans.path / "crucible.toml").open("a") as file:
        sweep = f'"parameters.quality" = [2, 9]\nby = "exact_match"\nconfirm = {confirm}\n'
        file.write(f"[adapters.scripted.sweep]\n{sweep}")
    loans.run(*BOTH)

    gap = next(verdict for verdict in experiment(loans)["verdicts"] if verdict["subject"] == GAP)
    assert (gap["state"], experiment(loans)["arms"][0]["name"]) == (
        "undecided" if n == 120 else "met",
        "scripted[quality=9]",
    )
