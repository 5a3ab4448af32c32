"""The adoption path: an ordinary parametrised test that asks for `crucible` and scores."""

from __future__ import annotations

import pytest

V2_V1 = ("--crucible-adapter=v2", "--compare=v1")

JOINED = """
    import pytest

    SUMS = [f"q{k:02}" for k in range(20)]

    @pytest.mark.quality_target("right >= 0.70")
    @pytest.mark.ab_compare("right")
    @pytest.mark.parametrize("number", range(20), ids=SUMS)
    def test_sums(crucible, number):
        reply = crucible.sampler.generate(f"{number} + {number}")
        right = reply.text == str(2 * number)
        crucible.score(right=right, length=len(reply.text))
        assert right
"""


def test_a_fixture_of_the_suite_with_the_same_name_joins_nothing(suite):
    suite.test(
        """
        import pytest

        @pytest.fixture
        def crucible():
            return "a pot"

        def test_pots(crucible):
            assert crucible == "a pot"
        """
    )

    result = suite.run("--crucible-adapter=v2")

    result.assert_outcomes(passed=1)
    assert not (suite.path / ".crucible").exists()


def test_a_fixture_that_extends_it_joins(suite):
    suite.test(
        """
        import pytest

        @pytest.fixture
        def crucible(crucible):
            return crucible

        @pytest.mark.quality_target("right >= 0.70")
        @pytest.mark.parametrize("number", range(20))
        def test_sums(crucible, number):
            crucible.score(right=True)
        """
    )

    suite.run("--crucible-adapter=v2").assert_outcomes(passed=21)


def test_without_a_comparison_there_are_no_arms(suite):
    suite.test(JOINED.replace('@pytest.mark.ab_compare("right")', ""))

    planned = suite.run("--co", "-q", *V2_V1)
    assert planned.stdout.lines[:2] == ["test_sums.py::test_sums[q00]", "test_sums.py::test_sums[q01]"]

    result = suite.run(*V2_V1)
    assert result.ret == 0
    result.assert_outcomes(passed=16 + 1, xfailed=4)
    result.stdout.fnmatch_lines(
        [
            "crucible: test_sums: v2, 20 samples",
            "  v1 not queried: the test compares nothing (@pytest.mark.ab_compare)",
            "right >= 0.70 *0.800 *20 *0 *met",
        ]
    )


def test_a_joined_test_is_judged_as_an_experiment_is(suite, run):
    suite.test(JOINED)

    result = run("--crucible-json=run.json", *V2_V1)

    assert result.ret == 0
    # 16 and 12 right; the 4 and 8 wrong ones are no failures of their own; one target and one comparison
    result.assert_outcomes(passed=28 + 2, xfailed=12)
    result.stdout.fnmatch_lines(
        [
            "right >= 0.70 *0.800 [[]0.584, 0.919[]] *20 *0 *met",
            "right: v2 vs v1 *+0.200 [[]-0.001, +0.437[]] *20 *0 *0.050 *met",
        ]
    )


def test_wrong_replies_fail_their_items_without_a_target(suite):
    suite.test(
        JOINED.replace('@pytest.mark.quality_target("right >= 0.70")', "").replace(
            '@pytest.mark.ab_compare("right")', ""
        )
    )

    result = suite.run("--crucible-adapter=v2")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=16, failed=4)


def test_a_lost_connection_stays_a_failure_and_is_lost(suite):
    suite.test(
        JOINED.replace("        reply =", "        if number == 3: raise ConnectionError('no route')\n        reply =")
    )

    result = suite.run("--crucible-json=run.json", "--crucible-adapter=v2")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=15 + 1, xfailed=4, failed=1)
    result.stdout.fnmatch_lines(["right >= 0.70 *0.789 * 19 * 1 *met", "test_sums: v2: 1 sample lost (error)"])


def test_a_partial_selection_decides_nothing(suite, run):
    suite.test(JOINED)

    result = run("-k", "q0", *V2_V1, "-rs")

    assert result.ret == 0
    result.assert_outcomes(passed=20, skipped=2, deselected=0 if "n2" in run.__name__ else 20)
    result.stdout.fnmatch_lines(
        [
            "crucible: test_sums: v2 vs v1, 10 of 20 samples x 2 arms = 20 replies",
            "right >= 0.70 *10 *10 *undecided",
            "    only 10 of 20 samples were selected",
            "test_sums: v2: 10 samples lost (deselected)",
            "test_sums: v1: 10 samples lost (deselected)",
        ]
    )


def test_last_failed_runs_all_samples_of_a_failed_verdict(suite, run):
    suite.test(JOINED.replace("0.70", "0.90"))
    run("--crucible-adapter=v2").assert_outcomes(passed=16, xfailed=4, failed=1)

    suite.run("--crucible-adapter=v2", "--lf").assert_outcomes(passed=16, xfailed=4, failed=1)


def test_subtests_teardown_scores_and_skips_count_once(suite, run):
    if pytest.version_tuple < (9, 0):
        pytest.skip("subtests came with pytest 9.0")
    suite.test(
        """
        import pytest

        @pytest.fixture
        def graded(crucible):
            yield crucible
            crucible.score(late=1.5)

        @pytest.mark.quality_target("right == 1", "late >= 1")
        @pytest.mark.parametrize("number", range(4))
        def test_parts(graded, number, subtests):
            if number == 3:
                pytest.skip("odd one out")
            for part in range(3):
                with subtests.test(part=part):
                    assert part < 3
            graded.score(right=True)
        """
    )

    document = suite.json("--crucible-adapter=v2", run=run)

    (experiment,) = document["experiments"]
    assert {
        estimate["metric"]: (estimate["n"], estimate["lost"], estimate["value"]) for estimate in experiment["estimates"]
    } == {"late": (4, 0, 1.5), "right": (3, 0, 1.0)}
    assert [verdict["state"] for verdict in experiment["verdicts"]] == ["met", "met"]


def test_a_test_may_join_without_any_adapter(suite):
    suite.test(
        """
        import pytest

        @pytest.mark.quality_target("right >= 0.5")
        @pytest.mark.parametrize("number", range(4))
        def test_own_model(crucible, number):
            crucible.score(right=number < 3)
            assert crucible.arm.name == "candidate"
        """
    )

    result = suite.run()

    assert result.ret == 0
    result.stdout.fnmatch_lines(["crucible: test_own_model: candidate, 4 samples", "right >= 0.5 *0.750 *met"])


def test_a_mistake_ends_the_session(suite, run):
    """Workers cannot refuse to begin: they skip, and the controller has to hear why."""
    suite.test(JOINED.replace("right >= 0.70", "right >= 70 %"))
    suite.refuses(
        run("--crucible-adapter=v2"),
        "test_sums.py::test_sums: target 'right >= 70 %' cannot be read at '%' (character 13): expected nothing more, *",
    )


def test_a_request_without_an_adapter_is_an_error_with_advice(suite):
    suite.test(JOINED)

    result = suite.run()

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*SpecError: no adapter to query: give --crucible-adapter=NAME, or set crucible_adapter in pytest's configuration"
        ]
    )


AS_THEY_ARE = "disable_test_id_escaping_and_forfeit_all_rights_to_community_support = true"


@pytest.mark.parametrize(
    ("candidate", "baseline", "setting"),
    [
        ("größe", "模型🙂", ""),
        ("größe", "模型🙂", AS_THEY_ARE),
        ("cafe\u0301", "caf\u00e9", ""),
        ("back\\slash", "\\xe9", ""),
    ],
    ids=["escaped", "as it is", "decomposed", "backslash"],
)
def test_arms_of_any_name_are_paired(suite, run, candidate, baseline, setting):
    adapters = {candidate: "v2", baseline: "v1"}
    suite.adapters({name: {"backend": "recorded", "path": f"answers/{own}.jsonl"} for name, own in adapters.items()})
    suite.test(JOINED)
    suite.pytester.makeini(f"[pytest]\n{setting}")

    result = run(f"--crucible-adapter={candidate}", f"--compare={baseline}")

    assert result.ret == 0
    result.assert_outcomes(passed=28 + 2, xfailed=12)
    result.stdout.fnmatch_lines(["right: * vs * *+0.200 [[]-0.001, +0.437[]] *20 *0 *0.050 *met"])
    # Once, although two workers run its items.
    assert sum(line.startswith("crucible: test_sums: ") for line in result.stdout.lines) == 1
