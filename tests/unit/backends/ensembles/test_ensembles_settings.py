"""Settings of an ensemble: what they mean, and one sentence for what they cannot mean."""

from __future__ import annotations

import pytest
from ensemble_members import Saying, make

from pytest_crucible import SpecError
from pytest_crucible.backends.ensembles.settings import read_rules
from pytest_crucible.records import Adapter


def rules(asking=None, **settings):
    options = {"ensemble": ["v1", "v2", "v3"], **settings}
    return read_rules(Adapter(name="trio", backend="ensemble", options=options, asking=asking or {}))


def refusal(**settings):
    with pytest.raises(SpecError) as caught:
        rules(**settings)
    return str(caught.value)


def test_default_rules():
    plain = rules()

    assert (plain.ensemble, plain.vote, plain.normalise, plain.execution) == (
        ("v1", "v2", "v3"),
        "majority",
        "text",
        "parallel",
    )
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


MISTAKES = {
    "one member": (
        {"ensemble": ["v1"]},
        "adapter 'trio' has ensemble = ['v1']: write the names of at least 2 adapters, such as ensemble = [\"v1\", \"v2\"]",
    ),
    "a name": (
        {"ensemble": "v1"},
        "adapter 'trio' has ensemble = 'v1': write the names of at least 2 adapters, such as ensemble = [\"v1\", \"v2\"]",
    ),
    "numbers": (
        {"ensemble": [1, 2]},
        'adapter \'trio\' has ensemble = [1, 2]: write the names of at least 2 adapters, such as ensemble = ["v1", "v2"]',
    ),
    "twice": (
        {"ensemble": ["v1", "v2", "v1"]},
        "adapter 'trio' has member 'v1' twice: to use one model more than once, give it adapters with different parameters",
    ),
    "setting": (
        {"votes": "majority"},
        "adapter 'trio' has 'votes', which is not a setting of an ensemble; expected ensemble, vote, weights, normalise, "
        "execution, threshold, delay_s, costs, min_responses, ties, seed",
    ),
    "asking": (
        {"asking": {"retries": 3, "limit": 2}},
        "adapter 'trio' has 'limit', but it is an ensemble: set it in the adapters of its members",
    ),
    "vote": (
        {"vote": "majorty"},
        "adapter 'trio' has vote = 'majorty': did you mean 'majority'? expected 'majority', 'weighted', "
        "'best_confidence', 'unanimous', or 'module:function' for a function of your own",
    ),
    "vote of another kind": (
        {"vote": ["majority"]},
        "adapter 'trio' has vote = ['majority']: did you mean 'majority'? expected 'majority', 'weighted', "
        "'best_confidence', 'unanimous', or 'module:function' for a function of your own",
    ),
    "own vote": (
        {"vote": "nowhere:vote"},
        "adapter 'trio' has vote = 'nowhere:vote', which cannot be imported (No module named 'nowhere'): write "
        "'module:function' of a module on the path",
    ),
    "own that is none": (
        {"normalise": "math:pi"},
        "adapter 'trio' has normalise = 'math:pi', which is a number: name a function",
    ),
    "normaliser": (
        {"normalise": "numeric"},
        "adapter 'trio' has normalise = 'numeric': did you mean 'number'? expected 'text', 'number', 'choice', 'json', or "
        "'module:function' for a function of your own",
    ),
    "execution": (
        {"execution": "serial"},
        "adapter 'trio' has execution = 'serial': write one of 'parallel', 'sequential', 'hedged', 'cascade'",
    ),
    "ties": ({"ties": "last"}, "adapter 'trio' has ties = 'last': write one of 'first', 'abstain', 'random'"),
    "weights that are words": (
        {"vote": "weighted", "weights": ["a", 1, 1]},
        "adapter 'trio' has weights = ['a', 1, 1]: write a list of one number for each member or 'confidence'",
    ),
    "weights by name": (
        {"vote": "weighted", "weights": {"v1": 1}},
        "adapter 'trio' has weights = {'v1': 1}: write a list of one number for each member or 'confidence'",
    ),
    "weights that are flags": (
        {"vote": "weighted", "weights": [True, 1, 1]},
        "adapter 'trio' has weights = [True, 1, 1]: write a list of one number for each member or 'confidence'",
    ),
    "weights without end": (
        {"vote": "weighted", "weights": [float("inf"), 1, 1]},
        "adapter 'trio' has weights = [inf, 1, 1]: write a list of one number for each member or 'confidence'",
    ),
    "too few weights": (
        {"vote": "weighted", "weights": [1, 2]},
        "adapter 'trio' has 2 weights and 3 members: write one number for each member",
    ),
    "negative weight": (
        {"vote": "weighted", "weights": [1, -0.5, 1]},
        "adapter 'trio' has -0.5 among its weights: write numbers of 0 or more",
    ),
    "no weight": (
        {"vote": "weighted", "weights": [0, 0, 0]},
        "adapter 'trio' has weights that sum to 0: write at least one above 0",
    ),
    "weights of a majority": (
        {"weights": [1, 2, 3]},
        "adapter 'trio' has weights, which need vote = 'weighted' or a function of your own",
    ),
    "threshold elsewhere": (
        {"threshold": 0.5},
        "adapter 'trio' has 'threshold', which belongs to execution = 'sequential' or 'cascade', not 'parallel': remove it",
    ),
    "threshold": (
        {"execution": "sequential", "threshold": 66},
        "adapter 'trio' has threshold = 66: write a number above 0 and up to 1",
    ),
    "no threshold": (
        {"execution": "cascade"},
        "adapter 'trio' has execution = 'cascade': add threshold = 0.9: the confidence from which an answer is accepted",
    ),
    "no delay": (
        {"execution": "hedged"},
        "adapter 'trio' has execution = 'hedged': add delay_s = 0.5: seconds after which the other members are queried, too",
    ),
    "delay": ({"execution": "hedged", "delay_s": -1}, "adapter 'trio' has delay_s = -1: write seconds, 0 or more"),
    "costs elsewhere": (
        {"costs": [1, 2, 3]},
        "adapter 'trio' has 'costs', which belongs to execution = 'cascade', not 'parallel': remove it",
    ),
    "vote in a race": (
        {"execution": "hedged", "delay_s": 1, "vote": "majority"},
        "adapter 'trio' has 'vote', but a hedged ensemble takes the first answer: remove it",
    ),
    "responses in a race": (
        {"execution": "hedged", "delay_s": 1, "min_responses": 2},
        "adapter 'trio' has min_responses = 2, but a hedged ensemble takes the first answer: remove it",
    ),
    "too many responses": (
        {"min_responses": 4},
        "adapter 'trio' has min_responses = 4: write a whole number from 1 to its 3 members",
    ),
    "flag as a number": (
        {"min_responses": True},
        "adapter 'trio' has min_responses = True: write a whole number from 1 to its 3 members",
    ),
    "seed of nothing": ({"seed": 1}, "adapter 'trio' has a seed, but draws nothing: set ties = 'random', or remove it"),
    "seed": ({"ties": "random", "seed": 0.5}, "adapter 'trio' has seed = 0.5: write a whole number"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_invalid_settings_are_refused(mistake):
    settings, sentence = MISTAKES[mistake]

    assert refusal(**settings) == sentence


def test_equal_members_are_refused():
    same = Saying("4")
    with pytest.raises(SpecError) as caught:
        make(same, "5", same)

    assert str(caught.value) == (
        "members 'v1' and 'v3' of 'trio' are the same checkpoint with the same parameters: to use one model more than once, "
        "give its adapters different parameters, such as a seed"
    )
