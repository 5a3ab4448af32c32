"""The reply of an ensemble, its events, and its identity."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import types

import pytest
from ensemble_members import ASKED, Saying, make, sure

from pytest_crucible import Backend, BackendError, SpecError
from pytest_crucible.backends import KnowsItsSamples, recorded_rows
from pytest_crucible.features.ensembles.ensemble import Member, make_ensemble
from pytest_crucible.features.ensembles.settings import read_rules
from pytest_crucible.records import Adapter, Reply


def ask(trio, request=ASKED):
    return asyncio.run(trio.generate(request))


def paid_reply(text, **facts):
    return Reply(text=text, **{"input_tokens": 10, "output_tokens": 2, "cost_usd": 0.5, "latency_s": 1.0, **facts})


@pytest.fixture
def mine(monkeypatch):
    """A module of a user's own rules."""
    module = types.ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", module)
    return module


def test_reply_is_the_winners_text_with_all_members():
    reply = ask(make(paid_reply("It is 4."), paid_reply("5"), paid_reply("4.0", latency_s=2.0), normalise="number"))

    assert (reply.text, reply.model, reply.finish) == ("It is 4.", "trio", "stop")
    assert (reply.input_tokens, reply.output_tokens, reply.cost_usd, reply.latency_s) == (30, 6, 1.5, 2.0)
    assert {name: (member.text, member.value) for name, member in reply.members.items()} == {
        "v1": ("It is 4.", "4"), "v2": ("5", "5"), "v3": ("4.0", "4"),
    }  # fmt: skip
    assert reply.consensus == pytest.approx(2 / 3)


def test_members_are_not_streamed():
    member = Saying("4")
    ask(make(member, "4"), dataclasses.replace(ASKED, open_stream=lambda: print))

    assert member.requests[0].open_stream is None


def test_reasoning_does_not_vote():
    reply = ask(make("<think>5?</think>4", "<think>4</think>5", "<think>Let me see</think>\n4"))

    assert {name: member.value for name, member in reply.members.items()} == {"v1": "4", "v2": "5", "v3": "4"}
    assert reply.consensus == pytest.approx(2 / 3)


@pytest.mark.parametrize("missing", ["input_tokens", "output_tokens", "cost_usd"])
def test_sum_with_an_unknown_part_is_unknown(missing):
    reply = ask(make(paid_reply("4"), paid_reply("4", **{missing: None}), paid_reply("4")))

    is_known = {name: getattr(reply, name) is not None for name in ("input_tokens", "output_tokens", "cost_usd")}
    assert is_known == {name: name != missing for name in is_known}


def test_reply_is_cached_when_all_members_are():
    assert ask(make(paid_reply("4", cached=True), paid_reply("4", cached=True))).cached
    assert not ask(make(paid_reply("4", cached=True), paid_reply("4"))).cached


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_truncated_and_filtered_replies_abstain(finish):
    reply = ask(make(Reply(text="4", finish=finish), Reply(text="4", finish=finish), "5"))

    assert (reply.text, reply.consensus, reply.finish) == ("5", 1.0, "stop")
    assert reply.members["v1"].value is None


@pytest.mark.parametrize(
    ("replies", "settings", "finish", "consensus"),
    [
        (["", " ", "\n"], {}, "abstained", 0.0),
        (["a", "b"], {"ties": "abstain"}, "tied", 0.5),
        (["a", "b", "a"], {"vote": "unanimous"}, "divided", 2 / 3),
    ],
)
def test_reply_without_a_winner_is_empty_with_a_reason(replies, settings, finish, consensus):
    reply = ask(make(*replies, **settings))

    assert (reply.text, reply.finish, len(reply.members)) == ("", finish, len(replies))
    assert reply.consensus == pytest.approx(consensus)


def test_abstentions_do_not_outvote_an_answer():
    assert ask(make("no idea", "none", "42.0", normalise="number")).text == "42.0"


def test_weights_apply_by_position():
    assert ask(make("a", "b", "b", vote="weighted", weights=[3, 1, 1])).text == "a"
    assert ask(make(sure("a", -0.1), sure("b", -1.0), sure("b", -2.0), vote="weighted")).text == "a"


def test_request_parameters_override_member_parameters():
    backend = Saying("4")
    member = Member(name="v1", backend=backend, parameters={"temperature": 1.0, "seed": 7})
    rules = read_rules(Adapter(name="duo", backend="ensemble", options={"ensemble": ["v1", "v2"]}))
    ask(make_ensemble("duo", [member, Member(name="v2", backend=Saying("5"))], rules, [].append))

    assert backend.requests == [dataclasses.replace(ASKED, parameters={"temperature": 0.0, "seed": 7}, member="v1")]


def test_member_with_an_invalid_reply_is_lost():
    with pytest.raises(BackendError, match=r"the backend of 'v1' returned a number: generate\(\) must return a Reply"):
        ask(make(Saying(4), Saying("4"), min_responses=2))


def test_random_ties_are_reproducible_by_sample():
    trio = make("a", "b", ties="random", seed=3)
    requests = [dataclasses.replace(ASKED, sample=f"q{k}") for k in range(40)]
    texts = [ask(trio, request).text for request in requests]

    assert texts == [ask(make("b", "a", ties="random", seed=3), request).text for request in requests]
    assert set(texts) == {"a", "b"}


# -- own rules ------------------------------------------------------------------------------------------------------


def test_user_functions_normalise_and_vote(mine):
    mine.first_word = lambda text: text.split()[0] if text else None
    mine.shortest = lambda cast: min((ballot.answer for ballot in cast), key=len)
    reply = ask(make("long story", "so it is", "", normalise="mine:first_word", vote="mine:shortest"))

    assert (reply.text, reply.members["v1"].value, reply.members["v3"].value) == ("so it is", "long", None)


def test_user_normaliser_must_return_text(mine):
    mine.length = len
    with pytest.raises(
        BackendError, match="normaliser 'mine:length' returned a number: return a string, or None to abstain"
    ):
        ask(make("a", "b", normalise="mine:length"))


def test_user_vote_sees_weights(mine):
    mine.heaviest = lambda cast: max(cast, key=lambda ballot: ballot.weight).answer

    assert ask(make("a", "b", "c", vote="mine:heaviest", weights=[1, 3, 2])).text == "b"


# -- identity -------------------------------------------------------------------------------------------------------


def test_ensemble_is_simulated_if_any_member_is():
    simulated = Saying("5")
    simulated.simulated = True

    assert isinstance(make("4", "5"), Backend)
    assert (make("4", "5").simulated, make("4", simulated).simulated) == (False, True)


@pytest.mark.parametrize(
    "settings",
    [
        {"vote": "unanimous"},
        {"vote": "weighted", "weights": [1, 2, 3]},
        {"normalise": "number"},
        {"execution": "sequential"},
        {"min_responses": 1},
        {"ties": "abstain"},
        {"ties": "random", "seed": 1},
    ],
    ids=str,
)
def test_identity_covers_every_rule(settings):
    assert make("4", "5", "6", **settings).identity != make("4", "5", "6").identity


def test_identity_covers_members_and_parameters(mine):
    same = [Saying("4", identity=name) for name in ("one", "two")]
    rules = read_rules(Adapter(name="duo", backend="ensemble", options={"ensemble": ["v1", "v2"]}))

    def identity(**parameters):
        members = [Member(name=f"v{k}", backend=backend, parameters=parameters) for k, backend in enumerate(same, 1)]
        return make_ensemble("duo", members, rules, [].append).identity

    assert identity(seed=1) == identity(seed=1) != identity(seed=2)
    assert make(*same).identity == make(*same).identity != make(*reversed(same)).identity


def test_identity_covers_source_of_user_functions(mine):
    def identity(constant):
        mine.read = lambda text: f"{text}{constant}"
        return make("4", "5", normalise="mine:read").identity

    assert identity(1) == identity(1) != identity(2)


# -- the event ------------------------------------------------------------------------------------------------------


def test_vote_event_names_its_unit():
    events = []
    ask(make("4", "", Saying(BackendError("gone")), "5", "4", events=events, execution="sequential"))
    [event] = events

    assert (event.name, event.experiment, event.arm, event.sample, event.repeat) == ("vote", "test_it", "trio", "q1", 0)
    assert event.facts == {
        "winner": "4", "member": "v1", "counts": {"4": 2.0, "5": 1.0}, "consensus": 2 / 3, "tie": False,
        "abstentions": ["v2"], "queried": ["v1", "v2", "v3", "v4", "v5"], "lost": ["v3"], "stopped_early": False,
    }  # fmt: skip


def test_vote_event_reports_early_stop():
    events = []
    ask(make("4", "4", "5", events=events, execution="sequential"))

    assert (events[0].facts["queried"], events[0].facts["stopped_early"]) == (["v1", "v2"], True)


def test_vote_event_without_winner():
    events = []
    ask(make("a", "b", events=events, ties="abstain"))

    assert [events[0].facts[name] for name in ("winner", "member", "tie", "consensus")] == [None, None, True, 0.5]


# -- members that read files ------------------------------------------------------------------------------------------


def listing(*samples, name):
    return recorded_rows([{"sample_id": sample, "text": name} for sample in samples], name=name)


@pytest.mark.parametrize(("least", "samples"), [(1, {"a", "b", "c"}), (2, {"a", "b"}), (3, {"a"})])
def test_recorded_ensemble_lists_samples_of_enough_members(least, samples):
    trio = make(
        listing("a", "b", name="1"), listing("a", "b", "c", name="2"), listing("a", name="3"), min_responses=least
    )

    assert isinstance(trio, KnowsItsSamples)
    assert trio.samples() == samples


@pytest.mark.parametrize(("least", "listed"), [(1, None), (2, {"a", "b"}), (3, {"a"})])
def test_live_member_counts_for_every_sample(least, listed):
    trio = make(listing("a", "b", name="1"), listing("a", name="2"), "anything", min_responses=least)

    assert (trio.samples() if isinstance(trio, KnowsItsSamples) else None) == listed


def test_ensembles_can_be_members():
    inner = make("4", "5", "5")
    reply = ask(make(inner, "4", "5"))

    assert reply.text == "5"
    assert list(reply.members["v1"].members) == ["v1", "v2", "v3"]


def test_equal_nested_ensembles_are_refused():
    with pytest.raises(SpecError, match="are the same checkpoint"):
        make(make("4", "5"), make("4", "5"))
