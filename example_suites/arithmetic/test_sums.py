"""The smallest experiment: questions with one right answer, two adapters, a target and a comparison. Data invented here."""

import pytest

from pytest_crucible.metrics import final_number_matches


@pytest.mark.crucible(dataset="sums.jsonl", metrics=[final_number_matches])
@pytest.mark.quality_target("final_number_matches >= 0.80")
@pytest.mark.ab_compare("final_number_matches", margin=0.05)
async def test_sums(sample, sampler):
    return await sampler.generate(sample.input)
