"""Records survive the way through JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from types import MappingProxyType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples
from strategies import RECORDS, plain_values, record

from pytest_crucible.records import MetricFacts, Reply, Sample, Verdict
from pytest_crucible.records.serialize import FORMER_NAME, canonical, from_plain, to_plain


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=choose_examples(20), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_record_comes_back_equal(kind, data):
    sent = data.draw(record(kind))

    received = from_plain(kind, json.loads(json.dumps(to_plain(sent), allow_nan=False)))

    assert received == sent
    assert [type(getattr(received, field.name)) for field in fields(kind)] == [
        type(getattr(sent, field.name)) for field in fields(kind)
    ]


@pytest.mark.parametrize(("number", "word"), [(math.inf, "inf"), (-math.inf, "-inf"), (math.nan, "nan")])
def test_a_number_that_json_lacks_is_said_in_a_word(number, word):
    assert to_plain({"x": [number]}) == {"x": [word]}


def test_an_infinite_bound_is_read_as_a_number():
    facts = from_plain(MetricFacts, {"name": "tokens", "low": 0, "high": "inf"})

    assert (facts.low, facts.high) == (0.0, math.inf)
    assert type(facts.low) is float


def test_fields_that_are_absent_get_their_defaults():
    assert from_plain(Sample, {"id": "a", "input": 1}) == Sample(id="a", input=1)


def test_fields_of_a_newer_version_are_ignored():
    assert from_plain(Sample, {"id": "a", "input": 1, "mood": "good"}) == Sample(id="a", input=1)


def test_keys_become_strings():
    assert to_plain({1: "one"}) == {"1": "one"}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (b"x", "b'x' of type bytes has no plain form"),
        (1j, "1j of type complex has no plain form"),
        (Verdict, "<class 'pytest_crucible.records.results.Verdict'> of type type has no plain form"),
    ],
    ids=["bytes", "complex", "class"],
)
def test_what_json_cannot_say_is_refused_however_deep_it_lies(value, sentence):
    with pytest.raises(TypeError) as caught:
        to_plain(Reply(text="", value=[{"x": value}]))

    assert str(caught.value) == sentence


@given(st.dictionaries(st.text(max_size=3), plain_values, max_size=4))
def test_the_order_of_keys_does_not_change_the_canonical_text(mapping):
    assert canonical(dict(reversed(mapping.items()))) == canonical(mapping)
    assert json.loads(canonical(mapping)) == mapping


def test_a_record_and_its_fields_have_one_canonical_text():
    assert canonical([MappingProxyType({"x": Sample(id="a", input=(1, 2))})]) == (
        '[{"x":{"expected":null,"group":null,"id":"a","input":[1,2],"metadata":{},"variants":{}}}]'
    )


@pytest.mark.parametrize("value", [b"x", 1j, Verdict, {1, 2}, {"a": 1, 2: 3}], ids=repr)
def test_what_json_cannot_say_has_no_canonical_text(value):
    with pytest.raises(TypeError):
        canonical({"deep": [value]})


def test_what_contains_itself_has_no_canonical_text():
    loop: list[object] = []
    loop.append(loop)

    with pytest.raises(TypeError, match="a list has no plain form"):
        canonical(loop)


def test_a_field_is_read_under_the_name_that_earlier_versions_stored():
    @dataclass(frozen=True)
    class Renamed:
        repeats: int = field(metadata={FORMER_NAME: "epochs"})

    assert from_plain(Renamed, {"epochs": 3}) == from_plain(Renamed, {"repeats": 3}) == Renamed(repeats=3)
    assert to_plain(Renamed(repeats=3)) == {"repeats": 3}
