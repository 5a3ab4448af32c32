"""Runs that an earlier build decided: verdicts are shown as they were, and decided again where something follows from them."""

from __future__ import annotations

import json
import sqlite3
import sys

import pytest

SUITE = """
import pytest
from pytest_crucible import metric

@metric(bounds=(0, 1))
def quality(reply, sample):
    return float(reply.text)

@pytest.mark.crucible(dataset="data.jsonl", metrics=[quality])
@pytest.mark.ab_compare("quality")
async def test_quality(sample, sampler):
    return await sampler.generate(sample.input)
"""


@pytest.fixture
def old_run(pytester, forked_programs):
    """A run whose arms differ by exactly 1/64, decided by this build, and stored as if version 1 of the rules had."""
    rows = [f'{{"id": "q{k}", "input": "q{k}"}}' for k in range(20)]
    pytester.makefile(".jsonl", data="\n".join(rows))
    for name, value in (("v1", 0.5), ("v2", 0.5 - 1 / 64)):
        replies = [json.dumps({"sample_id": f"q{k}", "text": str(value)}) for k in range(20)]
        pytester.makefile(".jsonl", **{name: "\n".join(replies)})
    adapters = [f'[adapters.{name}]\nbackend = "recorded"\npath = "{name}.jsonl"' for name in ("v1", "v2")]
    pytester.makefile(".toml", crucible="\n".join(adapters))
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess("--crucible-adapter=v2", "--compare=v1", "--crucible-store=runs.db")
    result.assert_outcomes(passed=1, failed=1)
    with sqlite3.connect("runs.db") as connection:
        connection.execute("UPDATE runs SET environment = json_remove(environment, '$.rules')")
        connection.execute("UPDATE verdicts SET state = 'met', proven = 0, reason = 'no regression is proven'")
        (run,) = connection.execute("SELECT id FROM runs").fetchone()
    return run


def crucible(pytester, *arguments):
    return pytester.run(sys.executable, "-m", "pytest_crucible", *arguments, "--store=runs.db")


def test_a_run_of_an_earlier_build_shows_the_verdicts_that_it_had_with_the_version_of_the_rules(pytester, old_run):
    output = crucible(pytester, "show", old_run)

    output.stdout.fnmatch_lines(["*no regression is proven*"])
    output.stdout.fnmatch_lines(["*verdicts are those of the session, by version 1 of the rules*"])


def test_a_report_decides_again_and_says_so(pytester, old_run):
    crucible(pytester, "report", old_run, "-o", "again.md")

    text = (pytester.path / "again.md").read_text()
    assert "the replies of v2 and v1 differ" in text
    assert "decided again by version 2 of the rules; the session decided by version 1" in text


def test_a_baseline_is_promoted_by_todays_rules(pytester, old_run):
    refused = crucible(pytester, "runs", "tag", old_run, "main")

    assert refused.ret == 4
    refused.stderr.fnmatch_lines(["*its verdicts are 1 missed*"])
