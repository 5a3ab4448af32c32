"""Reading the number that a reply arrives at."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_tables import read_table

from pytest_crucible import Reply, Sample
from pytest_crucible.metrics import final_number, final_number_matches
from pytest_crucible.metrics.text import NO_EXPECTED


@pytest.mark.parametrize("row", read_table("replies/numbers"), ids=lambda row: row["text"])
def test_the_last_number_is_read(row):
    assert final_number(row["text"]) == (None if row["number"] is None else Decimal(row["number"]))


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


@pytest.mark.parametrize("expected", ["18", 18, 18.0, "9 * 2 = <<9*2=18>>18\n#### 18"])
def test_equal_numbers_match_however_they_are_written(expected):
    sample = Sample(id="a", input="", expected=expected)

    for text in ("18", "$18.00", "so 18.0 it is", "1.8e1"):
        assert final_number_matches(Reply(text=text), sample) is True
    for text in ("17", "-18", "eighteen", "18.000001"):
        assert final_number_matches(Reply(text=text), sample) is False


def test_without_an_expected_number_nothing_matches():
    without, none = Sample(id="a", input=""), Sample(id="a", input="", expected="none")

    assert final_number_matches(Reply(text="none"), none) is False
    assert final_number_matches(Reply(text="18"), without) == NO_EXPECTED
