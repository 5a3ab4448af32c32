"""Scoring models: batches, labels, precision, and files that are safe to load."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_tables import read_table

from pytest_crucible.metrics.models.local import MAY_FAIL, PLAIN, Batched, check_direction, find_labels, has_bfloat16
from pytest_crucible.metrics.models.scorers import Entailment
from pytest_crucible.metrics.models.weights import check_model_files, digest
from pytest_crucible.records.errors import SpecError


class Doubling:
    """Doubles numbers, and notes what it was given at a time; -1 breaks it."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __call__(self, numbers):
        self.batches.append(list(numbers))
        if -1 in numbers:
            raise ValueError("no number")
        return [2 * number for number in numbers]


def test_concurrent_questions_are_computed_once_in_one_batch():
    model = Doubling()
    ask = Batched(model, batch_size=100)

    async def several():
        return await asyncio.gather(*(ask([k, k + 1]) for k in range(10)))

    assert asyncio.run(several()) == [[2 * k, 2 * k + 2] for k in range(10)]
    assert sorted(number for batch in model.batches for number in batch) == list(range(11))
    assert len(model.batches) == 1


def test_batches_have_at_most_their_size():
    model = Doubling()

    assert asyncio.run(Batched(model, batch_size=4)(range(10))) == [2 * k for k in range(10)]
    assert [len(batch) for batch in model.batches] == [4, 4, 2]


def test_answers_are_cached_across_event_loops():
    model = Doubling()
    ask = Batched(model, batch_size=4)

    assert [asyncio.run(ask([1, 1, 2])), asyncio.run(ask([2, 1]))] == [[2, 2, 4], [4, 2]]
    assert model.batches == [[1, 2]]


def test_an_error_reaches_its_batch_only():
    ask = Batched(Doubling(), batch_size=4)

    with pytest.raises(ValueError, match="no number"):
        asyncio.run(ask([-1, 1]))
    assert asyncio.run(ask([1])) == [2]


def test_a_cancelled_question_does_not_cancel_others():
    async def one_leaves():
        ask = Batched(Doubling(), batch_size=4)
        leaving, staying = asyncio.create_task(ask([7])), asyncio.create_task(ask([7]))
        await asyncio.sleep(0)
        leaving.cancel()
        return await staying

    assert asyncio.run(one_leaves()) == [14]


SURE = {True: Entailment(0.9, 0.05, 0.05), False: Entailment(0.05, 0.05, 0.9)}


@pytest.mark.parametrize("order", list(itertools.permutations(["entailment", "NEUTRAL", "Contradiction"])))
def test_labels_are_found_in_any_order_and_case(order):
    places = find_labels(dict(enumerate(order)), "m")

    assert [order[place].lower() for place in places] == ["entailment", "neutral", "contradiction"]


@pytest.mark.parametrize(
    "labels",
    [
        ["LABEL_0", "LABEL_1", "LABEL_2"],
        ["entailment", "not_entailment"],
        ["entailment", "neutral", "contradiction", "other"],
        ["entailment", "entails", "neutral"],
        [],
    ],
)
def test_unclear_labels_are_errors(labels):
    with pytest.raises(SpecError, match=r"use a model whose config\.json names entailment, neutral and contradiction"):
        find_labels(dict(enumerate(labels)), "m")


def test_a_model_may_fail_one_plain_pair_but_not_two():
    right = [SURE[entails] for *_, entails in PLAIN]
    check_direction(right, "m")
    check_direction([SURE[False], *right[1:]], "m")
    assert MAY_FAIL == 1

    with pytest.raises(
        SpecError, match=r"takes 2 of 6 plain pairs for their opposite \(first: 'A man is eating pizza\.'"
    ):
        check_direction([SURE[False], SURE[False], *right[2:]], "m")


def test_the_digest_depends_on_content_and_not_on_the_folder(tmp_path):
    digests = {}
    for name, weights in {"one": b"1", "same": b"1", "other": b"2"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(weights)
        (tmp_path / name / "config.json").write_text("{}")
        digests[name] = digest(tmp_path / name)

    assert digests["one"] == digests["same"] != digests["other"]


def test_an_unknown_processor_has_no_bfloat16(tmp_path):
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu avx2 avx512_bf16 sse\n")

    assert has_bfloat16(tmp_path / "cpuinfo")
    assert not has_bfloat16(tmp_path / "nothing")


TRANSFORMER = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}


def write(directory: Path, files: dict[str, Any]) -> Path:
    for name, content in {"model.safetensors": "weights", **files}.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return directory


def module(kind: Any, path: str = "2_More") -> dict[str, Any]:
    return {"idx": 2, "name": "2", "path": path, "type": kind}


@pytest.mark.parametrize("row", read_table("model_files"))
def test_a_model_that_names_code_or_is_pickled_is_refused(tmp_path, row):
    directory = write(tmp_path, row["files"])

    if row["message"]:
        with pytest.raises(SpecError) as raised:
            check_model_files(directory)
        assert row["message"] in str(raised.value)
    else:
        check_model_files(directory)


@given(
    kind=st.text() | st.none() | st.integers() | st.from_regex(r"[a-z_]{1,20}(\.[A-Za-z_]{1,10}){0,3}", fullmatch=True)
)
def test_module_types_of_other_packages_are_errors(tmp_path_factory, kind):
    directory = write(tmp_path_factory.mktemp("model"), {"modules.json": [module(kind)]})

    with pytest.raises(SpecError):
        check_model_files(directory)


def test_weights_and_configurations_of_modules_are_part_of_the_hash(tmp_path):
    first = digest(write(tmp_path, {"modules.json": [TRANSFORMER]}))
    second = digest(write(tmp_path, {"2_More/model.safetensors": "a"}))
    third = digest(write(tmp_path, {"2_More/model.safetensors": "b"}))
    fourth = digest(write(tmp_path, {"2_More/router_config.json": {}}))

    assert len({first, second, third, fourth}) == 4
