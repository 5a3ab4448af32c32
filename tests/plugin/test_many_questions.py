"""Several questions at once: Holm over the session, strictness, and what undecided does."""

from __future__ import annotations

import pytest

V2_V1 = ("--crucible-adapter=v2", "--compare=v1")

SEVERAL = """
    import pytest

    pytestmark = pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match", "contains_expected"])

    @pytest.mark.ab_compare("exact_match", "contains_expected")
    async def test_one(sample, sampler):
        return await sampler.generate(sample.input)

    @pytest.mark.ab_compare("exact_match")
    async def test_two(sample, sampler):
        reply = await sampler.generate(sample.input)
        return reply.text if sampler.arm.role == "candidate" else "?"

    @pytest.mark.ab_compare("exact_match", margin=0.5)
    async def test_three(sample, sampler):
        return await sampler.generate(sample.input)
"""


def holm(p_values):
    """Holm 1979: the k-th smallest times what is left, never below an earlier one."""
    adjusted, highest = {}, 0.0
    for rank, (p, k) in enumerate(sorted((p, k) for k, p in enumerate(p_values))):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p))
        adjusted[k] = highest
    return [adjusted[k] for k in range(len(p_values))]


def test_all_comparisons_of_a_session_share_alpha(suite, run):
    suite.test(SEVERAL)

    document = suite.json(*V2_V1, run=run)

    assert document["run"]["correction"] == "holm"
    pairs = [pair for experiment in document["experiments"] for pair in experiment["comparisons"]]
    assert len(pairs) == 4
    # The last has a margin: its bounds decide, so it costs the others nothing.
    assert pairs[3]["p_adjusted"] is None
    p_values = [pair["p_value"] for pair in pairs[:3]]
    assert [pair["p_adjusted"] for pair in pairs[:3]] == pytest.approx(holm(p_values))
    assert document["run"]["family_size"] == 3
    states = [[verdict["state"] for verdict in experiment["verdicts"]] for experiment in document["experiments"]]
    assert states == [["met", "met"], ["met"], ["met"]]
    proven = [verdict["proven"] for experiment in document["experiments"] for verdict in experiment["verdicts"]]
    assert proven == [False, False, True, True]


def test_the_table_names_how_many_questions_share_alpha(suite):
    suite.test(SEVERAL)

    result = suite.run(*V2_V1)

    result.stdout.fnmatch_lines(
        ["comparison * p (Holm, 3) * verdict", "test_sums.py::test_one", "exact_match: v2 vs v1 *"]
    )


def test_strict_asks_for_proof_of_every_target(suite):
    result = suite.run("--crucible-strict", "--crucible-adapter=v2", "-rs")

    assert result.ret == 0
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "exact_match >= 0.70 * 0.800 * undecided",
            "    not proven either way: * and *, target 0.70; proof needs about n=123 at this estimate (80 % power)",
            "SKIPPED [[]1[]] test_sums.py:*: undecided: 0.800 [[]0.584, 0.919[]] n=20; not proven either way: *; proof needs *",
        ]
    )


@pytest.mark.parametrize("mark", ['decide="bound"', 'decide="point"'])
def test_a_target_may_ask_for_proof_itself(suite, mark):
    suite.test(
        f"""
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        @pytest.mark.quality_target("exact_match >= 0.70", {mark})
        async def test_sums(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )

    document = suite.json("--crucible-adapter=v2")

    assert document["experiments"][0]["verdicts"][0]["state"] == ("undecided" if "bound" in mark else "met")


@pytest.mark.parametrize(("strict", "mark"), [((), ', decide="bound"'), (("--crucible-strict",), "")])
def test_an_equality_waits_for_no_proof(suite, strict, mark):
    """No data prove that something never happens."""
    suite.test(
        f"""
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        @pytest.mark.quality_target("count(flags) == 0"{mark})
        @pytest.mark.quality_target("count(wrong) == 0"{mark})
        async def test_sums(sample, sampler, score):
            score(flags=False, wrong=sample.id < "q03")
            return await sampler.generate(sample.input)
        """
    )

    (experiment,) = suite.json("--crucible-adapter=v2", *strict)["experiments"]

    assert [(verdict["state"], verdict["proven"], verdict["reason"]) for verdict in experiment["verdicts"]] == [
        ("met", False, "0 of 20; the rate may be as high as 0.139"),
        ("missed", True, "one-sided bounds 0.843 and 6.87 exclude target 0"),
    ]


def test_undecided_fails_where_the_configuration_says_so(suite):
    suite.pytester.makefile(".ini", pytest="[pytest]\ncrucible_undecided = fail\ncrucible_strict = true")

    result = suite.run("--crucible-adapter=v2")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["FAILED test_sums.py::test_sums::exact_match >= 0.70 - undecided: 0.800 *"])


@pytest.mark.parametrize(
    ("mark", "adapters", "state"),
    [
        ("margin=0.2", V2_V1, "met"),
        ("margin=0.2", ("--crucible-adapter=v1", "--compare=v2"), "undecided"),
        ("margin=0.2", ("--crucible-adapter=poor", "--compare=v2"), "missed"),
        # Twenty equal replies would prove no margin of 0.05; a clear improvement is not worse by any.
        ("margin=0.05", V2_V1, "met"),
        ("margin=0.04", ("--crucible-adapter=v3", "--compare=v2"), "undecided"),
        ('alternative="superior"', ("--crucible-adapter=v2", "--compare=poor"), "met"),
        ('alternative="superior"', ("--crucible-adapter=v3", "--compare=v2"), "undecided"),
        ('margin=0.9, alternative="equivalent"', V2_V1, "met"),
    ],
    ids=["above", "between", "below", "far above", "few", "better", "perhaps better", "near"],
)
def test_a_comparison_may_ask_for_more(suite, mark, adapters, state):
    suite.test(
        f"""
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        @pytest.mark.ab_compare("exact_match", {mark})
        async def test_sums(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )

    document = suite.json(*adapters)

    assert [verdict["state"] for verdict in document["experiments"][0]["verdicts"]] == [state]


def test_a_metric_can_be_tested_for_noninferiority_and_superiority(suite, run):
    """A fixed sequence: the margin is decided by bounds, and the claim of an improvement is alone in its family."""
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        @pytest.mark.ab_compare("exact_match", margin=0.2)
        @pytest.mark.ab_compare("exact_match", alternative="superior")
        async def test_sums(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )

    document = suite.json("--crucible-adapter=v2", "--compare=poor", run=run)

    (experiment,) = document["experiments"]
    assert [(verdict["subject"], verdict["state"]) for verdict in experiment["verdicts"]] == [
        ("exact_match: v2 vs poor non-inferior by 0.2", "met"),
        ("exact_match: v2 vs poor superior", "met"),
    ]
    assert document["run"]["family_size"] == 1
    assert experiment["comparisons"][1]["p_adjusted"] == experiment["comparisons"][1]["p_value"]
