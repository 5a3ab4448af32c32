"""Does the model get grade-school word problems right, and does it get more of them right than the other one?"""

import pytest

from pytest_crucible.metrics import final_number_matches


@pytest.mark.crucible(dataset="gsm8k", metrics=[final_number_matches])
@pytest.mark.quality_target("final_number_matches >= 0.40")
@pytest.mark.ab_compare("final_number_matches")
async def test_grade_school_math(sample, sampler):
    return await sampler.generate(sample.input)
