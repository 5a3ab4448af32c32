"""Does the model name the last document, and nothing else? On questions that no training has seen."""

from __future__ import annotations

import pytest
from documents import Question, make_questions, prompt_of, reward_of

from pytest_crucible.metrics import metric

# The training's seeds are from 1 on.
QUESTIONS = [
    {"id": f"d{k:03}", "input": prompt_of(question), "expected": [question.right, question.wrong]}
    for k, question in enumerate(make_questions(200, seed=0))
]


@metric(bounds=(0, 1), version="1")
def reward(reply, sample):
    right, wrong = sample.expected
    return reward_of(Question(sample.input, right, wrong), reply.text)


@metric(kind="binary", version="1")
def right(reply, sample):
    return reply.text.strip() == sample.expected[0]


@pytest.mark.crucible(dataset=QUESTIONS, metrics=[right, reward])
@pytest.mark.quality_target("right >= 0.80")
@pytest.mark.ab_compare("reward", alternative="superior")
async def test_last_document(sample, sampler):
    return await sampler.generate(sample.input, max_tokens=8)
