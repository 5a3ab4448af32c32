"""Metrics of guards: to which samples they apply, and what they count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.guards import metrics as guards
from pytest_crucible.metrics.definition import NotApplicable
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Reply, Sample
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.outcomes import Detection, Span


def reply(*, flagged: bool, score: float = 0.5, spans=()) -> Reply:
    return Reply(
        text="", detection=Detection(flagged=flagged, score=score, category="c", spans=tuple(spans), latency_s=0.1)
    )


ATTACK, BENIGN = Sample(id="a", input="x", expected="attack"), Sample(id="b", input="x", expected=0)


@pytest.mark.parametrize(
    ("metric", "sample", "flagged", "value"),
    [
        ("caught", ATTACK, True, True),
        ("caught", ATTACK, False, False),
        ("caught", BENIGN, True, None),
        ("false_alarm", BENIGN, True, True),
        ("false_alarm", BENIGN, False, False),
        ("false_alarm", ATTACK, True, None),
        ("right_when_flagged", ATTACK, True, True),
        ("right_when_flagged", BENIGN, True, False),
        ("right_when_flagged", ATTACK, False, None),
        ("flagged", BENIGN, True, True),
        ("guard_score", BENIGN, True, 0.5),
        ("guard_latency_s", BENIGN, True, 0.1),
        ("guard_category", BENIGN, True, "c"),
        ("guard_category", BENIGN, False, None),
    ],
)
def test_each_metric_applies_to_its_samples(metric, sample, flagged, value):
    scored = getattr(guards, metric)(reply(flagged=flagged), sample)

    assert (None if isinstance(scored, NotApplicable) else scored) == value


def test_without_a_guard_its_metrics_do_not_apply():
    scored = [metric(Reply(text=""), ATTACK) for metric in guards.guard_metrics([ATTACK])]

    assert all(isinstance(value, NotApplicable) for value in scored)


def test_a_blocked_reply_is_counted():
    assert guards.blocked(Reply(text="sorry", finish="blocked"), ATTACK)
    assert not guards.blocked(Reply(text="fine"), ATTACK)


SPANS = st.lists(
    st.builds(
        lambda kind, start, size: Span(kind, start, start + size),
        st.sampled_from("AB"),
        st.integers(0, 20),
        st.integers(1, 6),
    ),
    max_size=5,
)


@given(SPANS, SPANS)
def test_spans_count_once_on_their_own_side(annotated, predicted):
    matched, n, right, m = guards.count_spans(annotated, predicted)
    mirrored = guards.count_spans(predicted, annotated)

    assert (n, m) == (len(annotated), len(predicted))
    assert 0 <= matched <= n
    assert 0 <= right <= m
    assert (right, m, matched, n) == mirrored
    assert bool(matched) == bool(right)
    assert matched == sum(guards.count_spans(annotated, predicted, kind)[0] for kind in "AB")


def test_spans_match_from_half_an_overlap():
    assert guards.count_spans([Span("A", 0, 10)], [Span("A", 0, 5)])[0] == 1
    assert guards.count_spans([Span("A", 0, 10)], [Span("A", 0, 4)])[0] == 0
    assert guards.count_spans([Span("A", 0, 10)], [Span("B", 0, 10)])[0] == 0


def test_annotated_spans_add_counts_by_type():
    spans = [{"type": "URL", "start": 0, "end": 4}]
    sample = Sample(id="a", input="x", expected=spans)
    metrics = {metric.name: metric for metric in guards.guard_metrics([sample, Sample(id="b", input="y", expected=[])])}
    answer = reply(flagged=True, spans=[Span("URL", 0, 4), Span("IP_ADDRESS", 5, 9)])

    assert metrics["pii"](answer, sample) == pytest.approx(2 / 3)
    assert metrics["pii.predicted"](answer, sample) == 2
    assert metrics["pii.URL.predicted"](answer, sample) == 1
    assert metrics["pii.URL.found"].facts.is_part
    assert set(parse_target("recall(pii.URL) >= 0.5").metrics) <= set(metrics)


def test_spans_may_be_written_as_json():
    sample = Sample(id="a", input="x", expected='[{"type": "URL", "start": 0, "end": 4}]')

    assert guards.pii(reply(flagged=True, spans=[Span("URL", 0, 4)]), sample) == 1


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ("maybe", 'label \'maybe\' of sample q17: expected 1 or 0, true or false, "attack" or "benign"'),
        (None, "label None of sample q17"),
        ([{"type": "URL"}], "of sample q17: expected a table with type, start and end"),
        ([{"type": "URL", "start": 4, "end": 4}], "of sample q17: expected places of characters, the first from 0 on"),
        ([{"type": "URL", "start": "first", "end": None}], "of sample q17: expected places of characters"),
    ],
)
def test_bad_labels_are_refused(expected, message):
    with pytest.raises(SpecError) as error:
        guards.guard_metrics([Sample(id="q17", input="x", expected=expected)])

    assert message in str(error.value)


@pytest.mark.parametrize(
    ("target", "expected", "message"),
    [
        (
            "caught >= 0.40",
            0,
            "all 240 labels are benign, but 'caught >= 0.40' needs attacks: add some or remove the target",
        ),
        ("false_alarm <= 0.1", 1, "all 240 labels are attacks, but 'false_alarm <= 0.1' needs benign texts"),
    ],
)
def test_a_target_needs_samples_of_its_class(target, expected, message):
    samples = [Sample(id=str(k), input="x", expected=expected) for k in range(240)]
    with pytest.raises(SpecError) as error:
        guards.check_classes([(repr(target), parse_target(target))], samples)

    assert message in str(error.value)
    guards.check_classes(
        [(repr(target), parse_target(target))], [*samples, Sample(id="x", input="x", expected=1 - expected)]
    )


def test_statistics_of_parts_are_parsed():
    target = parse_target("recall(pii.CREDIT_CARD) >= 0.95")

    assert target.metrics == ("pii.CREDIT_CARD.found", "pii.CREDIT_CARD.annotated")
    assert target.expression == "recall(pii.CREDIT_CARD)"
    assert target.label == "recall"
