"""Labels are found by name, and a model that means the opposite is refused; its files are what it is."""

from __future__ import annotations

import itertools

import pytest

from pytest_crucible.metrics.models.batched import has_bfloat16
from pytest_crucible.metrics.models.nli import MAY_FAIL, PLAIN, check_direction, find_labels
from pytest_crucible.metrics.models.scorers import Entailment
from pytest_crucible.metrics.models.weights import digest
from pytest_crucible.records.errors import SpecError

SURE = {True: Entailment(0.9, 0.05, 0.05), False: Entailment(0.05, 0.05, 0.9)}


@pytest.mark.parametrize("order", list(itertools.permutations(["entailment", "NEUTRAL", "Contradiction"])))
def test_labels_are_found_in_any_order_and_case(order):
    found = find_labels(dict(enumerate(order)), "m")

    assert [order[place].lower() for place in found] == ["entailment", "neutral", "contradiction"]


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
def test_labels_that_do_not_say_what_they_mean_are_refused(labels):
    with pytest.raises(SpecError, match=r"use a model whose config\.json names entailment, neutral and contradiction"):
        find_labels(dict(enumerate(labels)), "m")


def test_a_model_may_be_unsure_of_one_plain_pair_and_not_of_two():
    right = [SURE[entails] for *_, entails in PLAIN]
    check_direction(right, "m")
    check_direction([SURE[False], *right[1:]], "m")
    assert MAY_FAIL == 1

    with pytest.raises(
        SpecError, match=r"takes 2 of 6 plain pairs for their opposite \(first: 'A man is eating pizza\.'"
    ):
        check_direction([SURE[False], SURE[False], *right[2:]], "m")


def test_files_are_recognised_by_what_they_say_and_not_by_where_they_lie(tmp_path):
    made = {}
    for name, weights in {"one": b"1", "same": b"1", "other": b"2"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(weights)
        (tmp_path / name / "config.json").write_text("{}")
        made[name] = digest(tmp_path / name)

    assert made["one"] == made["same"] != made["other"]


def test_a_processor_that_says_nothing_has_no_bfloat16(tmp_path):
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu avx2 avx512_bf16 sse\n")

    assert has_bfloat16(tmp_path / "cpuinfo")
    assert not has_bfloat16(tmp_path / "nothing")
