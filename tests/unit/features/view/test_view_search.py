"""Searches in stored ids, prompts and replies, and slices of samples by their fields."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_crucible.features.view.samples import indexes
from pytest_crucible.features.view.samples.indexes import load_slices
from pytest_crucible.features.view.samples.search import AbandonedError, find_samples
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Sample
from pytest_crucible.store.runs import RunStore
from tests.stored_samples import Answer, store_samples

# With quotes, wildcards, escapes of JSON and letters whose case only Unicode has.
TEXT = st.text(alphabet="aAbB %_\\\"'\n\u00e9\u00c9\u4f60/", max_size=6)
PROMPT = st.one_of(TEXT, st.builds(lambda text: [{"role": "user", "content": text}], TEXT))


def find(path, text: str) -> list[int]:
    with contextlib.closing(RunStore(str(path))) as store:
        key, plan, _ = store.all_experiments("run")[0]
        matches = find_samples(store, key, plan, text, plan.planned)
    return [position for position, matched in enumerate(matches.tolist()) if matched]


@given(
    st.lists(st.tuples(PROMPT, TEXT, TEXT), min_size=1, max_size=4),
    st.text(alphabet='aAb %_\\"\n\u00e9\u4f60', max_size=3),
)
@settings(max_examples=40)
def test_a_search_finds_what_python_finds_whatever_the_case(tmp_path_factory, rows, needle):
    path = tmp_path_factory.mktemp("search") / "runs.db"
    samples = [Sample(id=f"s{k}", input=prompt) for k, (prompt, _, _) in enumerate(rows)]
    arms = {name: [Answer(text=row[1 + arm]) for row in rows] for arm, name in enumerate(("v2", "v1"))}
    store_samples(path, samples, arms)

    def texts(k: int) -> list[str]:
        prompt, *replies = rows[k]
        of_prompt = [prompt] if isinstance(prompt, str) else ["role", "user", "content", prompt[0]["content"]]
        return [f"s{k}", *of_prompt, *replies]

    naive = [k for k in range(len(rows)) if any(needle.lower() in text.lower() for text in texts(k))]
    assert find(path, needle) == naive


def test_wildcards_and_quotes_mean_themselves(tmp_path):
    replies = ["100 %", "100", 'say "x"', "a_b", "axb", "x' OR '1'='1"]
    store_samples(
        tmp_path / "a.db",
        [Sample(id=str(k), input="?") for k in range(6)],
        {"v2": [Answer(text=text) for text in replies]},
    )

    positions = {needle: find(tmp_path / "a.db", needle) for needle in ("%", "_", '"X"', "' or '", "\\")}

    assert positions == {"%": [0], "_": [3], '"X"': [2], "' or '": [5], "\\": []}


def test_long_replies_and_all_repeats_are_searched(tmp_path):
    repeats = [[Answer(text="short"), Answer(text="x" * 5_000 + " Needle")], [Answer(text="y" * 5_000), Answer()]]
    store_samples(tmp_path / "a.db", [Sample(id=str(k), input="?") for k in range(2)], {"v2": repeats}, repeats=2)

    assert find(tmp_path / "a.db", "needle") == [0]


def test_a_search_that_nothing_waits_for_ends(tmp_path):
    samples = [Sample(id=str(k), input="?") for k in range(3)]
    store_samples(tmp_path / "a.db", samples, {"v2": [Answer()] * 3})

    with contextlib.closing(RunStore(str(tmp_path / "a.db"))) as store:
        key, plan, _ = store.all_experiments("run")[0]
        for text in ("reply", "absent"):
            with pytest.raises(AbandonedError):
                find_samples(store, key, plan, text, 3, lambda: True)


def load(path):
    with contextlib.closing(RunStore(str(path))) as store:
        _, plan, _ = store.all_experiments("run")[0]
        return load_slices(store, plan)


@pytest.mark.parametrize("part", [2, 5_000])
def test_each_field_with_few_values_is_a_slicing(tmp_path, monkeypatch, part):
    monkeypatch.setattr(indexes, "_PART", part)
    topics = ["law", None, "art", "law", "tax"]
    samples = [
        Sample(
            id=str(k), input="?", expected={"length": k % 2}, metadata={"topic": topic} if topic else {"late": 10 - k}
        )
        for k, topic in enumerate(topics)
    ]
    store_samples(tmp_path / "a.db", samples, {"v2": [Answer()] * 5})

    fields = load(tmp_path / "a.db")

    assert {name: labels.names for name, labels in fields.items()} == {
        "topic": ("art", "law", "tax"),
        "length": ("0", "1"),
    }
    assert fields["topic"].codes.tolist() == [1, -1, 0, 1, 2]
    assert fields["length"].flag("1").tolist() == [False, True, False, True, False]


def test_slices_of_the_plan_come_first_with_its_cuts(tmp_path):
    samples = [Sample(id=str(k), input="?", metadata={"words": k, "topic": "ab"[k % 2]}) for k in range(6)]
    targets = (parse_target("gap(m by words(3)) <= 0.1"),)
    store_samples(tmp_path / "a.db", samples, {"v2": [Answer()] * 6}, targets=targets)

    fields = load(tmp_path / "a.db")

    assert list(fields) == ["words(3)", "words", "topic"]
    assert fields["words(3)"].names == ("below 3", "3 and above")
    assert fields["words(3)"].codes.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_field_with_a_value_for_each_sample_is_no_slicing(tmp_path):
    samples = [Sample(id=str(k), input="?", metadata={"key": k, "kind": k % 3}) for k in range(250)]
    store_samples(tmp_path / "a.db", samples, {"v2": [Answer()] * 250})

    assert list(load(tmp_path / "a.db")) == ["kind"]
