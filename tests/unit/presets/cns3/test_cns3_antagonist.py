"""Rules find what deserves a second look, each defect once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.presets.cns3.antagonist import (
    DEFAULT_RULES,
    VALUES,
    findings,
    flag_records,
    read_rules,
    severity_counts,
)
from pytest_crucible.records.errors import SpecError

CLEAN = {
    "citation_accuracy": 1.0,
    "citation_recall": 1.0,
    "chirality": 0.3,
    "polarity_conflict": 0.0,
    "entailment": 0.9,
}
values = st.dictionaries(st.sampled_from(VALUES), st.floats(0, 1), max_size=6)


def found(**changes: float) -> list[tuple[str, str, str | None]]:
    return [(one.name, one.severity, one.caused_by) for one in findings({**CLEAN, **changes}, DEFAULT_RULES)]


def test_a_clean_sample_has_no_findings():
    assert found() == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"citation_accuracy": 0.0}, [("CITATION_INVALID", "HIGH", None)]),
        ({"chirality": 0.56}, [("POLARITY_CONTRADICTION", "MEDIUM", None)]),
        ({"chirality": 0.65}, [("POLARITY_CONTRADICTION", "HIGH", None)]),
        ({"chirality": 0.65, "citation_recall": 0.1}, [("POLARITY_CONTRADICTION", "MEDIUM", None)]),
        ({"polarity_conflict": 1.0}, [("POLARITY_CONFLICT", "HIGH", None)]),
        ({"entailment": 0.49}, [("WEAK_ENTAILMENT", "MEDIUM", None)]),
    ],
)
def test_each_rule_of_the_default_table_fires_at_its_threshold(changes, expected):
    assert found(**changes) == expected


def test_one_defect_is_one_finding_that_counts():
    several = findings({**CLEAN, "citation_accuracy": 0.0, "entailment": 0.0}, DEFAULT_RULES)

    assert [(one.name, one.caused_by) for one in several] == [
        ("CITATION_INVALID", None),
        ("WEAK_ENTAILMENT", "CITATION_INVALID"),
    ]
    assert severity_counts(several) == {"LOW": 0, "MEDIUM": 0, "HIGH": 1}


def test_what_was_not_measured_is_no_finding():
    """A missing entailment was once read as 0, which is a finding for every sample that nobody measured."""
    assert findings({}, DEFAULT_RULES) == ()


def test_a_flag_has_the_evidence():
    several = findings({**CLEAN, "entailment": 0.2}, DEFAULT_RULES)
    records = list(flag_records([("133", several), ("134", ())]))

    assert records == [
        {
            "sample": "133",
            "severity": "MEDIUM",
            "findings": [
                {"name": "WEAK_ENTAILMENT", "severity": "MEDIUM", "evidence": {"entailment": 0.2}, "caused_by": None}
            ],
        }
    ]


@given(values)
def test_a_name_is_found_once_and_a_cause_is_always_found_too(given_values):
    several = findings(given_values, DEFAULT_RULES)
    names = [one.name for one in several]

    assert len(set(names)) == len(names)
    assert all(one.caused_by is None or one.caused_by in names for one in several)
    assert sum(severity_counts(several).values()) == sum(one.caused_by is None for one in several)
    assert not several or any(one.caused_by is None for one in several)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            {"name": "A", "severity": "HIGH"},
            "rule 1 of the antagonist has only name, severity: write name, severity, when",
        ),
        ({"name": "A", "severity": "HIGH", "when": ["beta1 > 0"], "wen": 1}, "rule 1 of the antagonist has 'wen'"),
        ({"name": "A", "severity": "high", "when": ["beta1 > 0"]}, "severity 'high': write one of LOW, MEDIUM, HIGH"),
        ({"name": "A", "severity": "HIGH", "when": []}, "has no condition"),
        ({"name": "A", "severity": "HIGH", "when": ["beta1"]}, "condition 'beta1': write one like 'entailment < 0.5'"),
        ({"name": "A", "severity": "HIGH", "when": ["vibes > 0"]}, "uses the unknown value 'vibes'; expected one of"),
        (
            {"name": "A", "severity": "HIGH", "when": ["beta1 > 0"], "caused_by": ["B"]},
            "caused by 'B', which is not the name of a rule",
        ),
    ],
)
def test_a_rule_that_cannot_be_meant_says_what_is_wanted(table, said):
    with pytest.raises(SpecError) as raised:
        read_rules([table])

    assert said in str(raised.value)
