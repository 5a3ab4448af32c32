"""Answers that already exist: what is read, and every way in which they can be wrong."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import pytest
from adapter_contexts import context_in

from pytest_crucible import BackendError, DatasetError, Reply, Request
from pytest_crucible.adapters.kinds import open_recorded
from pytest_crucible.backends import load_recorded, recorded_rows
from pytest_crucible.records import Adapter

ROWS = [
    {"sample_id": "a", "text": "4", "output_tokens": 1, "input_tokens": 5, "latency_s": 0.25},
    {"sample_id": "b", "text": "cut of", "finish": "length"},
    {"sample_id": "a", "text": "four"},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "v2.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return path


def ask(backend, sample: str, repeat: int = 0) -> Reply:
    return asyncio.run(backend.generate(Request(input="", sample=sample, repeat=repeat)))


def complaint(load, *arguments, **options) -> str:
    with pytest.raises(DatasetError) as caught:
        load(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("sample", "repeat", "reply"),
    [
        ("a", 0, Reply(text="4", output_tokens=1, input_tokens=5, latency_s=0.25)),
        ("a", 1, Reply(text="four")),
        ("b", 0, Reply(text="cut of", finish="length")),
    ],
    ids=["first", "repeat", "cut"],
)
def test_recorded_reply_has_all_fields(path, sample, repeat, reply):
    assert ask(load_recorded(path), sample, repeat) == reply


def test_identity_covers_the_rows_only(path):
    packed, copy = path.with_name("v2.jsonl.gz"), path.with_name("copy.jsonl")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    copy.write_bytes(path.read_bytes())
    backends = [load_recorded(path), load_recorded(packed), load_recorded(copy), recorded_rows(iter(ROWS), name="v2")]

    assert len({backend.identity for backend in backends}) == 1
    assert [backend.samples() for backend in backends] == [{"a", "b"}] * 4
    assert ask(backends[1], "b").text == "cut of"


def test_sample_id_can_be_a_number():
    assert ask(recorded_rows([{"sample_id": 7, "text": "4"}], name="v2"), "7").text == "4"


@pytest.mark.parametrize(
    ("sample", "repeat", "sentence"),
    [
        ("c", 0, "v2.jsonl has no reply to sample 'c'"),
        (
            "a",
            2,
            "v2.jsonl has 2 rows for sample 'a', and repeat 3 needs a row of its own: add it, or run fewer repeats",
        ),
    ],
    ids=["sample", "repeat"],
)
def test_missing_reply_is_an_error(path, sample, repeat, sentence):
    with pytest.raises(BackendError) as caught:
        ask(load_recorded(path), sample, repeat)

    assert str(caught.value) == sentence


def test_missing_and_empty_files_are_refused(tmp_path):
    path = tmp_path / "v3.jsonl"
    name = f"recorded replies {str(path)!r}"

    assert complaint(load_recorded, path) == f"{name} does not exist: give the path of a .jsonl file"
    path.touch()
    assert complaint(load_recorded, path) == f"{name} is empty: write one JSON object per line"


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"text": "4"}, "has no 'sample_id': recorded replies need 'sample_id' and 'text'"),
        ({"sample_id": None, "text": "4"}, "has no 'sample_id': recorded replies need 'sample_id' and 'text'"),
        ({"sample_id": "c"}, "has no 'text': recorded replies need 'sample_id' and 'text'"),
        ({"sample_id": "c", "text": 4}, "has a number as its 'text': write a string"),
        (
            {"sample_id": "c", "text": "4", "input_tokens": 2**63},
            f"has input_tokens {2**63}: expected a whole number from 0, or None",
        ),
        ({"sample_id": "c", "text": "4", "latency_s": "1 s"}, "has latency_s '1 s': expected a number from 0, or None"),
        (
            {"sample_id": "c", "text": "4", "cost_usd": "0.1"},
            "has cost_usd '0.1': write US dollars as a number, or leave it out",
        ),
        (
            {"sample_id": "c", "text": "4", "logprobs": [float("nan")]},
            "has logprobs [nan]: write a list of numbers, one a token, or leave it out",
        ),
    ],
    ids=["no-id", "null-id", "no-text", "text-number", "tokens", "latency", "cost", "logprobs"],
)
def test_invalid_row_is_named(path, row, sentence):
    with path.open("a") as file:
        file.write(f"{json.dumps(row)}\n")

    assert complaint(load_recorded, path) == f"line 4 of {path} {sentence}"
    assert complaint(recorded_rows, [*ROWS, row], name="v2") == f"row 4 of v2 {sentence}"


def test_infinite_logprob_is_valid(path):
    with path.open("a") as file:
        file.write('{"sample_id": "c", "text": "4", "logprobs": [-0.5, -Infinity]}\n')

    assert load_recorded(path).identity


def test_path_is_relative_to_the_configuration(path):
    adapter = Adapter(name="v2", backend="recorded", options={"path": path.name})

    assert ask(open_recorded(adapter, context_in(path.parent)), "a").text == "4"
