"""crucible_memory = "pool" in sessions of pytest: what was proven stays proven until the adapter changes."""

from __future__ import annotations

import pytest

from pytest_crucible.cli import main

SCRIPTS = """
    from pathlib import Path

    def answer(request):
        return "4" if Path("mood.txt").read_text() == "good" else "?"

    def base(request):
        return "4"
"""
TEST = """
    import pytest

    def right(reply, sample):
        return reply.text == "4"

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=[right])
    @pytest.mark.ab_compare("right")
    async def test_right(sample, sampler):
        return await sampler.generate(sample.input)
"""
BOTH = ("--crucible-adapter=scripted", "--compare=base", "-ocrucible_memory=pool")


@pytest.fixture
def regressed(suite):
    """The suite after a session that has proven a regression; from now on the candidate has good days."""
    suite.script(SCRIPTS)
    suite.test(TEST)
    (suite.path / "mood.txt").write_text("bad")
    assert suite.run(*BOTH).ret == 1
    (suite.path / "mood.txt").write_text("good")
    return suite


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_a_proven_regression_stays_missed(regressed, capsys, workers):
    result = regressed.run(*workers, *BOTH)

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "    it was proven in run *, and stays missed until the adapter changes",
            "test_right: base: comparison 2 of scripted with this baseline since *",
            "test_right: right: decided on the replies of all sessions (40 of scripted, 20 of base); look 2, *",
        ]
    )
    capsys.readouterr()
    assert main(["show", "--store", str(regressed.path / ".crucible" / "crucible.db")]) == 0
    assert "and stays missed until the adapter changes" in capsys.readouterr().out


def test_another_adapter_has_no_memory(regressed):
    regressed.script(SCRIPTS.replace('"?"', '"!"'))

    assert regressed.run(*BOTH).ret == 0


def test_a_setting_that_does_not_exist_is_one_sentence(suite):
    result = suite.run("--crucible-adapter=v2", "-ocrucible_memory=always")

    result.stderr.fnmatch_lines(["ERROR: crucible_memory = 'always': write one of off, pool"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
