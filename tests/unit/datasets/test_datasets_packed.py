"""Many samples in little memory."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import record

from pytest_crucible.datasets import identify, load_rows, subset
from pytest_crucible.datasets.packed import MANY, PackedSamples, pack_if_many
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import DatasetError


def samples(count: int) -> list[Sample]:
    return [Sample(id=f"q{k}", input=f"{k}?", expected=str(k)) for k in range(count)]


@given(st.lists(record(Sample), max_size=5))
def test_what_was_packed_comes_back_equal(given_samples):
    packed = PackedSamples(given_samples)

    assert list(packed) == given_samples
    assert len(packed) == len(given_samples)


def test_it_is_a_sequence():
    packed = PackedSamples(samples(10))

    assert packed[-1].id == "q9"
    assert [one.id for one in packed[2:8:3]] == ["q2", "q5"]
    assert Sample(id="q3", input="3?", expected="3") in packed
    with pytest.raises(IndexError, match="sample 10 is out of range for 10 samples"):
        packed[10]


@pytest.mark.parametrize("given_input", [np.float64(0.5), np.str_("a"), {1, 2}, lambda: 4, threading.Lock()])
def test_inputs_keep_their_types_whatever_they_are(given_input):
    sample = PackedSamples([Sample(id="a", input=given_input)])[0]

    assert type(sample.input) is type(given_input)


def test_only_many_are_packed():
    few, many = pack_if_many(samples(MANY)), pack_if_many(samples(MANY + 1))

    assert isinstance(few, list)
    assert isinstance(many, PackedSamples)
    assert list(many) == samples(MANY + 1)


def test_many_are_identified_and_drawn_as_few_are():
    many = load_rows(samples(MANY + 5), name="sums")

    assert identify("sums", many).sha256 == identify("sums", samples(MANY + 5)).sha256
    assert list(subset(many, 7, seed=0)) == list(subset(samples(MANY + 5), 7, seed=0))
    assert isinstance(subset(many, MANY + 2, seed=0), PackedSamples)


def test_an_id_that_is_given_twice_is_found_among_many():
    given_samples = [*samples(MANY + 5), Sample(id="q17", input="again")]

    with pytest.raises(DatasetError, match=rf"^sample {MANY + 6} of sums repeats the id 'q17' of sample 18 of sums"):
        load_rows(given_samples, name="sums")
