"""Calls of this session are compared with stored ones of the same sample, whether these are of one kind or of many."""

from __future__ import annotations

import pytest
from experiment_builders import plan_item, scripted_arm

from pytest_crucible.records import ModelCall, Outcome, Reply, Unit
from pytest_crucible.records.call_differences import SentCalls
from pytest_crucible.records.serialize import canonical
from pytest_crucible.session.experiment import Experiment
from pytest_crucible.session.stored_calls import FEW_KINDS, PaidCalls, StoredCalls
from pytest_crucible.store.sent_calls import CallReader

SAMPLES = 2 * FEW_KINDS
SOURCE = f"""
    import pytest

    @pytest.mark.crucible(dataset=[{{"id": str(k), "input": str(k)}} for k in range({SAMPLES})])
    @pytest.mark.ab_compare("right")
    async def test_it(sample, sampler, score):
        score(right=True)
"""


@pytest.fixture
def experiment(pytester: pytest.Pytester) -> Experiment:
    arms = scripted_arm(lambda request: "4", "v2"), scripted_arm(lambda request: "4", "v1", "baseline")
    return plan_item(pytester, SOURCE, *arms)[1]


def sent_again(experiment: Experiment, sent: list[dict], stored: list[dict]) -> list[int]:
    """The samples of a stored baseline that are sent again; parameters are by sample."""
    baseline = {
        Unit(position, 0, 1, 0): PaidCalls(SentCalls(None, (canonical(parameters),)), "earlier")
        for position, parameters in enumerate(stored)
    }
    calls = StoredCalls(experiment, CallReader(str, experiment.plan.arms), [{}, baseline])
    removed = []
    for position, parameters in enumerate(sent):
        sample, text = experiment.dataset.samples[position], canonical(parameters)
        call = ModelCall(sample.input, False, 1, parameters, "", reply=Reply(text="4"), settings=text)
        removed += calls.add(Outcome(Unit(position, 0, 0, 0), calls=[call], sample=sample))
    assert calls.count_waiting() == [0, len(removed)]
    return [unit.position for unit in removed]


@pytest.mark.parametrize("kinds", [1, 2, FEW_KINDS, FEW_KINDS + 1, SAMPLES])
def test_a_stored_reply_to_other_parameters_is_sent_again(experiment, kinds):
    stored = [{"top_k": position % kinds} for position in range(SAMPLES)]
    sent = [*stored[:-2], {"top_k": 100}, stored[-1]]

    assert sent_again(experiment, stored, stored) == []
    assert sent_again(experiment, sent, stored) == [SAMPLES - 2]


def test_a_value_that_another_sample_was_sent_is_a_difference(experiment):
    stored = [{"top_k": position % 2} for position in range(SAMPLES)]
    sent = [{"top_k": 1}, *stored[1:]]

    assert sent_again(experiment, sent, stored) == [0]


def test_a_declared_difference_sends_nothing_again(pytester):
    arms = scripted_arm(lambda request: "4", "v2"), scripted_arm(lambda request: "4", "v1", "baseline")
    _, experiment = plan_item(pytester, SOURCE.replace("])", '], arms_differ_in=["top_k"])'), *arms)
    stored = [{"top_k": 1}] * SAMPLES

    assert sent_again(experiment, [{"top_k": 2}] * SAMPLES, stored) == []
    assert sent_again(experiment, [{"top_p": 0.5}] * SAMPLES, stored) == list(range(SAMPLES))
