"""Do the model's programs pass the tests of HumanEval, and more of them than the other model's?"""

import pytest


@pytest.mark.crucible(dataset="humaneval", metrics=["humaneval_pass", "humaneval_outcome"])
@pytest.mark.quality_target("humaneval_pass >= 0.80")
@pytest.mark.ab_compare("humaneval_pass")
async def test_humaneval(sample, sampler):
    return await sampler.generate(sample.input)
