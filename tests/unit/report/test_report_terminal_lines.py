"""Lines of a terminal: slices that are folded, progress, an A/A self-test, and text of a model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.commands.statistics import self_test_lines
from pytest_crucible.plan.grammar import parse_fields
from pytest_crucible.records import AATest, Verdict
from pytest_crucible.report.model import build_report
from pytest_crucible.report.plan_lines import ProgressLine, progress_text
from pytest_crucible.report.printable import printable
from pytest_crucible.report.sections import fold_slices
from pytest_crucible.report.terminal import summary
from pytest_crucible.stats.interval import Interval

NODEID = "test_math.py::test_sums"
STATES = {4: "missed", 70: "missed", 50: "undecided"}


@pytest.fixture
def by_topic(run, analysis):
    """Return a function that makes a run of this many slices, after a comparison of all samples: slice 0 is the best."""

    def make(slices=75, proven=False):
        whole = analysis()
        (first,) = whole.comparisons
        of_slices = [
            replace(
                first,
                contrast=replace(first.contrast, by=parse_fields("topic", "by"), slice=f"t{k:02}", slice_size=20),
                difference=-k / 100,
            )
            for k in range(slices)
        ]
        verdicts = [
            Verdict(
                nodeid=NODEID,
                subject=each.contrast.subject(each.candidate),
                kind="comparison",
                state=STATES.get(k, "met"),
                proven=proven or k in STATES,
                reason="",
            )
            for k, each in enumerate(of_slices)
        ]
        whole_run = run(replace(whole, comparisons=(first, *of_slices)))
        return replace(whole_run, verdicts=(*whole_run.verdicts, *verdicts))

    return make


def shown_slices(run):
    return [each.contrast.slice for each in run.experiments[0].comparisons]


def summary_texts(run, verbosity=0):
    return [line.text for line in summary(run, verbosity=verbosity, width=200)]


def test_the_worst_slices_are_shown_and_the_others_are_counted(by_topic):
    folded, (sentence,) = fold_slices(by_topic())

    assert shown_slices(folded) == ["", "t70", "t04", "t50", "t74", "t73", "t72"]
    assert sentence == "test_sums: exact by topic: v2 vs v1: 69 slices more: 69 met; -v shows all of them"
    printed = summary_texts(by_topic())
    assert sentence in printed
    assert sum("exact by topic = " in line for line in printed) == 6


def test_verbose_shows_all_slices(by_topic):
    printed = summary_texts(by_topic(), verbosity=1)

    assert len({line.split(" ")[4] for line in printed if line.startswith("exact by topic = ")}) == 75
    assert not any("slices more" in line for line in printed)


def test_a_few_slices_are_not_folded(by_topic):
    folded, sentences = fold_slices(by_topic(6))

    assert (len(shown_slices(folded)), sentences) == (7, ())


def test_quiet_counts_only_slices_that_are_not_met_or_not_proven(by_topic):
    assert "slices more" in summary_texts(by_topic(), verbosity=-1)[-1]
    assert not any("slices more" in line for line in summary_texts(by_topic(proven=True), verbosity=-1))


def test_reports_have_all_slices_from_the_worst_on(by_topic):
    rows = build_report(by_topic()).verdicts[1].rows

    assert [row.cells[0] for row in rows[:4]] == [
        "exact: v2 vs v1",
        "exact by topic = t70: v2 vs v1",
        "exact by topic = t04: v2 vs v1",
        "exact by topic = t50: v2 vs v1",
    ]
    assert len(rows) == 76


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


def written_lines(*calls: str) -> list[str]:
    written: list[str] = []
    line = ProgressLine(written.append, width=20, column=7)
    for call in calls:
        if call == "clear":
            line.clear()
        else:
            line.show(call, 1, 1_000_000, 5)
    return written


def test_the_progress_line_is_rewritten():
    first, second = written_lines("a_very_long_name_of_an_experiment", "t")

    assert first == "\n\ra_very_long_name_of"
    assert second.startswith("\rt  1/1,000,000  ")
    assert len(second) == 1 + 19


def test_clearing_returns_the_cursor():
    assert written_lines("t", "clear", "clear")[1:] == ["\r" + " " * 19 + "\x1b[1A\x1b[8G"]


def test_clearing_without_a_line_writes_nothing():
    assert written_lines("clear") == []


def test_a_cleared_line_begins_again_on_a_new_line():
    assert written_lines("t", "clear", "t")[2].startswith("\n\rt  ")


GOOD = AATest(
    metric="exact", dealt="v2, 5 repeats", samples=1200, left_out=0, replicates=2000, alpha=0.05, seed=7, clusters=40,
    method="cr2", rate=0.048, interval=Interval(low=0.037, high=0.062, level=0.99, method="wilson"), holds=True,
)  # fmt: skip
BAD = replace(GOOD, metric="latency_s", rate=0.2, holds=False, left_out=3)
UNTRIED = replace(GOOD, rate=None, interval=None, holds=None, note="too few samples or groups for an answer")


def lines(*tests: AATest) -> list[str]:
    return list(self_test_lines("run1", {"t.py::t": tests}))


def test_a_rate_comes_with_its_interval_n_and_method():
    head, _, nodeid, _, row, _, conclusion = lines(GOOD)

    assert head.startswith("A/A self-test of run run1: ")
    assert "2,000 replicates with seed 7, alpha 0.05" in head
    assert nodeid == "t.py::t"
    for part in ("exact", "v2, 5 repeats", "1,200 in 40 groups", "cr2", "0.048 [0.037, 0.062]"):
        assert part in row
    assert conclusion == "Every comparison that could be tried keeps its error rate on these samples."


def test_too_many_false_alarms_name_the_metric_and_the_remedy():
    *_, row, _, conclusion = lines(GOOD, BAD)

    assert row.endswith("too many; 3 samples lack a score")
    assert conclusion.startswith("Comparisons of latency_s raise too many false alarms on these samples: declare")


def test_untried_comparisons_are_not_called_good():
    *_, row, _, conclusion = lines(UNTRIED)

    assert row.split("cr2")[1].split() == ["-", "too", "few", "samples", "or", "groups", "for", "an", "answer"]
    assert conclusion == "No comparison could be tried."


@given(st.text(st.characters(exclude_categories=())))
def test_printed_text_has_no_control_characters(text):
    printed = printable(text)

    assert all(character.isprintable() or character in "\n\u00a0\u202f\u3000" for character in printed)
    assert printed.encode("utf-8").decode("utf-8") == printed


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=100))
def test_plain_text_stays_as_it_is(text):
    assert printable(text) == text


def test_long_text_is_cut_with_the_number_of_characters():
    assert printable("ab" * 1000, 3) == "aba... (1,997 characters more)"
