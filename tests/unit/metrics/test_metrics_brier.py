"""The Brier score of one reply: its mean is the Brier score of all of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import NotApplicable, Reply, Sample, SpecError, metric
from pytest_crucible.metrics import exact_match, sentence_bleu
from pytest_crucible.metrics.confidence import brier, calibration

answers = st.lists(st.tuples(st.floats(0.01, 1), st.booleans()), min_size=2, max_size=20)


def reply(confidence: float | None, right: bool = True) -> Reply:
    return Reply(text="4" if right else "5", logprobs=None if confidence is None else (math.log(confidence),))


SAMPLE = Sample(id="1", input="2 + 2", expected="4")


@pytest.mark.slow
@given(answers)
def test_its_mean_is_the_brier_score(given_answers):
    single = [brier(exact_match)(reply(*one), SAMPLE) for one in given_answers]
    whole = calibration([one for one, _ in given_answers], [right for _, right in given_answers])

    assert sum(single) / len(single) == pytest.approx(whole.brier, abs=1e-12)


def test_without_logprobs_it_does_not_apply():
    assert "no logprobs" in brier(exact_match)(reply(None), SAMPLE).reason


def test_where_the_metric_does_not_apply_neither_does_it():
    nothing = Sample(id="1", input="2 + 2")

    @metric(kind="binary")
    def silent(reply, sample):
        return None

    assert brier(exact_match)(reply(0.5), nothing) == exact_match(reply(0.5), nothing)
    assert brier(silent)(reply(0.5), SAMPLE) == NotApplicable("silent does not apply")


def test_what_is_not_yes_or_no_is_refused():
    with pytest.raises(
        SpecError,
        match=r"brier.sentence_bleu. needs a binary metric: declare it with kind='binary', or give another one",
    ):
        brier(sentence_bleu)


def test_it_is_another_metric_for_another_judgement():
    assert brier(exact_match).facts.version == f"1:exact_match:{exact_match.facts.version}"
    assert (brier(exact_match).facts.direction, brier(exact_match).facts.high) == ("lower", 1)
