"""Claim extraction: a gate on held-out samples, and practice on samples that may be trained on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from claims_judging import judge

from pytest_crucible.metrics import metric

CLAIMS = Path(__file__).parent.parent / "claims"
# v1 learns from the rows before these.
LINES = (CLAIMS / "train.jsonl").read_text(encoding="utf-8").splitlines()[320:]
PRACTICE = [
    {"id": f"p{k:03}", "input": row["prompt"], "expected": row["completion"], "group": f"passage-{k // 2}"}
    for k, row in enumerate(map(json.loads, LINES))
]


@metric(kind="binary", version="1")
def schema(reply, sample):
    return judge(sample.input, sample.expected, reply.text).schema


@pytest.mark.crucible(dataset=CLAIMS / "held_out.jsonl", metrics=[schema])
@pytest.mark.quality_target("schema >= 0.40")
@pytest.mark.ab_compare("schema", alternative="superior")
async def test_claims(sample, sampler):
    return await sampler.generate(sample.input)


@pytest.mark.crucible(dataset=PRACTICE, metrics=[schema], purpose="practice")
async def test_practice(sample, sampler):
    return await sampler.generate(sample.input)
