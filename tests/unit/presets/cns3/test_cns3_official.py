"""The scores of SciFact's official evaluator, to its last digit."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pytest_crucible.presets.cns3.scifact import Score, evaluate
from pytest_crucible.records.errors import DatasetError

HERE = Path(__file__).parent / "official"
PREDICTIONS = Path(__file__).parents[4] / "example_suites" / "scifact" / "predictions"
DATA = Path(os.environ.get("CRUCIBLE_DATA", "nowhere"))
REFERENCE = json.loads((HERE / "reference.json").read_text())
RATIONALE = [{"sentences": [0, 1], "label": "SUPPORT"}, {"sentences": [4], "label": "SUPPORT"}]
CLAIM = {"id": 1, "evidence": {"7": RATIONALE}}


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def predicted(*sentences: int, label: str = "SUPPORT", document: str = "7") -> dict:
    return {"id": 1, "evidence": {document: {"sentences": list(sentences), "label": label}}}


def test_the_official_example_comes_out():
    scores = evaluate(rows(HERE / "gold_small.jsonl"), rows(HERE / "predictions_small.jsonl"))

    assert scores.as_mapping() == pytest.approx(
        json.loads((HERE / "expected_metrics_small.json").read_text()), abs=1e-9
    )


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "scifact").is_dir(), reason="CRUCIBLE_DATA has no scifact")
@pytest.mark.parametrize("name", [key.partition(":")[2] for key in REFERENCE if key.startswith("dev:")])
def test_a_real_model_on_all_dev_claims_comes_out(name):
    path = DATA / "scifact_multivers_preds" / f"{name}_dev.jsonl"
    if not path.is_file():
        pytest.skip(f"CRUCIBLE_DATA has no {path.name}")
    scores = evaluate(rows(DATA / "scifact" / "claims_dev.jsonl"), rows(path))

    assert scores.as_mapping() == pytest.approx(REFERENCE[f"dev:{name}"], abs=1e-9)


def test_a_rationale_counts_when_it_is_whole():
    part, whole = (evaluate([CLAIM], [predicted(*chosen)]) for chosen in ([0], [0, 1]))

    assert part.abstract_label_only == Score(1, 1, 1)
    assert part.abstract_rationalized == Score(0, 1, 1)
    assert part.sentence_selection == Score(0, 1, 3)
    assert whole.sentence_selection == whole.sentence_label == Score(2, 2, 3)


def test_only_the_first_three_sentences_are_the_rationale_of_an_abstract():
    scores = evaluate([CLAIM], [predicted(2, 3, 5, 4)])

    assert scores.abstract_rationalized.right == 0
    assert scores.sentence_selection.right == 1


def test_a_sentence_that_is_predicted_twice_counts_once():
    scores = evaluate([CLAIM], [predicted(0, 1, 4, 4, 4, 1)])

    assert scores.sentence_selection == scores.sentence_label == Score(3, 3, 3)


def test_a_wrong_label_keeps_the_selection():
    scores = evaluate([CLAIM], [predicted(4, label="CONTRADICT")])

    assert (scores.abstract_label_only.right, scores.sentence_selection.right, scores.sentence_label.right) == (0, 1, 0)


def test_nothing_predicted_is_no_precision_and_no_recall():
    score = evaluate([CLAIM], []).abstract_label_only

    assert (score, score.precision, score.recall, score.f1) == (Score(0, 0, 1), 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([{"id": 2, "evidence": {}}], "claim 2 is not among the claims"),
        ([predicted(0)] * 2, "claim 1 is predicted twice"),
        (
            [predicted(0, label="NOT_ENOUGH_INFO")],
            "claim 1 has the label 'NOT_ENOUGH_INFO' for document 7: write one of SUPPORT",
        ),
        (
            [predicted(0, label="SUPPORTS", document="9")],
            "claim 1 has the label 'SUPPORTS' for document 9: write one of",
        ),
    ],
)
def test_predictions_that_do_not_fit_are_refused(given, said):
    with pytest.raises(DatasetError, match=said):
        evaluate([CLAIM], given)
