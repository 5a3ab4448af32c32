"""The suite of this package, as its user writes it; the adapter is on the command line."""

from __future__ import annotations

import os

import pytest


def questions():
    return (
        {"id": str(number), "input": f"question {number}", "expected": f"question {number}"}
        for number in range(int(os.environ["PEERS_SAMPLES"]))
    )


@pytest.mark.crucible(dataset=questions, metrics=["exact_match"])
@pytest.mark.quality_target("exact_match >= 1")
async def test_questions(sample, sampler):
    return await sampler.generate(sample.input)
