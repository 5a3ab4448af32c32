"""Samples drawn from real Hypothesis strategies."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible import DatasetError, Sample, from_strategy
from pytest_crucible.datasets import identify, load_rows

NUMBERS = st.integers(0, 10**6)


def drawn(strategy, n: int, seed: int = 0) -> list[Sample]:
    return list(load_rows(from_strategy(strategy, n).rows(seed), name="drawn"))


def complaint(strategy, n: int = 20) -> str:
    with pytest.raises(DatasetError) as caught:
        drawn(strategy, n)
    return str(caught.value)


def test_values_are_inputs_and_all_differ():
    samples = drawn(st.integers(0, 29), 30)

    assert sorted(sample.input for sample in samples) == list(range(30))
    assert len({sample.id for sample in samples}) == 30


def test_mappings_and_samples_are_rows():
    mappings = NUMBERS.map(lambda k: {"input": f"{k} + 1", "expected": k + 1, "even": k % 2 == 0})
    samples = NUMBERS.map(lambda k: Sample(id=f"n{k}", input=k, group=str(k % 3)))

    for sample in drawn(mappings, 20):
        assert eval(sample.input) == sample.expected
        assert sample.metadata == {"even": sample.expected % 2 == 1}
    assert all(sample.id == f"n{sample.input}" for sample in drawn(samples, 20))


def test_the_seed_decides_the_samples_and_the_content_their_ids(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, same, other = (identify("x", drawn(st.text(), 20, seed)).sha256 for seed in (3, 3, 4))
    ids, other_ids = ({s.input: s.id for s in drawn(st.integers(0, 9), 10, seed)} for seed in (1, 2))

    assert first == same != other
    assert ids == other_ids
    assert drawn(NUMBERS, 10) == drawn(NUMBERS, 25)[:10]
    rows = load_rows(from_strategy(NUMBERS, 3).rows(0, id_field="key"), name="x", fields={"id": "key"})
    assert [sample.metadata for sample in rows] == [{}, {}, {}]
    assert not Path(".hypothesis", "examples").exists()


def test_profiles_and_constants_of_loaded_modules_change_nothing(tmp_path, monkeypatch):
    """Hypothesis' default generator uses the numbers that it finds in the source of modules such as the code under test."""
    before = drawn(st.integers(), 100)
    (tmp_path / "parser_of_dates.py").write_text(f"NUMBERS = {[123_456_789 + k for k in range(300)]}\n")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("parser_of_dates")
    settings.register_profile("odd", derandomize=True, database=None, max_examples=choose_examples(3))
    former = settings.get_current_profile_name()
    settings.load_profile("odd")
    try:
        assert drawn(st.integers(), 100) == before
    finally:
        settings.load_profile(former)


@pytest.mark.slow  # a process of its own
def test_another_process_draws_the_same(tmp_path):
    program = (
        "from hypothesis import strategies as st\n"
        "from pytest_crucible import from_strategy\n"
        "from pytest_crucible.datasets import identify, load_rows\n"
        "print(identify('x', load_rows(from_strategy(st.text(), 40).rows(5), name='x')).sha256)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77", "CI": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == identify("x", drawn(st.text(), 40, seed=5)).sha256


def test_the_state_of_random_is_left_alone_and_nothing_warns():
    random.seed(1)
    expected = random.Random(1).random()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn(st.lists(NUMBERS, max_size=3), 20)

    assert random.random() == expected


@pytest.mark.parametrize("n", [0, -1, 2.5, True, None])
def test_an_invalid_number_of_samples_is_an_error(n):
    assert complaint(st.text(), n) == f"from_strategy(text()) has n={n!r}: write a whole number of at least 1"


@pytest.mark.parametrize(
    ("strategy", "name", "count"),
    [
        (st.booleans(), "booleans()", 2),
        (st.nothing(), "nothing()", 0),
        (st.sampled_from("abc").filter("ab".__contains__), "sampled_from(('a', 'b', 'c')).filter(__contains__)", 2),
    ],
    ids=["few-values", "no-values", "filtered"],
)
def test_a_strategy_with_too_few_values_is_an_error(strategy, name, count):
    sentence = complaint(strategy)

    assert sentence.startswith(f"from_strategy({name}")
    assert sentence.endswith(
        f"gives only {count} distinct samples in 200 draws, and n=20: "
        "write a smaller n, or a strategy with more values or fewer filters"
    )


@pytest.mark.parametrize(
    ("strategy", "reason"),
    [
        (st.binary(), "from_strategy(binary()) drew b'', which cannot be stored (b'' of type bytes has no plain form)"),
        (
            st.just({1: "a", "b": "c"}),
            "from_strategy(just({1: 'a', 'b': 'c'})) drew {1: 'a', 'b': 'c'}, which cannot be stored "
            "('<' not supported between instances of 'str' and 'int')",
        ),
    ],
    ids=["bytes", "keys"],
)
def test_values_that_cannot_be_stored_are_errors(strategy, reason):
    assert complaint(strategy) == (
        f"{reason}: draw texts, numbers, lists and mappings with text keys, or convert values with .map(...)"
    )


@pytest.mark.parametrize(
    ("strategy", "sentence"),
    [
        ([1, 2], "from_strategy([1, 2]) is not a Hypothesis strategy: write for example from_strategy(st.text(), n=200)"),
        (st.integers(5, 1),
         "from_strategy(integers(min_value=5, max_value=1)) is not valid: Cannot have max_value=1 < min_value=5"),
    ],
)  # fmt: skip
def test_an_invalid_strategy_is_an_error(strategy, sentence):
    assert complaint(strategy) == sentence


def test_an_exception_of_the_strategy_is_raised_unchanged():
    with pytest.raises(ZeroDivisionError):
        drawn(NUMBERS.map(lambda k: k / 0), 5)


def test_without_hypothesis_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "pytest_crucible.datasets.strategy_draws", raising=False)

    assert complaint(None) == (
        "from_strategy needs Hypothesis (import of hypothesis halted; None in sys.modules): "
        'pip install "pytest-crucible[hypothesis]"'
    )
