"""Stored replies answer the calls that the test sends now, or their samples are sent again."""

from __future__ import annotations

import pytest

SCRIPTS = """
    def note(arm, request):
        with open("calls.txt", "a") as file:
            file.write(f"{arm} {request.sample} {request.parameters.get('reasoning_effort')}" + chr(10))

    def reply(arm, request):
        note(arm, request)
        number = int(request.sample[1:])
        right = 18 if request.parameters.get("reasoning_effort") == "high" else 4
        return str(2 * number) if number < right else "?"

    def answer(request):
        return reply("answer", request)

    def base(request):
        return reply("base", request)
"""

TEST = """
    import os

    import pytest

    @pytest.fixture
    def effort():
        return os.environ["EFFORT"]

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.ab_compare("exact_match")
    async def test_sums(sample, sampler, effort):
        return await sampler.generate(sample.input, reasoning_effort=effort)
"""
BOTH = ("--crucible-adapter=scripted", "--compare=base")


def count_calls(suite):
    return {arm: sum(line.startswith(arm) for line in suite.calls()) for arm in ("answer", "base")}


def measure(suite):
    suite.script(SCRIPTS)
    suite.test(TEST)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EFFORT", "high")
        assert suite.run(*BOTH).ret == 0
    assert count_calls(suite) == {"answer": 20, "base": 20}
    suite.forget_calls()


@pytest.fixture
def measured(suite, monkeypatch):
    """The suite after a session at high effort."""
    suite.prepare_once(measure)
    return suite


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_a_baseline_of_another_effort_is_sent_again(measured, monkeypatch, workers):
    """Two equal models at low effort: the stored replies at high effort would prove a regression."""
    monkeypatch.setenv("EFFORT", "low")

    result = measured.run(*workers, *BOTH)

    assert result.ret == 0
    assert sorted(measured.calls()) == sorted(f"{arm} q{k:02} low" for arm in ("answer", "base") for k in range(20))
    result.stdout.fnmatch_lines(
        [
            "test_sums: base: 20 stored replies answer calls with reasoning_effort 'high', and this session sends 'low': *"
        ]
    )
    result.stdout.no_fnmatch_line("* reused from run *")
    result.stdout.no_fnmatch_line("*drifted*")
