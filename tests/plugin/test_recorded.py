"""Answers that exist already, read as if they were a model's: repeats, gaps, and too many."""

from __future__ import annotations

import pytest

REPEATS = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"], epochs=3)
    @pytest.mark.quality_target("exact_match >= 0.30")
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""


def test_repeats_are_averaged_inside_their_sample(suite):
    suite.write_rows(
        "answers/v2.jsonl",
        [
            {"sample_id": f"q{k:02}", "text": str(2 * k) if repeat == 0 else "?"}
            for k in range(20)
            for repeat in range(3)
        ],
    )
    suite.test(REPEATS)

    document = suite.json("--crucible-adapter=v2")

    (experiment,) = document["experiments"]
    (estimate,) = experiment["estimates"]
    assert experiment["repeats"] == 3
    assert (estimate["n"], estimate["lost"]) == (20, 0)
    assert estimate["value"] == pytest.approx(1 / 3)
    assert estimate["low"] <= 1 / 3 <= estimate["high"]


def test_too_few_repeats_are_lost_one_by_one(suite):
    rows = [{"sample_id": f"q{k:02}", "text": str(2 * k)} for k in range(20) for repeat in range(1 if k == 7 else 3)]
    suite.write_rows("answers/v2.jsonl", rows)
    suite.test(REPEATS)

    result = suite.run("--crucible-adapter=v2", "--crucible-json=run.json")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["crucible: test_sums: v2, 20 samples x 3 repeats", "test_sums: v2: 2 replies lost (error)"]
    )


def test_a_missing_answer_is_lost_and_named_in_a_warning(suite, run):
    suite.write_rows("answers/v2.jsonl", suite.answers["v2"][3:])

    result = run("-W", "default", "--crucible-adapter=v2", "--compare=v1")

    result.stdout.fnmatch_lines(
        [
            "*CrucibleWarning: adapter 'v2' lacks replies to 3 of 20 samples (first: q00): they will be lost",
            "exact_match >= 0.70 *17 *3 *",
            "exact_match: v2 vs v1 *17 *3 *",
            "test_sums: v2: 3 samples lost (error)",
        ]
    )


def test_where_warnings_are_errors_a_missing_answer_fails_its_test_alone(suite):
    suite.write_rows("answers/v2.jsonl", suite.answers["v2"][3:])
    suite.test("def test_plain(): pass", name="test_plain")

    result = suite.run("--crucible-adapter=v2")

    result.stdout.fnmatch_lines(["*CrucibleWarning: adapter 'v2' lacks replies to 3 of 20 samples*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes()["passed"] == 1


def test_unused_recorded_replies_are_no_error(suite):
    """Warnings are errors here."""
    suite.write_rows("answers/v2.jsonl", suite.answers["v2"][3:])
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        def test_sums(sample):
            return sample.expected
        """
    )

    suite.run("--crucible-adapter=v2").assert_outcomes(passed=1)


def test_lost_samples_that_could_turn_a_verdict_leave_it_undecided(suite):
    suite.write_rows("answers/v2.jsonl", suite.answers["v2"][3:])

    document = suite.json("-W", "default", "--crucible-adapter=v2")

    (experiment,) = document["experiments"]
    assert experiment["estimates"][0]["value"] == pytest.approx(13 / 17)
    (verdict,) = experiment["verdicts"]
    assert verdict["state"] == "undecided"
    assert verdict["reason"] == "met on the scored samples; the 3 lost samples could make it missed"
    assert document["exit_status"] == 0


def test_extra_answers_are_counted_in_a_warning_and_ignored(suite):
    extra = [{"sample_id": name, "text": "0"} for name in ("q98", "q97")]
    suite.write_rows("answers/v2.jsonl", [*suite.answers["v2"], *extra])

    result = suite.run("-W", "default", "--crucible-adapter=v2")

    result.stdout.fnmatch_lines(
        [
            "*CrucibleWarning: adapter 'v2' answers samples that dataset 'questions.jsonl' does not have: "
            "2 (first: q97); they are ignored",
            "exact_match >= 0.70 *0.800 *20 *0 *met",
        ]
    )


def test_answers_outside_a_subset_are_not_extra(suite):
    suite.test("""
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"], limit=5)
        async def test_sums(sample, sampler):
            return await sampler.generate(sample.input)
    """)

    suite.run("--crucible-adapter=v2").assert_outcomes(passed=1)


def test_a_seed_draws_the_subset(suite):
    suite.test("""
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", limit=5)
        def test_sums(sample, score):
            score(id=sample.id, right=True)
    """)

    def drawn(seed):
        dataset = suite.json(f"--crucible-seed={seed}")["experiments"][0]["dataset"]
        assert dataset["n"] == 5
        return dataset["sha256"]

    assert drawn(1) == drawn(1)
    assert len({drawn(seed) for seed in range(4)}) > 1
