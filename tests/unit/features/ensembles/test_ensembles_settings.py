"""Settings of an ensemble: what they mean, and one sentence for what they cannot mean."""

from __future__ import annotations

import pytest
from ensemble_members import Saying, make

from pytest_crucible import SpecError
from pytest_crucible.features.ensembles.settings import read_rules
from pytest_crucible.records import Adapter


def rules(asking=None, **settings):
    options = {"ensemble": ["v1", "v2", "v3"], **settings}
    return read_rules(Adapter(name="trio", backend="ensemble", options=options, asking=asking or {}))


def test_default_rules():
    plain = rules()

    assert (plain.ensemble, plain.vote) == (("v1", "v2", "v3"), "majority")
    assert (plain.normalise, plain.execution) == ("text", "parallel")
    assert (plain.min_responses, plain.ties, plain.weights, plain.by_confidence) == (2, "first", None, False)


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ({"ensemble": ["v1", "v2"]}, 2),
        ({"ensemble": list("abcd")}, 3),
        ({"ensemble": list("abcde"), "execution": "sequential"}, 3),
        ({"execution": "hedged", "delay_s": 1}, 1),
        ({"execution": "cascade", "threshold": 0.9}, 1),
    ],
)
def test_default_min_responses(settings, least):
    assert rules(**settings).min_responses == least


def test_weighted_vote_defaults_to_confidence():
    assert rules(vote="weighted").by_confidence
    assert rules(vote="weighted", weights="confidence") == rules(vote="weighted")
    assert rules(vote="weighted", weights=[2, 1, 0]).weights == (2.0, 1.0, 0.0)


def test_cheapest_member_is_queried_first():
    assert rules(execution="cascade", threshold=0.5, costs=[2, 1, 1]).order == (1, 2, 0)
    assert rules(execution="cascade", threshold=0.5).order == (0, 1, 2)


TWO = 'write the names of at least 2 adapters, such as ensemble = ["v1", "v2"]'
OWN = "or 'module:function' for a function of your own"
VOTES = f"did you mean 'majority'? expected 'majority', 'weighted', 'best_confidence', 'unanimous', {OWN}"
EACH = "write a list of one number for each member or 'confidence'"
INF = float("inf")
RACE = {"execution": "hedged", "delay_s": 1}
INVALID = [
    ({"ensemble": ["v1"]}, f"ensemble = ['v1']: {TWO}"),
    ({"ensemble": "v1"}, f"ensemble = 'v1': {TWO}"),
    ({"ensemble": [1, 2]}, f"ensemble = [1, 2]: {TWO}"),
    (
        {"ensemble": ["v1", "v2", "v1"]},
        "member 'v1' twice: to use one model more than once, give it adapters with different parameters",
    ),
    (
        {"votes": "majority"},
        "'votes', which is not a setting of an ensemble; expected ensemble, vote, weights, normalise, execution, threshold, "
        "delay_s, costs, min_responses, ties, seed",
    ),
    ({"asking": {"retries": 3, "limit": 2}}, "'limit', but it is an ensemble: set it in the adapters of its members"),
    ({"vote": "majorty"}, f"vote = 'majorty': {VOTES}"),
    ({"vote": ["majority"]}, f"vote = ['majority']: {VOTES}"),
    (
        {"vote": "nowhere:vote"},
        "vote = 'nowhere:vote', which cannot be imported (No module named 'nowhere'): write 'module:function' of a module on "
        "the path",
    ),
    ({"normalise": "math:pi"}, "normalise = 'math:pi', which is a number: name a function"),
    (
        {"normalise": "numeric"},
        f"normalise = 'numeric': did you mean 'number'? expected 'text', 'number', 'choice', 'json', {OWN}",
    ),
    ({"execution": "serial"}, "execution = 'serial': write one of 'parallel', 'sequential', 'hedged', 'cascade'"),
    ({"ties": "last"}, "ties = 'last': write one of 'first', 'abstain', 'random'"),
    ({"vote": "weighted", "weights": ["a", 1, 1]}, f"weights = ['a', 1, 1]: {EACH}"),
    ({"vote": "weighted", "weights": {"v1": 1}}, f"weights = {{'v1': 1}}: {EACH}"),
    ({"vote": "weighted", "weights": [True, 1, 1]}, f"weights = [True, 1, 1]: {EACH}"),
    ({"vote": "weighted", "weights": [INF, 1, 1]}, f"weights = [inf, 1, 1]: {EACH}"),
    ({"vote": "weighted", "weights": [1, 2]}, "2 weights and 3 members: write one number for each member"),
    ({"vote": "weighted", "weights": [1, -0.5, 1]}, "-0.5 among its weights: write numbers of 0 or more"),
    ({"vote": "weighted", "weights": [0, 0, 0]}, "weights that sum to 0: write at least one above 0"),
    ({"weights": [1, 2, 3]}, "weights, which need vote = 'weighted' or a function of your own"),
    (
        {"threshold": 0.5},
        "'threshold', which belongs to execution = 'sequential' or 'cascade', not 'parallel': remove it",
    ),
    ({"execution": "sequential", "threshold": 66}, "threshold = 66: write a number above 0 and up to 1"),
    (
        {"execution": "cascade"},
        "execution = 'cascade': add threshold = 0.9: the confidence from which an answer is accepted",
    ),
    (
        {"execution": "hedged"},
        "execution = 'hedged': add delay_s = 0.5: seconds after which the other members are queried, too",
    ),
    ({"execution": "hedged", "delay_s": -1}, "delay_s = -1: write seconds, 0 or more"),
    ({"costs": [1, 2, 3]}, "'costs', which belongs to execution = 'cascade', not 'parallel': remove it"),
    ({**RACE, "vote": "majority"}, "'vote', but a hedged ensemble takes the first answer: remove it"),
    ({**RACE, "min_responses": 2}, "min_responses = 2, but a hedged ensemble takes the first answer: remove it"),
    ({"min_responses": 4}, "min_responses = 4: write a whole number from 1 to its 3 members"),
    ({"min_responses": True}, "min_responses = True: write a whole number from 1 to its 3 members"),
    ({"seed": 1}, "a seed, but draws nothing: set ties = 'random', or remove it"),
    ({"ties": "random", "seed": 0.5}, "seed = 0.5: write a whole number"),
]


@pytest.mark.parametrize(("settings", "sentence"), INVALID)
def test_invalid_settings_are_refused(settings, sentence):
    with pytest.raises(SpecError) as caught:
        rules(**settings)

    assert str(caught.value) == f"adapter 'trio' has {sentence}"


def test_equal_members_are_refused():
    same = Saying("4")
    with pytest.raises(SpecError) as caught:
        make(same, "5", same)

    assert str(caught.value) == (
        "members 'v1' and 'v3' of 'trio' are the same checkpoint with the same parameters: to use one model more than once, "
        "give its adapters different parameters, such as a seed"
    )
