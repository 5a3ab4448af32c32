"""The outcomes of a sample: right, failed, skipped or lost."""

from __future__ import annotations

import textwrap

import pytest

V2 = "--crucible-adapter=v2"


OUTCOMES = """
    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.5", "passed >= 0.5")
    {kind} test_{name}(sample):
        number = int(sample.id[1:])
        if number == 0:
            assert number == 1, "not one"
        if number == 1:
            pytest.fail("no good")
        if number == 2:
            pytest.skip("not for us")
        if number == 3:
            raise ConnectionError("no route")
        if number == 4:
            return Reply(text=sample.expected, finish="length")
        return sample.expected
"""


def test_failures_are_worst_scores_skips_do_not_apply_and_errors_are_lost(suite, run):
    kinds = (("async def", "async"), ("def", "plain"))
    functions = [textwrap.dedent(OUTCOMES).format(kind=kind, name=name) for kind, name in kinds]
    suite.test("\n".join(["import pytest", "from pytest_crucible import Reply", *functions]))

    result = run("--crucible-json=run.json", "-v")

    assert result.ret == 0
    for name in ("async", "plain"):
        result.stdout.fnmatch_lines(
            [
                f"test_sums.py::test_{name}",
                # 20 samples: 15 right, 3 of the candidate's own failures, 1 skipped, 1 lost
                "exact_match >= 0.5 * 0.833 * 18 * 1 *met*",
                "passed >= 0.5 * 0.833 * 18 * 1 *met*",
                f"test_{name}: candidate: 1 sample lost (error)",
                f"test_{name}: candidate: 3 samples failed (2 assertion, 1 truncation)",
            ]
        )


@pytest.mark.parametrize(
    ("kind", "wait"), [("async def", "await asyncio.sleep(30)"), ("def", "time.sleep(30)")], ids=["async def", "def"]
)
def test_a_sample_beyond_its_deadline_is_a_failure(suite, kind, wait):
    suite.test(
        f"""
        import asyncio, time, pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"], timeout=1.5)
        {kind} test_sums(sample):
            if sample.id == "q07":
                {wait}
            return sample.expected
        """
    )

    result = suite.run("-v")

    assert result.duration < 25
    result.stdout.fnmatch_lines(
        ["test_sums: candidate: 1 sample failed (timeout)", "exact_match * mean * 0.950 * 20 *"]
    )


def test_a_missing_return_is_reported(suite):
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        async def test_sums(sample, sampler):
            await sampler.generate(sample.input)
        """
    )

    result = suite.run(V2)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "adapter 'v2' lost each of its first 20 samples (test_sums returned None for sample 'q*', "
            "but its metrics need a reply: return it): the experiment was stopped"
        ]
    )


def test_an_adapter_without_any_reply_stops_early_without_a_table(suite, run):
    suite.write_rows("questions.jsonl", [{"id": f"q{k}", "input": str(k), "expected": str(k)} for k in range(500)])
    suite.script(
        """
        from pytest_crucible import BackendError

        def answer(request):
            with open("calls.txt", "a") as file:
                file.write(request.sample + chr(10))
            raise BackendError("503 overloaded")
        """
    )

    result = run("--crucible-adapter=scripted")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert len(suite.calls()) < 100
    result.stdout.fnmatch_lines(
        ["adapter 'scripted' lost each of its first 20 samples (503 overloaded): the experiment was stopped"]
    )
    result.stdout.no_fnmatch_line("*During handling*")
    result.stdout.no_fnmatch_line("*0.000*")


def test_a_backend_that_refuses_stops_at_once(suite):
    suite.script(
        """
        from pytest_crucible import Refused

        def answer(request):
            raise Refused("the key was refused: set MODEL_KEY")
        """
    )

    result = suite.run("--crucible-adapter=scripted")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["the key was refused: set MODEL_KEY"])


def test_exit_inside_an_experiment_ends_the_session(suite):
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        def test_sums(sample):
            if sample.id == "q07":
                pytest.exit("enough", returncode=9)
            return sample.expected
        """
    )

    assert suite.run().ret == 9
