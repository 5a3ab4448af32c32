"""Configuration errors of one session are reported together, with exit status 4, before anything is sent."""

from __future__ import annotations

import pytest

TEST = """
    import pytest

    @pytest.mark.crucible(dataset=[{"id": "q1", "input": "1"}], metrics=["exact_mach"])
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""


def test_equal_recordings_do_not_hide_other_errors(suite):
    for name in ("v1", "v2"):
        (suite.path / f"{name}.jsonl").write_text('{"sample_id": "q1", "text": "1"}\n')
    suite.adapters({name: {"backend": "recorded", "path": f"{name}.jsonl"} for name in ("v1", "v2")})
    suite.test(TEST)

    result = suite.run("--crucible-adapter=v2", "--compare=v1")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    output = result.stderr.str()
    assert "adapters 'v2' and 'v1' are the same checkpoint" in output
    assert "metric 'exact_mach' is not registered" in output


def test_recordings_with_other_ids_are_found_before_the_run(suite):
    (suite.path / "v2.jsonl").write_text('{"sample_id": 1, "text": "1"}\n')
    suite.adapters({"v2": {"backend": "recorded", "path": "v2.jsonl"}})
    suite.test(TEST.replace("mach", "match"))

    result = suite.run("--crucible-adapter=v2")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*adapter 'v2' has a reply to none of the 1 samples of dataset *"])
