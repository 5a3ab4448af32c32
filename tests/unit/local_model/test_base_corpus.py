"""The text that the base model learns from, and the samples of example_suites/claims: true, varied, and kept apart."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import sys
from collections import Counter
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
SUITE = ROOT / "example_suites" / "claims"
sys.path[:0] = [str(ROOT), str(SUITE)]  # neither is part of the package

from claims_judging import judge  # noqa: E402

from base_model import drills, readings  # noqa: E402
from base_model.claims import CLAIMS, write_samples  # noqa: E402
from base_model.mixture import EXERCISES, rows, text_of  # noqa: E402
from base_model.muon import Optimiser, orthogonal  # noqa: E402
from base_model.passages import OPPOSITE, suppose, write_passage  # noqa: E402
from base_model.train import Course, make_tokenizer, train  # noqa: E402
from base_model.words import HELD_OUT_NAMES, TRAINING_NAMES  # noqa: E402
from base_model.write_claims import held_out_rows, training_rows  # noqa: E402


class Letters:
    """A tokenizer of one token a byte."""

    eos = 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode())


def texts(kind, count=300):
    draw = random.Random(4)
    return [text_of(list(kind(draw))) for _ in range(count)]


def held_out():
    return [json.loads(line) for line in (SUITE / "held_out.jsonl").read_text().splitlines()]


# -- the base's text ----------------------------------------------------------------------------------------------


def test_exercises_are_those_that_the_shipped_base_has_read():
    """Any change of a drill or a passage changes the hash, and the weights would not be those of these scripts any more."""
    digest = hashlib.sha256()
    for kind in EXERCISES:
        for seed in range(20):
            digest.update(repr(list(kind(random.Random(seed)))).encode())

    assert digest.hexdigest() == "de7d0bef4a42f9ce86c022a31ac8fb41bd78195dba6ebd3d764909a747440810"


def test_the_base_reads_every_word_of_the_claims_format_but_never_the_format():
    read = "\n".join(text for kind in EXERCISES for text in texts(kind))

    assert all(word in read for word in ("CLAIM[", "RELATION:", "c1", "c2", "supports", "refutes", "(Document "))
    assert not re.search(r"CLAIM\[c1\].*\n(.*\n)?RELATION", read)
    assert "Extract the claims." not in read


def test_a_line_format_is_never_the_suites_own():
    drawn = [readings.line_format(random.Random(seed)) for seed in range(2000)]

    assert len(set(drawn)) > 500
    assert not any((each.item, each.link) == (CLAIMS.item, CLAIMS.link) for each in drawn)


def test_rows_are_full_and_predict_the_next_token():
    batch = rows(random.Random(1), Letters(), 3, 200)

    assert batch.tokens.shape == batch.targets.shape == batch.weights.shape == (3, 200)
    np.testing.assert_array_equal(batch.tokens[:, 1:], batch.targets[:, :-1])
    assert batch.weights.sum() > 0
    assert (batch.targets == Letters.eos).any()


# -- passages and claims ------------------------------------------------------------------------------------------


def test_evidence_is_about_the_hypothesis_and_lies_in_its_document():
    draw = random.Random(8)
    for _ in range(200):
        passage = write_passage(draw, TRAINING_NAMES)
        finding = draw.choice(list(passage.findings()))[1]
        evidence = passage.evidence(suppose(draw, finding, "up"))

        assert finding in [result for _, result in evidence]
        assert all(result.name in result.sentence.lower() for _, result in evidence)
        assert all(result.sentence in document.sentences for document, result in evidence)


def test_the_opposite_hypothesis_turns_every_verb():
    draw = random.Random(9)
    for _ in range(100):
        passage = write_passage(draw, TRAINING_NAMES)
        finding = draw.choice([result for _, result in passage.findings() if result.direction != "same"] or [None])
        if finding is None:
            continue
        verbs = [
            re.findall("supports|refutes", CLAIMS.lines(passage, suppose(draw, finding, direction)))
            for direction in (finding.direction, OPPOSITE[finding.direction])
        ]
        assert all(
            pair in (("supports", "refutes"), ("refutes", "supports"), ("refutes",) * 2)
            for pair in zip(*verbs, strict=True)
        )
        assert "supports" in verbs[0]


def test_questions_about_one_passage_differ():
    for samples in islice(write_samples(random.Random(2), TRAINING_NAMES, 3), 50):
        assert len({sample.hypothesis.sentence for sample in samples}) == len(samples) == 3
        assert len({str(sample.passage) for sample in samples}) == 1


def test_names_of_held_out_samples_are_read_nowhere_else():
    words = set(re.findall(r"[a-z]+", "\n".join(json.dumps(row) for row in training_rows()).lower()))
    words |= {word for kind in EXERCISES for text in texts(kind, 100) for word in re.findall(r"[a-z]+", text.lower())}

    assert not set(HELD_OUT_NAMES) & words
    assert not set(HELD_OUT_NAMES) & set(TRAINING_NAMES)
    assert all(any(name in row["input"].lower() for name in HELD_OUT_NAMES) for row in held_out())


def test_the_committed_samples_are_those_of_the_script():
    training = [json.loads(line) for line in (SUITE / "train.jsonl").read_text().splitlines()]

    assert held_out() == list(held_out_rows())
    assert training == list(training_rows())


def test_there_are_enough_held_out_samples_in_real_clusters():
    samples = held_out()
    groups = Counter(row["group"] for row in samples)
    passages = {row["group"]: row["input"].split("\n\nHypothesis")[0] for row in samples}

    assert len(samples) >= 200
    assert len({row["id"] for row in samples}) == len({row["input"] for row in samples}) == len(samples)
    assert set(groups.values()) == {3}
    assert all(row["input"].startswith(passages[row["group"]]) for row in samples)


def test_neither_verb_is_a_safe_guess():
    verbs = Counter(re.findall(r"c\d (supports|refutes)", "\n".join(row["expected"] for row in held_out())))

    assert 0.4 < verbs["supports"] / verbs.total() < 0.6


# -- judging ------------------------------------------------------------------------------------------------------


def test_the_right_answer_is_right_in_every_respect():
    for row in held_out():
        judged = judge(row["input"], row["expected"], row["expected"])

        assert (judged.schema, judged.citation, judged.quotation, judged.verb, judged.whole) == (True, 1, 1, 1, True)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda text: text.replace("CLAIM[c2]", "CLAIM[c3]"), {"schema": False}),
        (lambda text: text.replace("RELATION: c2", "RELATION: c9"), {"schema": False}),
        (lambda text: text + "\nAnd so on.", {"schema": False, "citation": 1.0}),
        (lambda text: text.split("\n")[0], {"schema": False, "citation": 0.0, "verb": None}),
        (lambda text: re.sub(r"Document \d+", "Document 1", text), {"schema": True, "citation": 0.0, "quotation": 1.0}),
        (lambda text: "", {"schema": False, "citation": 0.0, "verb": None, "whole": False}),
    ],
)
def test_wrong_answers_lower_their_own_score(change, expected):
    row = held_out()[0]

    judged = judge(row["input"], row["expected"], change(row["expected"]))

    assert {name: getattr(judged, name) for name in expected} == expected


# -- training -----------------------------------------------------------------------------------------------------


def test_learning_rates_rise_hold_and_fall():
    course = Course(steps=100, warm_up_steps=10, decay_from=0.5, last_rate=0.02)

    assert [course.rate(step) for step in (1, 10, 50)] == [0.1, 1.0, 1.0]
    assert course.rate(75) == pytest.approx(0.51)
    assert course.rate(100) == pytest.approx(0.02)


def test_an_orthogonal_step_moves_every_direction_about_as_far():
    matrix = np.random.default_rng(0).normal(size=(24, 40)).astype(np.float32) * np.geomspace(
        1, 30, 40, dtype=np.float32
    )
    values = np.linalg.svd(orthogonal(matrix), compute_uv=False)

    assert values.min() > 0.5
    assert values.max() < 1.4


def test_the_optimiser_goes_downhill_and_stops_at_a_gradient_that_is_no_number():
    weights = {"up": np.eye(4, dtype=np.float32), "norm": np.ones(4, np.float32)}
    optimiser = Optimiser(muon_rate=0.05, adam_rate=0.05)
    for _ in range(60):
        optimiser.step(weights, {name: 2 * each for name, each in weights.items()}, 1.0)

    assert all(np.abs(each).max() < 0.3 for each in weights.values())
    with pytest.raises(FloatingPointError, match="norm"):
        optimiser.step(weights, {"norm": np.full(4, np.nan, np.float32)}, 1.0)


def test_the_course_goes_from_short_drills_to_rows_as_long_as_the_context():
    course = Course(steps=100, drills_until=0.25, long_rows_from=0.9, rows=(8, 16, 32))

    assert course.reads(25) == (8, drills.DRILLS)
    assert course.reads(26) == course.reads(90) == (16, EXERCISES)
    assert course.reads(91) == (32, EXERCISES)
    assert all(course.tokens_per_step % length == 0 for length in Course().rows)


BASE = ROOT / "pytest_crucible" / "local_model" / "base"


def test_the_shipped_files_are_those_of_the_logged_run():
    log = json.loads((BASE / "training.json").read_text())

    assert {name: hashlib.sha256((BASE / name).read_bytes()).hexdigest() for name in log["sha256"]} == log["sha256"]
    assert log["loss"][-1]["step"] == log["course"]["steps"] == Course().steps
    assert asdict(Course()) == {**log["course"], "rows": tuple(log["course"]["rows"])}
    assert sum(path.stat().st_size for path in BASE.iterdir()) < 5_000_000


@pytest.mark.slow
@pytest.mark.skipif("CI_FULL" not in os.environ, reason="takes two minutes: set CI_FULL=1")
def test_these_scripts_repeat_the_first_steps_of_the_logged_run(tmp_path):
    """The scripts have been edited since, so their hash no longer shows that they made the weights. Their first losses do."""
    log = json.loads((BASE / "training.json").read_text())
    tokenizer = make_tokenizer(Course().tokenizer_seed)
    tokenizer.save(tmp_path / "tokenizer.json")

    _, losses = train(Course(), tokenizer, last_step=log["loss"][0]["step"])

    assert (tmp_path / "tokenizer.json").read_bytes() == (BASE / "tokenizer.json").read_bytes()
    assert losses == [pytest.approx(log["loss"][0], abs=0.02)]
