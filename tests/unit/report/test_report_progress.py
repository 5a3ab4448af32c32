"""The live line."""

from __future__ import annotations

import pytest

from pytest_crucible.report.plan_lines import ProgressLine, progress_text


@pytest.mark.parametrize(
    ("done", "total", "lost", "seconds", "text"),
    [
        (0, 2638, 0, 0.0, "t  0/2,638"),
        (0, 2638, 0, 1.0, "t  0/2,638"),
        (500, 2000, 3, 2.0, "t  500/2,000  3 lost  250/s  6 s left"),
        (1204, 2638, 0, 2.92, "t  1,204/2,638  412/s  3 s left"),
        (1, 4, 0, 50.0, "t  1/4  0.02/s  2 min left"),
        (1, 1000, 1200, 100.0, "t  1/1,000  1,200 lost  0.01/s  28 h left"),
        (10, 10, 0, 5.0, "t  10/10  2/s  0 s left"),
    ],
)
def test_progress_shows_samples_rate_and_time_left(done, total, lost, seconds, text):
    assert progress_text("t", done, total, lost, seconds) == text


def test_progress_names_the_cause_of_a_wait_instead_of_the_time_left():
    text = progress_text("t", 5, 10, 1, 5.0, "pausing for 280 s, as the server asks")

    assert text == "t  5/10  1 lost  pausing for 280 s, as the server asks"


def shown(*calls: str) -> list[str]:
    written: list[str] = []
    line = ProgressLine(written.append, width=20, column=7)
    for call in calls:
        if call == "clear":
            line.clear()
        else:
            line.show(call, 1, 1_000_000, 5)
    return written


def test_the_progress_line_is_rewritten():
    first, second = shown("a_very_long_name_of_an_experiment", "t")

    assert first == "\n\ra_very_long_name_of"
    assert second.startswith("\rt  1/1,000,000  ")
    assert len(second) == 1 + 19


def test_clearing_returns_the_cursor():
    assert shown("t", "clear", "clear")[1:] == ["\r" + " " * 19 + "\x1b[1A\x1b[8G"]


def test_clearing_without_a_line_writes_nothing():
    assert shown("clear") == []


def test_a_cleared_line_begins_again_on_a_new_line():
    assert shown("t", "clear", "t")[2].startswith("\n\rt  ")
