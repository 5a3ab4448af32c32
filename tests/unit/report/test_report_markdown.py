"""Markdown: the ruling first, every number as the terminal has it, and nothing that a model or a name says as markup."""

from __future__ import annotations

import dataclasses

from pytest_crucible.report.markdown import code, plain, render_markdown
from pytest_crucible.sections.worst_samples import WorstSample


def test_the_result_comes_first_then_the_tables(run):
    lines = render_markdown(run()).splitlines()

    assert lines[:3] == [
        "## ❌ v2 did worse than v1 on 198 samples, by 3.5 points [-1.6, 8.7] (exact), but that v2 is worse is not proven; "
        "2 of 3 gates hold, 1 is missed.",
        "",
        "3 verdicts: 1 missed, 2 met",
    ]
    assert lines[4:7] == [
        "| target | estimate [95 % interval] | n | lost | verdict |",
        "| :-- | :-- | --: | --: | :-- |",
        "| `exact >= 0.80` | 0.810 [0.750, 0.858] | 200 | 0 | ✅ met<br>"
        "<sub>unproven: one-sided bound 0.76 &lt; target 0.80; proof needs about n=12,000 at this estimate (80 % power)</sub> |",
    ]
    assert "| `exact: v2 vs v1` | -0.035 [-0.087, +0.016] | 198 | 2 | 0.180 | ❌ missed, proven<br>" in "\n".join(lines)


def test_remarks_follow_and_the_rest_is_folded(run):
    text = render_markdown(run())

    assert "- test\\_sums: v2: 2 samples lost (error)" in text or "- test_sums: v2: 2 samples lost (error)" in text
    for title in ("All estimates", "Worst samples", "Methods", "Environment"):
        assert f"<details><summary>{title}</summary>" in text
    assert text.count("<details>") == text.count("</details>")


def test_each_row_names_its_experiment_where_there_are_several(run, analysis, plan):
    text = render_markdown(run(analysis(), analysis(plan(nodeid="test_math.py::test_products"))))

    assert "| `test_products` | `exact: v2 vs v1` |" in text


def test_experiments_without_verdicts_show_estimates(run, analysis, plan):
    text = render_markdown(
        run(analysis(plan(targets=(), contrasts=()), targets=(), comparisons=()), verdicts=(), family_size=0)
    )

    assert text.startswith("## No gate was decided.\n\nno verdicts\n")
    assert "0.810 [0.750, 0.858]" in text.partition("<details>")[0]


def test_a_reply_stays_in_its_fence(run, analysis):
    reply = "```\n</details> @everyone\n````\x1b[2J"
    worst = (WorstSample(metric="exact", value=0.0, baseline_value=None, sample="a`|b", reply=reply),)

    text = render_markdown(run(analysis(worst=worst)))

    assert "`````text\n```\n</details> @everyone\n````\\x1b[2J\n`````" in text
    assert "`` a`|b ``: exact = 0\n" in text


def test_names_are_not_markup(run):
    verdicts = run().verdicts
    hostile = dataclasses.replace(verdicts[2], reason="see [x](javascript:1) <img> #12 @me https://e.vil | *b*")

    text = render_markdown(run(verdicts=(*verdicts[:2], hostile)))

    for markup in ("](", "<img", "#12", "@me", "https://"):
        assert markup not in text.partition("<details>")[0]


def test_a_line_break_in_a_name_stays_in_its_cell(run, analysis):
    (pair,) = analysis().comparisons
    text = render_markdown(
        run(
            analysis(comparisons=(dataclasses.replace(pair, candidate="v|2"),)),
            verdicts=tuple(
                dataclasses.replace(verdict, subject=verdict.subject.replace("v2", "v|2")) for verdict in run().verdicts
            ),
        )
    )

    assert "| `exact: v\\|2 vs v1` | -0.035" in text


def test_code_and_plain_text_are_one_line():
    assert "\n" not in code("a\nb") + plain("a\nb")


def test_errors_in_the_suite_without_a_row_are_reported(run):
    met, *others = run().verdicts
    mistaken = dataclasses.replace(met, subject="typo >= 1", state="undecided", reason="no number", suite_error=True)

    text = render_markdown(run(verdicts=(met, *others, mistaken)))

    assert "2 of 4 gates hold, 1 is missed, 1 is in error.\n" in text
    assert "\n4 verdicts: 1 missed, 1 undecided, 2 met; 1 error in the suite\n" in text
    assert "- test_sums: typo >= 1: error in the suite: no number" in text


def test_details_of_a_remark_follow_it(run, analysis):
    text = render_markdown(run(analysis(first_lost={"v2": {"error": "the line is dead"}})))

    assert "- test_sums: v2: 2 samples lost (error); first: the line is dead\n" in text


def test_the_longest_folded_parts_are_left_out_of_a_long_comment(run, analysis):
    worst = tuple(
        WorstSample(metric="exact", value=0.0, baseline_value=None, sample=f"q{k}", reply="no") for k in range(99)
    )
    whole, shortened = (render_markdown(run(analysis(worst=worst)), most=most) for most in (10**6, 4_000))

    assert len(shortened) <= 4_000 < len(whole)
    assert "Left out, to be short enough: Worst samples" in shortened
    assert "<summary>Worst samples</summary>" not in shortened
    assert shortened.partition("<details>")[0] == whole.partition("<details>")[0]
    assert shortened.count("<details>") == shortened.count("</details>")
    assert "Left out" not in whole


def test_verdicts_are_never_left_out(run):
    shortened = render_markdown(run(), most=10)

    assert "<details>" not in shortened
    assert "`exact: v2 vs v1`" in shortened


def test_a_worst_sample_shows_its_question_the_expected_answer_and_the_reply(run, analysis):
    worst = WorstSample(
        metric="exact", value=0.0, baseline_value=1.0, sample="q7", reply="5", input="What is\n2 + 2?", expected="4"
    )
    text = render_markdown(run(analysis(worst=(worst,))))

    shown = text.partition("<summary>Worst samples</summary>")[2].partition("</details>")[0]
    assert (
        "question:\n\n```text\nWhat is\n2 + 2?\n```\n\nexpected:\n\n```text\n4\n```\n\nreply:\n\n```text\n5\n```"
        in shown
    )
