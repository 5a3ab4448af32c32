"""Probabilities of choices, from prompts that are scored."""

from __future__ import annotations

import asyncio
import math

import pytest

from pytest_crucible.backends.protocol import score_choices
from pytest_crucible.metrics.choice import expected_score
from pytest_crucible.records import Reply, Request, Sample
from pytest_crucible.records.errors import Refused


class Scoring:
    """Each word has a log-probability of its own."""

    async def score_prompt(self, text):
        values = {"yes": math.log(0.6), "no": math.log(0.2), "it": math.log(0.5)}
        return [values.get(word, -1.0) for word in text.split()]


def choose(choices, prompt="is it"):
    request = Request(input=prompt, sample="a", repeat=0, parameters={"choices": choices})
    return asyncio.run(score_choices(Scoring(), request))


def test_probabilities_add_up_and_do_not_depend_on_the_order_of_choices():
    reply, other = choose([" yes", " no"]), choose([" no", " yes"])

    assert reply.text == "yes"
    assert reply.value == pytest.approx({" yes": 0.75, " no": 0.25})
    assert other.value == pytest.approx(reply.value)


def test_very_improbable_choices_have_probabilities():
    assert choose([" a" * 900, " a" * 900 + " a"]).value == pytest.approx(
        {" a" * 900: 1 / (1 + math.exp(-1)), " a" * 901: 1 / (1 + math.e)}
    )


@pytest.mark.parametrize(
    ("choices", "prompt"), [(["a"], "q"), (["a", "a"], "q"), ("ab", "q"), (["a", ""], "q"), (["a", "b"], [{}])]
)
def test_invalid_choices_are_refused(choices, prompt):
    with pytest.raises(Refused):
        choose(choices, prompt)


def test_the_expected_choice_is_scored():
    reply = Reply(text="yes", value={" yes": 0.75, " no": 0.25})

    assert expected_score(reply, Sample(id="a", input="", expected="no")) == 0.25
    assert expected_score(reply, Sample(id="a", input="", expected="maybe")) == 0.0
    assert "sampler.choose" in str(expected_score(Reply(text="yes"), Sample(id="a", input="", expected="no")))
    assert "no expected answer" in str(expected_score(reply, Sample(id="a", input="")))
