"""An ensemble beside its members, on the terminal and as JSON."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_crucible.features.ensembles import section as diversity
from pytest_crucible.features.ensembles.section import Diversity, MemberPair
from pytest_crucible.records import Proportion
from pytest_crucible.report.terminal import summary
from pytest_crucible.stats.interval import Interval


def share(value, low=None, high=None, note=""):
    interval = None if low is None else Interval(low=low, high=high, level=0.95, method="wilson")
    return Proportion(value=value, interval=interval, note=note)


PAIR = MemberPair(
    first="v1", second="v2", n=200, disagreement=share(0.2, 0.15, 0.26), double_fault=share(0.1, 0.066, 0.149),
    error_correlation=share(0.35, 0.17, 0.5),
)  # fmt: skip
FOUND = Diversity(
    arm="trio", metric="exact", n=200, best="v2", oracle=share(0.9, 0.851, 0.934), ensemble=share(0.81, 0.75, 0.858),
    accuracies={"v1": share(0.75, 0.686, 0.805), "v2": share(0.8, 0.739, 0.85)}, pairs=(PAIR,),
)  # fmt: skip
LEVELS = [
    "ensemble  metric  accuracy              best member  accuracy of the best  some member right       n",
    "trio      exact   0.810 [0.750, 0.858]  v2           0.800 [0.739, 0.850]  0.900 [0.851, 0.934]  200",
]
PAIRS = [
    "members  ensemble  metric  disagreement          both wrong            error correlation       n",
    "v1, v2   trio      exact   0.200 [0.150, 0.260]  0.100 [0.066, 0.149]  0.350 [0.170, 0.500]  200",
]


@pytest.fixture
def lines(run, analysis):
    """What -v shows of an ensemble, or what is always shown."""

    def show(diversity: Diversity, verbosity: int = 1) -> list[str]:
        of_none, of_one = (run(analysis(diversities=entry)) for entry in ((), (diversity,)))
        without = [line.text for line in summary(of_none, verbosity=verbosity, width=150)]
        return [line.text for line in summary(of_one, verbosity=verbosity, width=150) if line.text not in without]

    return show


def test_the_tables_have_the_ensemble_its_best_member_and_each_pair(lines):
    assert lines(FOUND) == [*LEVELS, *PAIRS]


def test_the_tables_are_shown_in_the_verbose_summary_only(lines):
    assert lines(FOUND, 0) == []


def test_an_unknown_value_is_a_dash_with_a_note(lines):
    why = "a model that is always right, or always wrong, has no error correlation"
    pair = dataclasses.replace(PAIR, error_correlation=share(None, note=why))
    note = "only samples that every member answered"

    assert lines(dataclasses.replace(FOUND, pairs=(pair,), note=note))[2:] == [
        "members  ensemble  metric  disagreement          both wrong            error correlation    n",
        "v1, v2   trio      exact   0.200 [0.150, 0.260]  0.100 [0.066, 0.149]  -                  200",
        f"test_sums: members of trio by exact: {note}",
        f"test_sums: members of trio by exact: v1, v2: {why}",
    ]


def test_without_a_common_sample_there_is_no_best_member(lines):
    nothing = share(None, note="no sample was answered by all")
    unknown = dataclasses.replace(FOUND, n=0, best=None, accuracies={}, oracle=nothing, ensemble=nothing)

    assert lines(unknown)[:2] == [
        "ensemble  metric  accuracy  best member  accuracy of the best  some member right  n",
        "trio      exact   -         -            -                     -                  0",
    ]
    assert "test_sums: members of trio by exact: no sample was answered by all" in lines(unknown)


def document_of(item: Diversity):
    [document] = diversity.view((item,), ()).document
    return document


def test_the_json_has_every_value():
    document = document_of(FOUND)

    assert set(document) == {"arm", "metric", "n", "members", "best", "oracle", "ensemble", "pairs", "note"}
    assert document["members"] == [
        {"name": "v1", "value": 0.75, "low": 0.686, "high": 0.805, "note": ""},
        {"name": "v2", "value": 0.8, "low": 0.739, "high": 0.85, "note": ""},
    ]
    [pair] = document["pairs"]
    assert (pair["first"], pair["second"], pair["n"]) == ("v1", "v2", 200)
    assert pair["error_correlation"] == {"value": 0.35, "low": 0.17, "high": 0.5, "note": ""}


def test_an_undefined_share_is_null():
    assert document_of(dataclasses.replace(FOUND, oracle=share(None, note="why")))["oracle"] == {
        "value": None, "low": None, "high": None, "note": "why",
    }  # fmt: skip
