"""Claim extraction: are the lines in form, does each cite the document that it comes from, and did training take?"""

from __future__ import annotations

import pytest
from claims_judging import judge

from pytest_crucible.metrics import metric


@metric(kind="binary", version="1")
def schema(reply, sample):
    return judge(sample.input, sample.expected, reply.text).schema


@metric(bounds=(0, 1), version="1")
def citation(reply, sample):
    return judge(sample.input, sample.expected, reply.text).citation


@pytest.mark.crucible(dataset="held_out.jsonl", metrics=[schema, citation])
@pytest.mark.quality_target("schema >= 0.80")
@pytest.mark.quality_target("citation >= 0.80")
@pytest.mark.quality_target("loss_reduction >= 0.95")
@pytest.mark.ab_compare("schema")
@pytest.mark.ab_compare("citation")
async def test_claims(sample, sampler):
    return await sampler.generate(sample.input)
