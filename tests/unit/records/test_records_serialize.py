"""Records as JSON and back, what may be nested, and declared facts."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field, fields
from types import MappingProxyType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples
from strategies import COLUMNS, RECORDS, plain_values, record

from pytest_crucible import metric
from pytest_crucible.adapters.config_tables import list_tables
from pytest_crucible.backends.offline import load_recorded
from pytest_crucible.datasets import load_file, load_rows
from pytest_crucible.features.contamination.drift import load_rows_of_file
from pytest_crucible.importers.sources import open_source, read_beside
from pytest_crucible.records import Contrast, MetricFacts, ModelCall, Outcome, Reply, Sample, Verdict
from pytest_crucible.records.errors import CrucibleError, SpecError
from pytest_crucible.records.serialize import (
    FORMER_NAME,
    MOST_DEPTH,
    TooDeep,
    canonical,
    check_depth,
    from_plain,
    parse,
    to_plain,
)
from pytest_crucible.runs.run_store import _pytest_table


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=choose_examples(20), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_record_comes_back_equal(kind, data):
    sent = data.draw(record(kind))

    received = from_plain(kind, json.loads(json.dumps(to_plain(sent), allow_nan=False)))

    assert received == sent
    assert [type(getattr(received, field.name)) for field in fields(kind)] == [
        type(getattr(sent, field.name)) for field in fields(kind)
    ]


@pytest.mark.parametrize(("number", "word"), [(math.inf, "inf"), (-math.inf, "-inf"), (math.nan, "nan")])
def test_infinities_and_nan_are_written_as_words(number, word):
    assert to_plain({"x": [number]}) == {"x": [word]}


def test_an_infinite_bound_is_read_as_a_number():
    facts = from_plain(MetricFacts, {"name": "tokens", "low": 0, "high": "inf"})

    assert (facts.low, facts.high) == (0.0, math.inf)
    assert type(facts.low) is float


def test_fields_that_are_absent_get_their_defaults():
    assert from_plain(Sample, {"id": "a", "input": 1}) == Sample(id="a", input=1)


def test_fields_of_a_newer_version_are_ignored():
    assert from_plain(Sample, {"id": "a", "input": 1, "mood": "good"}) == Sample(id="a", input=1)


def test_keys_become_strings():
    assert to_plain({1: "one"}) == {"1": "one"}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (b"x", "b'x' of type bytes has no plain form"),
        (1j, "1j of type complex has no plain form"),
        (Verdict, "<class 'pytest_crucible.records.results.Verdict'> of type type has no plain form"),
    ],
    ids=["bytes", "complex", "class"],
)
def test_a_value_without_a_json_form_is_refused_at_any_depth(value, sentence):
    with pytest.raises(TypeError) as caught:
        to_plain(Reply(text="", value=[{"x": value}]))

    assert str(caught.value) == sentence


@given(st.dictionaries(st.text(max_size=3), plain_values, max_size=4))
def test_the_order_of_keys_does_not_change_the_canonical_text(mapping):
    assert canonical(dict(reversed(mapping.items()))) == canonical(mapping)
    assert json.loads(canonical(mapping)) == mapping


def test_a_record_and_its_fields_have_one_canonical_text():
    assert canonical([MappingProxyType({"x": Sample(id="a", input=(1, 2))})]) == (
        '[{"x":{"expected":null,"group":null,"id":"a","input":[1,2],"joined_group":null,"metadata":{},"variants":{}}}]'
    )


@pytest.mark.parametrize("value", [b"x", 1j, Verdict, {1, 2}, {"a": 1, 2: 3}], ids=repr)
def test_a_value_without_a_json_form_has_no_canonical_text(value):
    with pytest.raises(TypeError):
        canonical({"deep": [value]})


def test_a_list_that_contains_itself_has_no_canonical_text():
    loop: list[object] = []
    loop.append(loop)

    with pytest.raises(TypeError, match="a list has no plain form"):
        canonical(loop)


def test_a_field_is_read_under_the_name_that_earlier_versions_stored():
    @dataclass(frozen=True)
    class Renamed:
        repeats: int = field(metadata={FORMER_NAME: "epochs"})

    assert from_plain(Renamed, {"epochs": 3}) == from_plain(Renamed, {"repeats": 3}) == Renamed(repeats=3)
    assert to_plain(Renamed(repeats=3)) == {"repeats": 3}


@pytest.mark.parametrize(
    ("contrast", "subject"),
    [
        (Contrast(metric="accuracy", baseline="v1"), "accuracy: v2 vs v1"),
        (
            Contrast(metric="accuracy", baseline="v1", alternative="non-inferior", margin=0.05),
            "accuracy: v2 vs v1 non-inferior by 0.05",
        ),
        (Contrast(metric="accuracy", baseline="v1", alternative="superior"), "accuracy: v2 vs v1 superior"),
    ],
    ids=["regression", "non-inferior", "superior"],
)
def test_a_comparison_is_named_after_its_claim(contrast, subject):
    assert contrast.subject("v2") == subject


# An outcome and its calls are filled in while a unit runs.
@pytest.mark.parametrize(
    "kind", sorted({*RECORDS, *COLUMNS} - {Outcome, ModelCall}, key=str), ids=lambda kind: kind.__name__
)
def test_records_cannot_be_changed(kind):
    assert kind.__dataclass_params__.frozen


def test_samples_do_not_share_their_metadata():
    sample, other = Sample(id="a", input=1), Sample(id="b", input=2)

    assert sample.metadata is not other.metadata


def test_a_record_has_no_room_for_misspelt_fields():
    with pytest.raises(TypeError, match="exepcted"):
        dataclasses.replace(Sample(id="a", input=1), exepcted="x")


SENTENCE = "is nested more than 100 levels deep"
DEEP = [101, 900, 995, 5_000, 100_000]


def text(depth: int, kind: str = "list") -> str:
    return "[" * depth + "]" * depth if kind == "list" else '{"a":' * depth + "1" + "}" * depth


def nest(depth: int):
    value: object = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


@given(st.integers(0, 2 * MOST_DEPTH))
def test_the_limit_is_exact(depth):
    value = nest(depth)
    if depth <= MOST_DEPTH:
        check_depth(value)
    else:
        with pytest.raises(TooDeep, match=SENTENCE):
            check_depth(value)


def test_a_list_that_contains_itself_is_too_deep():
    rows: list[object] = []
    rows += [rows, rows, {"a": rows}]

    with pytest.raises(TooDeep):
        check_depth(rows)


@pytest.mark.parametrize("depth", DEEP)
@pytest.mark.parametrize("kind", ["list", "mapping"])
def test_a_text_that_is_too_deep_for_the_parser_is_too_deep(depth, kind):
    with pytest.raises(TooDeep):
        parse(json.loads, text(depth, kind))


@pytest.mark.parametrize("depth", DEEP)
@pytest.mark.parametrize("field", ["input", "expected", "topic"])
@pytest.mark.parametrize("read", [load_file, load_rows_of_file])
def test_rows_of_files(tmp_path, depth, field, read):
    row = f'{{"input": "q", "{field}": {text(depth)}}}'
    for name, content in (("d.jsonl", row), ("d.json", f"[{row}]")):
        (tmp_path / name).write_text(content)
        with pytest.raises(CrucibleError, match=f"^line 1 of .*{name} {SENTENCE}: flatten its values$"):
            read(tmp_path / name)


@pytest.mark.parametrize("depth", [101, 900])
def test_rows_in_memory(depth):
    rows = [{"input": nest(depth)}, {"input": "q", "expected": nest(depth)}, {"input": "q", "x": nest(depth)},
            Sample(id="a", input="q", metadata={"x": nest(depth)}), Sample(id="a", input=nest(depth))]  # fmt: skip
    for row in rows:
        with pytest.raises(CrucibleError, match=f"^sample 1 of rows {SENTENCE}: flatten its values$"):
            load_rows([row], name="rows")


@pytest.mark.parametrize("depth", DEEP[:4])
def test_replies_logs_and_configurations(tmp_path, depth):
    log, table = tmp_path / "log.jsonl", tmp_path / "crucible.toml"
    log.write_text(f'{{"sample_id": "a", "text": "b", "x": {text(depth)}}}\n')
    table.write_text(f"[adapters.v1]\nx = {text(depth)}\n")
    pytest_table = tmp_path / "pytest.toml"
    pytest_table.write_text(f"[pytest]\nx = {text(depth)}\n")
    for read in (
        lambda: load_recorded(log),
        lambda: open_source(log),
        lambda: read_beside(log),
        lambda: list(list_tables(tmp_path, "adapters")),
        lambda: _pytest_table(pytest_table),
    ):
        with pytest.raises(CrucibleError, match=SENTENCE):
            read()


def declare(**facts) -> MetricFacts:
    return metric(name="quality", **facts)(lambda reply, sample: 0.5).facts


def test_a_reach_is_declared_with_bounds_or_without():
    assert declare(bounds=(0, 1), reach=0.25).largest_change == 0.25
    assert (declare(reach=3).kind, declare(reach=3).largest_change) == ("unbounded", 3.0)
    assert declare(kind="count", reach=2).largest_change == 2.0
    assert declare(bounds=(1, 5), reach=4).reach == 4.0
    assert (declare(bounds=(1, 5)).largest_change, declare().largest_change) == (4.0, math.inf)


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"reach": 0}, "metric 'quality' has reach=0: write a positive number"),
        ({"reach": -0.1}, "has reach=-0.1: write a positive number"),
        ({"reach": math.inf}, "has reach=inf: write a positive number"),
        ({"reach": math.nan}, "has reach=nan: write a positive number"),
        ({"reach": True}, "has reach=True: write a positive number"),
        ({"reach": "25 %"}, "has reach='25 %': write a positive number"),
        ({"reach": 2, "bounds": (0, 1)}, "has reach=2, and no two values between 0 and 1 are further apart than 1"),
        ({"reach": 0.5, "kind": "binary"}, "has reach=0.5, but it is yes or no, and changes by 1 or not at all"),
        ({"reach": 1, "kind": "text"}, "has reach=1, but it is text: leave reach out"),
    ],
)
def test_an_invalid_reach_has_one_sentence(facts, sentence):
    with pytest.raises(SpecError, match=r"^[^\n]*$") as refusal:
        declare(**facts)

    assert sentence in str(refusal.value)


def test_a_reach_is_stored_and_runs_without_one_load():
    facts = declare(bounds=(0, 1), reach=0.25)
    plain = to_plain(facts)

    assert from_plain(MetricFacts, plain) == facts
    del plain["reach"]
    assert from_plain(MetricFacts, plain) == MetricFacts(name="quality", kind="bounded", low=0.0, high=1.0)
