"""Rules of the antagonist, and the tallies of their findings with precision and recall."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import stats
from pytest_crucible.features.cns3.antagonist import (
    DEFAULT_RULES,
    VALUES,
    Finding,
    Flagged,
    findings,
    from_text,
    read_rules,
    severity_counts,
    to_text,
)
from pytest_crucible.features.cns3.antagonist_section import FindingTally, tally_findings
from pytest_crucible.records.errors import SpecError

CLEAN = {
    "citation_accuracy": 1.0,
    "citation_recall": 1.0,
    "chirality": 0.3,
    "polarity_conflict": 0.0,
    "entailment": 0.9,
}
values = st.dictionaries(st.sampled_from(VALUES), st.floats(0, 1), max_size=6)


def named_findings(**changes: float) -> list[tuple[str, str, str | None]]:
    return [(each.name, each.severity, each.caused_by) for each in findings({**CLEAN, **changes}, DEFAULT_RULES)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"citation_accuracy": 0.0}, [("CITATION_INVALID", "HIGH", None)]),
        ({"chirality": 0.56}, [("POLARITY_CONTRADICTION", "MEDIUM", None)]),
        ({"chirality": 0.65}, [("POLARITY_CONTRADICTION", "HIGH", None)]),
        ({"chirality": 0.65, "citation_recall": 0.1}, [("POLARITY_CONTRADICTION", "MEDIUM", None)]),
        ({"polarity_conflict": 1.0}, [("POLARITY_CONFLICT", "HIGH", None)]),
        ({"entailment": 0.49}, [("WEAK_ENTAILMENT", "MEDIUM", None)]),
    ],
)
def test_each_rule_of_the_default_table_fires_at_its_threshold(changes, expected):
    assert named_findings(**changes) == expected


def test_one_defect_is_one_finding_that_counts():
    several = findings({**CLEAN, "citation_accuracy": 0.0, "entailment": 0.0}, DEFAULT_RULES)

    assert [(each.name, each.caused_by) for each in several] == [
        ("CITATION_INVALID", None),
        ("WEAK_ENTAILMENT", "CITATION_INVALID"),
    ]
    assert severity_counts(several) == {"LOW": 0, "MEDIUM": 0, "HIGH": 1}


def test_a_finding_has_its_evidence_and_unmeasured_values_give_none():
    """A missing entailment was once read as 0, which is a finding for every sample that was not measured."""
    weak = Finding("WEAK_ENTAILMENT", "MEDIUM", {"entailment": 0.2})

    assert findings({**CLEAN, "entailment": 0.2}, DEFAULT_RULES) == (weak,)
    assert findings({}, DEFAULT_RULES) == ()


@given(values)
def test_each_finding_occurs_once_and_with_its_cause(measured):
    several = findings(measured, DEFAULT_RULES)
    names = [each.name for each in several]

    assert len(set(names)) == len(names)
    assert all(each.caused_by is None or each.caused_by in names for each in several)
    assert sum(severity_counts(several).values()) == sum(each.caused_by is None for each in several)
    assert not several or any(each.caused_by is None for each in several)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"when": None}, "rule 1 of the antagonist has only name, severity: write name, severity, when"),
        ({"wen": 1}, "rule 1 of the antagonist has 'wen'"),
        ({"severity": "high"}, "severity 'high': write one of LOW, MEDIUM, HIGH"),
        ({"when": []}, "has no condition"),
        ({"when": ["beta1"]}, "condition 'beta1': write one like 'entailment < 0.5'"),
        ({"when": ["vibes > 0"]}, "uses the unknown value 'vibes'; expected one of"),
        ({"caused_by": ["B"]}, "caused by 'B', which is not the name of a rule"),
    ],
)
def test_an_invalid_rule_is_an_error(changes, message):
    rule = {"name": "A", "severity": "HIGH", "when": ["beta1 > 0"], **changes}
    with pytest.raises(SpecError) as raised:
        read_rules([{name: value for name, value in rule.items() if value is not None}])

    assert message in str(raised.value)


WEAK = Finding("WEAK", "MEDIUM", {"entailment": 0.1})
EXPLAINED = Finding("WEAK", "MEDIUM", {"entailment": 0.1}, caused_by="INVALID")
INVALID = Finding("INVALID", "HIGH", {"citation_accuracy": 0.0})
found_things = st.lists(st.sampled_from([WEAK, EXPLAINED, INVALID]), max_size=2, unique_by=lambda finding: finding.name)
golds = st.none() | st.frozensets(st.sampled_from(["WEAK", "INVALID", "OTHER"]))


def tally(*flagged: Flagged, repeats: int = 1) -> dict[str, FindingTally]:
    units = dict(zip(product(range(len(flagged) // repeats), range(repeats)), flagged, strict=True))
    several = tally_findings("v2", units, samples=len(flagged) // repeats, clusters=None, level=0.95)
    return {each.name: each for each in several}


def test_rates_have_wilson_intervals():
    tallied = tally(*[Flagged((INVALID,))] * 3, *[Flagged(())] * 7)["INVALID"]
    interval = stats.wilson_interval(3, 10)

    assert (tallied.rate.value, tallied.rate.n) == (pytest.approx(0.3), 10)
    assert (tallied.rate.interval.low, tallied.rate.interval.high) == pytest.approx((interval.low, interval.high))
    assert tallied.severities == {"HIGH": 3, "MEDIUM": 0, "LOW": 0}


def test_explained_findings_do_not_count_and_repeats_are_averaged():
    tallied = tally(Flagged((INVALID, EXPLAINED)), Flagged((WEAK,)), Flagged(()), Flagged(()))["WEAK"]
    repeated = tally(Flagged((WEAK,)), Flagged(()), Flagged(()), Flagged(()), repeats=2)["WEAK"]

    assert (tallied.rate.value, tallied.explained, tallied.severities["MEDIUM"]) == (0.5, 1, 1)
    assert (tallied.precision, tallied.recall) == (None, None)
    assert (repeated.rate.value, repeated.rate.n) == (0.25, 2)


def test_precision_and_recall_are_over_replies_that_a_person_checked():
    none, gold = frozenset(), frozenset({"WEAK"})
    tallied = tally(
        Flagged((WEAK,), gold),  # right
        Flagged((WEAK,), gold),  # right
        Flagged((WEAK,), none),  # a false alarm
        Flagged((), gold),  # overlooked
        Flagged((), none),
        Flagged((WEAK,)),  # not checked
        Flagged((INVALID, EXPLAINED), gold),  # found, and no alarm of its own
    )["WEAK"]

    assert (tallied.precision.value, tallied.precision.n) == (pytest.approx(2 / 3), 3)
    assert (tallied.recall.value, tallied.recall.n) == (pytest.approx(3 / 4), 4)


def test_a_finding_of_a_person_alone_has_recall_0():
    tallied = tally(Flagged((), frozenset({"OTHER"})), Flagged((), frozenset()))["OTHER"]

    assert (tallied.recall.value, tallied.recall.n, tallied.rate.value) == (0.0, 1, 0.0)
    assert (tallied.precision.value, tallied.precision.n) == (None, 0)


@given(st.lists(st.tuples(found_things, golds), min_size=1, max_size=12))
def test_every_finding_counts_once_or_is_explained(several):
    flagged = [Flagged(tuple(findings), gold) for findings, gold in several]
    tallies = tally(*flagged).values()

    assert sum(sum(each.severities.values()) + each.explained for each in tallies) == sum(
        len(each.findings) for each in flagged
    )
    for each in tallies:
        for share in (each.rate, each.precision, each.recall):
            assert share is None or share.value is None or 0 <= share.interval.low <= share.value <= share.interval.high


@given(found_things, golds)
def test_findings_survive_storing_as_text(findings, gold):
    metadata = {} if gold is None else {"gold_flags": list(gold)}

    assert from_text(to_text(findings, metadata)) == Flagged(tuple(findings), gold)


@pytest.mark.parametrize("gold", ["WEAK", [1], {"WEAK": True}])
def test_gold_flags_must_be_a_list_of_names(gold):
    with pytest.raises(
        ValueError, match=r"gold_flags is .*; expected a list of findings' names, empty if there are none"
    ):
        to_text([], {"gold_flags": gold})
