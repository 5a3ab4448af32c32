"""Aligned lines: each column begins, or ends, at one place of the terminal, whatever its texts are."""

from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.report.printable import aligned_lines, headed_lines, width_of

CELLS = st.text("ab1é得", max_size=5)
ROWS = st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[CELLS] * n), min_size=1, max_size=5))


def test_wide_characters_take_two_columns():
    assert aligned_lines([("sample", "n"), ("得分", "1")], right=(1,)) == ["sample  n", "得分    1"]


def test_a_column_is_two_blanks_wider_than_its_head():
    assert headed_lines(("arm", "n"), [("v1", "7"), ("v2", "12")], right=(1,)) == [
        "arm      n",
        "v1       7",
        "v2      12",
    ]


def test_no_rows_are_no_lines():
    assert aligned_lines([]) == []


@given(rows=ROWS, data=st.data())
def test_all_cells_of_a_column_begin_or_end_at_one_place(rows, data):
    count = len(rows[0])
    right = data.draw(st.sets(st.integers(0, count - 1)))
    widths = [max(width_of(row[k]) for row in rows) for k in range(count)]
    starts = [sum(widths[:k]) + 2 * k for k in range(count)]

    for line, row in zip(aligned_lines(rows, right), rows, strict=True):
        places = [start + (widths[k] - width_of(row[k]) if k in right else 0) for k, start in enumerate(starts)]
        expected = ""
        for place, cell in zip(places, row, strict=True):
            expected += " " * (place - width_of(expected)) + cell
        assert line == expected.rstrip()
