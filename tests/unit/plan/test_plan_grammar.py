"""The grammar of targets and comparisons: what is printed can be parsed, and a parsed text has one printed form."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import SpecError
from pytest_crucible.plan.grammar import (
    RELATIONS,
    Bracket,
    By,
    Condition,
    Field,
    Requirement,
    Term,
    Value,
    parse_requirement,
    parse_value,
    shortest,
)

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.\-]{0,8}", fullmatch=True)
numbers = st.floats(allow_nan=False, allow_infinity=False)
relations = st.sampled_from(RELATIONS)
# A name whose last word is a number would be read as a numbered variant.
inner = st.from_regex(r"[^\[\]\s]([^\[\]\s]| [a-z])*", fullmatch=True)
brackets = st.builds(Bracket, inner, st.none() | numbers)
terms = st.builds(Term, names, st.none() | brackets)
fields = st.builds(Field, names, st.lists(numbers, max_size=3).map(tuple))
groupings = st.builds(By, st.lists(fields, min_size=1, max_size=3).map(tuple), st.none() | fields)
plain_values = st.builds(lambda term, by: Value((term,), by=by), terms, st.none() | groupings)
calls = st.builds(
    Value,
    st.lists(terms, min_size=1, max_size=3).map(tuple),
    names,
    st.none() | st.builds(Condition, relations, numbers),
    st.none() | groupings,
)
values = plain_values | calls
requirements = st.builds(Requirement, values, relations, numbers)


@given(requirements)
def test_a_printed_requirement_is_parsed_to_the_same_tree(tree):
    assert parse_requirement(str(tree), "this") == tree


@given(values)
def test_a_printed_value_is_parsed_to_the_same_tree(tree):
    assert parse_value(str(tree), "this") == tree


@given(requirements, st.sampled_from([" ", "  ", "\t"]))
def test_a_text_has_one_normal_form(tree, blank):
    """More blanks, the same tree; and the printed form of what was parsed is parsed to itself."""
    spread = f"{blank}{tree}{blank}".replace(" >= ", f"{blank}>={blank}")
    normal = str(parse_requirement(spread, "this"))

    assert normal == str(tree)
    assert str(parse_requirement(normal, "this")) == normal


@given(st.text(alphabet="ab .[]()&,<>=1-by", max_size=20))
def test_any_text_is_parsed_or_refused_at_a_place_within_it(text):
    try:
        assert parse_requirement(str(parse_requirement(text, "this")), "this")
    except SpecError as error:
        place = str(error).partition("(character ")[2].partition(")")[0]
        assert not place or text[int(place) - 1]


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("accuracy", Value((Term("accuracy"),))),
        ("accuracy[v1]", Value((Term("accuracy", Bracket("v1")),))),
        ("accuracy[attack 3]", Value((Term("accuracy", Bracket("attack", 3.0)),))),
        ("accuracy.overall", Value((Term("accuracy.overall"),))),
        ("by by by", Value((Term("by"),), by=By((Field("by"),)))),
        ("a by b & c within d", Value((Term("a"),), by=By((Field("b"), Field("c")), Field("d")))),
        ("a by within within within", Value((Term("a"),), by=By((Field("within"),), Field("within")))),
        (
            "gap(a > 1, b by metadata.length(100, 2e2))",
            Value(
                (Term("a"), Term("b")), "gap", Condition(">", 1.0), By((Field("metadata.length", (100.0, 200.0)),)),
            ),
        ),
    ],
)  # fmt: skip
def test_each_rule_of_the_grammar(text, tree):
    assert parse_value(text, "this") == tree


@pytest.mark.parametrize("number", [0.1, 2.0, -0.0, 1e-05, 1e300, 123456789.0, math.pi])
def test_the_shortest_text_of_a_number_reads_as_the_same_number(number):
    assert float(shortest(number)) == number
