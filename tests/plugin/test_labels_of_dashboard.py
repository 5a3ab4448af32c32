"""The file that `crucible view --labels` writes is read by judges, robustness and the marker's `repairs=`."""

from __future__ import annotations

import json

import pytest

from pytest_crucible.features.view.labelling import open_labelling
from pytest_crucible.runs.run_store import open_for_reading

SUMS = [
    {"id": f"q{k}", "input": f"What is the sum of {k} and {k}?", "expected": str(2 * k if k else "wrong")}
    for k in range(12)
]
ATTACKED = "exact_match[case_noise]"
TEST = """
import re
import pytest
from pytest_crucible import judges

right = judges.rubric("right", "Is it right?", levels={{"poor": 0, "good": 1}}{human})

@pytest.mark.crucible(dataset="sums.jsonl", metrics=[{metrics}]{repairs})
{robustness}
@pytest.mark.quality_target("{target} >= 0.1")
def test_sums(sample):
    return str(sum(map(int, re.findall("[0-9]+", sample.input))))
"""


def write_test(suite, *, human="", metrics="right", repairs="", robustness="", target="right"):
    suite.test(
        TEST.format(human=human, metrics=metrics, repairs=repairs, robustness=robustness, target=target),
        name="test_sums",
    )


def label(suite, choose, *, person="anna", first="random", most=12):
    """Label the replies of the latest run as the page does; `choose` has the label by the turn."""
    with open_for_reading(str(suite.path / ".crucible" / "crucible.db"), "view") as store:
        labelling = open_labelling(store, store.find_run(), suite.path / "labels.csv", label_first=first)
        for place in range(min(most, len(labelling.queue))):
            turn = labelling.queue.turn(place)
            labelling.file.record(turn.ids, person, choose(turn), "", before="")


@pytest.fixture
def judged(suite):
    suite.write_rows("sums.jsonl", SUMS)
    (suite.path / "critic.py").write_text("def judge(request):\n    return 'VERDICT: good'\n")
    suite.adapters({"critic": {"backend": "scripted", "script": "critic:judge"}})
    with (suite.path / "crucible.toml").open("a") as file:
        file.write('\n[scorers]\njudge = { adapter = "critic" }\n')
    return suite


def find_agreement(suite):
    (experiment,) = suite.json()["experiments"]
    (agreement,) = experiment["sections"]["judges"]
    return agreement


@pytest.mark.uses("judges")
def test_a_judge_is_compared_with_labels_of_the_very_replies(judged):
    write_test(judged)
    judged.run()
    label(judged, lambda turn: "poor" if turn.text in ("2", "4", "6") else "skip" if turn.text == "8" else "good")
    write_test(judged, human=', human="labels.csv"')
    judged.run("--crucible-json=run.json")

    agreement = find_agreement(judged)
    assert (agreement["kind"], agreement["n"], agreement["raw"]["value"]) == ("human", 11, pytest.approx(8 / 11))

    (judged.path / "sums.jsonl").write_text(
        "".join(json.dumps(row | {"input": row["input"] + " Add 1."}) + "\n" for row in SUMS)
    )
    judged.run("--crucible-json=run.json")
    assert "judges" not in judged.json()["experiments"][0]["sections"]  # other replies have no labels


@pytest.mark.uses("judges")
def test_a_labels_file_that_does_not_exist_ends_the_session(judged):
    write_test(judged, human=', human="labels.csv:anna"')

    judged.refuses(judged.run(), "*human='labels.csv' cannot be read*: write it with crucible view RUN --labels*")


@pytest.mark.uses("judges", "robustness")
def test_texts_that_a_person_labelled_no_do_not_apply(judged):
    attack = '@pytest.mark.robustness("case_noise", strength=0.5{kept})'
    write_test(judged, robustness=attack.format(kept=""), metrics='"exact_match"', target=ATTACKED)
    judged.run()
    label(
        judged, lambda turn: "no" if turn.text == "4" else "skip" if turn.text == "6" else "yes", person="anna", most=99
    )
    write_test(
        judged, robustness=attack.format(kept=', kept="labels.csv:anna"'), metrics='"exact_match"', target=ATTACKED
    )
    document = judged.json()

    counts = {estimate["metric"]: estimate["n"] for estimate in document["experiments"][0]["estimates"]}
    assert counts[ATTACKED] == len(SUMS) - 1


def test_labels_repair_what_the_dataset_expects(judged):
    write_test(judged, metrics='"exact_match"', target="exact_match")
    judged.run("--crucible-json=run.json")
    before = judged.json()["experiments"][0]["arms"]
    label(judged, lambda turn: turn.text if turn.ids["sample"] == "q0" else "skip", person="expected")
    write_test(judged, metrics='"exact_match"', target="exact_match", repairs=', repairs="labels.csv"')
    result = judged.run("--crucible-json=run.json")

    assert before
    result.stdout.fnmatch_lines(["exact_match >= 0.1*1.000*12*"])


@pytest.mark.uses("judges")
def test_labels_of_disagreements_are_weighted(judged):
    write_test(judged)
    judged.run()
    label(judged, lambda turn: "poor" if int(turn.text) < 8 else "good")
    table = judged.path / "labels.csv"
    # As if the dashboard had chosen them where arms disagree: four labels of four, and eight of 80.
    rows = [line.split(",") for line in table.read_text().splitlines()]
    for row in rows[1:]:
        row[5:7] = ["disagree", "4"] if row[7] == "poor" else ["agree", "80"]
    table.write_text("".join(",".join(row) + "\n" for row in rows))
    write_test(judged, human=', human="labels.csv:anna"')
    result = judged.run("--crucible-json=run.json")

    agreement = find_agreement(judged)
    assert (agreement["kind"], agreement["raw"]["value"]) == ("human, weighted", pytest.approx(80 / 84))
    result.stdout.fnmatch_lines(
        ["test_sums: judge of right, *: as people 0.952 *, n=12, weighted by how replies were chosen"]
    )
