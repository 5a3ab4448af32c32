"""Durations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.records.settings import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        (" 30 min ", 1800),
        ("30 minutes", 1800),
        ("2h", 7200),
        ("2 hours", 7200),
        ("1h30m", 5400),
        ("1 h 30 min", 5400),
        ("1d", 86_400),
        ("2m59.56s", 179.56),
        ("17ms", 0.017),
        ("0s", 0),
    ],
)
def test_a_duration_is_read(text, seconds):
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", " ", "soon", "-3", "1e3", "3 parsecs", "min", "1m 30", "inf", "nan", "½ h"])
def test_anything_else_is_none(text):
    assert seconds_of(text) is None


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_parts_add_up(hours, minutes, seconds):
    assert seconds_of(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds
