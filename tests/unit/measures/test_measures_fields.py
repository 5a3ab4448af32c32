"""Fields of samples: where they are read, how they are cut and crossed, and what is wrong with them."""

from __future__ import annotations

import pytest

from pytest_crucible.measures.fields import advise_cuts, field_problem, read_field, slice_samples
from pytest_crucible.records.datasets import By, Field, short_name


def by(*names, within=None, cuts=()):
    return By(tuple(Field(name, cuts) for name in names), None if within is None else Field(within))


def slice_by(fields, metadata):
    slicing = slice_samples(fields, [None] * len(metadata), metadata)
    return slicing.names, slicing.codes.tolist()


@pytest.mark.parametrize(
    ("name", "expected", "metadata", "value"),
    [
        ("sex", None, {"sex": "f"}, "f"),
        ("label", {"label": "yes"}, {}, "yes"),
        ("label", {"label": "yes"}, {"label": "no"}, "no"),
        ("expected.label", {"label": "yes"}, {"label": "no"}, "yes"),
        ("expected", "yes", {}, "yes"),
        ("sex", None, {"metadata": {"sex": "f"}}, "f"),
        ("author.country", None, {"author": {"country": "de"}}, "de"),
        ("sex", None, {}, None),
        ("a.b", None, {"a.b": 1}, 1),
    ],
)
def test_a_field_is_a_key_of_metadata_or_of_expected(name, expected, metadata, value):
    assert read_field(name, expected, metadata) == value


def test_samples_without_a_value_are_in_no_slice():
    metadata = [{"sex": "m"}, {}, {"sex": None}, {"sex": ""}, {"sex": "f"}]

    assert slice_by(by("sex"), metadata) == (("f", "m"), [1, -1, -1, -1, 0])


def test_numbers_are_cut_from_each_limit_upwards():
    names, codes = slice_by(
        by("age", cuts=(25.0, 45.0)), [{"age": value} for value in (24, 25, 44.5, 45, "60", None, "old")]
    )

    assert names == ("below 25", "25 to below 45", "45 and above")
    assert codes == [0, 1, 1, 2, 2, -1, -1]


def test_crossed_fields_have_the_combinations_that_exist():
    metadata = [{"sex": "f", "race": "a"}, {"sex": "m", "race": "b"}, {"sex": "m"}, {"sex": "f", "race": "b"}]

    assert slice_by(by("sex", "race"), metadata) == (("f & a", "f & b", "m & b"), [0, 2, -1, 1])


def test_two_combinations_never_have_one_name():
    metadata = [{"a": "x & y", "b": "z"}, {"a": "x", "b": "y & z"}, {"a": '"x', "b": "y"}]

    names, codes = slice_by(by("a", "b"), metadata)

    assert names == ('"\\"x" & y', 'x & "y & z"', '"x & y" & z')
    assert sorted(codes) == [0, 1, 2]


def test_names_that_only_look_alike_are_told_apart():
    composed, decomposed = "caf\u00e9", "cafe\u0301"

    assert short_name(composed) == composed
    assert short_name(decomposed).startswith(f"{decomposed}#")


def test_a_number_too_large_for_a_float_is_a_name():
    assert slice_by(by("a"), [{"a": 10**400}, {"a": 1}]) == (("1", str(10**400)), [1, 0])


def test_values_of_other_types_have_names():
    names, _ = slice_by(by("x"), [{"x": value} for value in (True, 2, 10, 1.5, ["a"], "z\n1")])

    assert names == ("1.5", "2", "10", '["a"]', "true", "z\n1")


@pytest.mark.parametrize(
    ("fields", "metadata", "problem"),
    [
        (by("sexe"), [{"sex": "f"}] * 4, "no sample has a field 'sexe'; did you mean 'sex'?"),
        (by("x"), [{}] * 4, "no sample has a field 'x'; samples have no metadata and no expected"),
        (by("sex"), [{"sex": "male"}] * 4, 'every sample has sex = "male"; choose another field'),
        (
            by("age"),
            [{"age": k} for k in range(18, 65)],
            "nearly every sample has its own 'age'; cut it: by age(33, 49)",
        ),
        (by("x"), [{"x": x} for x in ("inf", 1, 2, 3)], "nearly every sample has its own 'x'; choose another field"),
        (by("name"), [{"name": f"n{k}"} for k in range(9)], "nearly every sample has its own 'name'; choose another"),
        (by("sex", cuts=(2.0,)), [{"sex": "f"}, {"sex": "m"}], "no sample has a number as 'sex'; leave out the cuts"),
        (by("n", cuts=(5.0, 2.0)), [{"n": 1}, {"n": 9}], "the cuts of 'n' must rise: write n(2, 5)"),
        (
            by("sex", within="agee"),
            [{"sex": "f", "age": 1}, {"sex": "m", "age": 2}],
            "no sample has a field 'agee'; did",
        ),
        (by("n", cuts=(5.0,)), [{"n": 1}, {"n": 2}], 'every sample has n(5) = "below 5"; choose other cuts'),
        (by("sex"), [{"sex": None}, {"sex": ""}], "'sex' is null or empty in every sample; choose another field"),
        (by("sex", "sex"), [{"sex": "f"}, {"sex": "m"}], "it names 'sex' twice; leave one out"),
        (by("sex", within="sex"), [{"sex": "f"}, {"sex": "m"}], "it names 'sex' twice; leave one out"),
        (by("sex"), [{"sex": "f"}, {"sex": "m"}, {}, {}], ""),
    ],
)
def test_fields_that_do_not_divide_the_samples_are_explained(fields, metadata, problem):
    result = field_problem(fields, [None] * len(metadata), metadata)

    assert result.startswith(problem)
    assert bool(result) == bool(problem)


@pytest.mark.parametrize(
    ("fields", "values", "advice"),
    [
        (
            by("age"),
            [18 + k % 53 for k in range(800)],
            "53 slices have 15 samples on average, and prove little; cut the",
        ),
        (by("age", cuts=(30.0,)), [18 + k % 53 for k in range(800)], ""),
        (by("topic"), [f"topic {k % 53}" for k in range(800)], ""),
        (by("year"), [2000 + k % 21 for k in range(800)], ""),
        (by("stars"), [k % 5 for k in range(40)], ""),
        (by("x"), ["inf", "nan", *range(40)], ""),
        (by("age", "sex"), [18 + k % 53 for k in range(800)], ""),
        (by("age"), [None, *(18 + k % 53 for k in range(800))], "53 slices"),
    ],
)
def test_a_quantity_with_few_samples_at_each_number_is_to_be_cut(fields, values, advice):
    metadata = [{fields.fields[0].name: value, "sex": "f"} for value in values]

    result = advise_cuts(fields, slice_samples(fields, [None] * len(metadata), metadata))

    assert result.startswith(advice)
    assert bool(result) == bool(advice)
