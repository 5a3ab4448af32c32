"""Reading the number that a reply arrives at."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import NotApplicable, Reply, Sample
from pytest_crucible.metrics import final_number, final_number_matches

READ = [
    ("18", "18"),
    ("The answer is 18.", "18"),
    ("first 3, then 4", "4"),
    ("18, of course", "18"),
    ("it makes 3.50", "3.50"),
    (".5", "0.5"),
    ("-.5", "-0.5"),
    ("(18)", "18"),
    ("**18**", "18"),
    (r"\boxed{18}", "18"),
    ("x = -3", "-3"),
    ("+3", "3"),
    ("\N{MINUS SIGN}3", "-3"),
    ("(-3)", "-3"),
    ("16-3", "3"),
    ("16 - 3", "3"),
    ("16 -3", "3"),
    ("16\N{MINUS SIGN}3", "3"),
    ("f(2) -3", "3"),
    ("50% -3", "3"),
    ("16 - 3 = -13", "-13"),
    ("pages 10\N{EN DASH}12", "12"),
    ("1,250", "1250"),
    ("-1,250,000.75", "-1250000.75"),
    ("1,2", "2"),
    ("1,2500", "2500"),
    ("12,345,67", "67"),
    ("$18.00", "18.00"),
    ("-$5", "-5"),
    ("$-5", "-5"),
    ("€7", "7"),
    ("£1,000", "1000"),
    ("7 €", "7"),
    ("50%", "50"),
    ("2e3", "2000"),
    ("1.5E-2", "0.015"),
    ("6.02e+23", "6.02e23"),
    ("2 eggs", "2"),
    ("3 e", "3"),
    ("<<9*2=18>>18", "18"),
    ("GPT-4", "4"),
    ("0", "0"),
    ("007", "7"),
]


@pytest.mark.parametrize(("text", "number"), READ, ids=[text for text, _ in READ])
def test_the_last_number_is_read(text, number):
    assert final_number(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "none", "eighteen", "-", "$", "v2", "x2y", "...", "\N{SUPERSCRIPT TWO}"])
def test_a_text_without_a_number_has_none(text):
    assert final_number(text) is None


@given(
    st.decimals(-(10**12), 10**12, places=4),
    st.sampled_from(["{:f}", "{:,f}", "{:.4f}", "{:e}"]),
    st.sampled_from(["{}", "The answer is {}.", "It is {}, he said", "7 + 8 makes {}", "= **{}**", "({})", "4\n{}\n"]),
)
def test_a_number_that_is_printed_into_prose_is_read_back(number, form, prose):
    assert final_number(prose.format(form.format(number))) == number


@given(st.text(alphabet="0123456789,.-+eE$%() \N{MINUS SIGN}x"))
def test_any_text_is_read_without_an_error(text):
    number = final_number(text)

    assert number is None or number.is_finite()


# -- as a metric --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["18", "$18.00", "so 18.0 it is", "1.8e1"])
@pytest.mark.parametrize("expected", ["18", 18, 18.0, "9 * 2 = <<9*2=18>>18\n#### 18"])
def test_equal_numbers_match_however_they_are_written(text, expected):
    assert final_number_matches(Reply(text=text), Sample(id="a", input="", expected=expected)) is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [("17", "18"), ("-18", "18"), ("eighteen", "18"), ("18.000001", "18"), ("none", "none")],
    ids=["other", "sign", "no-number", "nearly", "neither"],
)
def test_different_and_missing_numbers_do_not_match(text, expected):
    assert final_number_matches(Reply(text=text), Sample(id="a", input="", expected=expected)) is False


def test_final_number_does_not_apply_without_an_expected_answer():
    assert final_number_matches(Reply(text="18"), Sample(id="a", input="")) == NotApplicable(
        "the sample has no expected answer: fields={'expected': 'NAME'} names its field"
    )
