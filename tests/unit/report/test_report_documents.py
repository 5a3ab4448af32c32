"""Reports as Markdown and LaTeX, with methods in sentences and their references."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import pytest

from pytest_crucible.features.slices import fairness_section, search_section
from pytest_crucible.features.sweeps import section as sweep
from pytest_crucible.report.latex import escape_latex, render_bibtex, render_latex
from pytest_crucible.report.markdown import code, plain, render_markdown
from pytest_crucible.report.model import cited_keys, known_references, method_statements, read_table
from pytest_crucible.sections import many_arms
from pytest_crucible.sections.worst_samples import WorstSample
from pytest_crucible.stats import TABLE


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
    hostile = replace(verdicts[2], reason="see [x](javascript:1) <img> #12 @me https://e.vil | *b*")

    text = render_markdown(run(verdicts=(*verdicts[:2], hostile)))

    for markup in ("](", "<img", "#12", "@me", "https://"):
        assert markup not in text.partition("<details>")[0]


def test_a_line_break_in_a_name_stays_in_its_cell(run, analysis):
    (pair,) = analysis().comparisons
    text = render_markdown(
        run(
            analysis(comparisons=(replace(pair, candidate="v|2"),)),
            verdicts=tuple(
                replace(verdict, subject=verdict.subject.replace("v2", "v|2")) for verdict in run().verdicts
            ),
        )
    )

    assert "| `exact: v\\|2 vs v1` | -0.035" in text


def test_code_and_plain_text_are_one_line():
    assert "\n" not in code("a\nb") + plain("a\nb")


def test_errors_in_the_suite_without_a_row_are_reported(run):
    met, *others = run().verdicts
    mistaken = replace(met, subject="typo >= 1", state="undecided", reason="no number", suite_error=True)

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

    excerpt = text.partition("<summary>Worst samples</summary>")[2].partition("</details>")[0]
    assert (
        "question:\n\n```text\nWhat is\n2 + 2?\n```\n\nexpected:\n\n```text\n4\n```\n\nreply:\n\n```text\n5\n```"
        in excerpt
    )


HOSTILE_TEXT = "50 % & #1 $x$ {a} ~ ^ \\input{/etc/passwd} a_b 你 😀 < > | \" ' ` --- \x1b[2J"


def test_tables_have_rules_and_the_cells_of_the_report(run):
    text = render_latex(run())

    assert text.count("\\caption") == text.count("\\bottomrule") == 3
    assert text.count("\\toprule") == 6  # once more where a table goes on on the next page
    assert "exact: v2 vs v1 & $-$0.035 [$-$0.087, +0.016] & 198 & 2 & 0.180 & missed, proven" in text
    assert "Wilson\\textquotesingle{}s score interval~\\cite{wilson1927}." in text


def test_every_citation_is_in_the_bibliography(run):
    entries = render_bibtex(run())

    assert [line for line in entries.splitlines() if line.startswith("@")] == [
        "@article{wilson1927,", "@article{fagerland2013,", "@article{lloyd2007,", "@article{tango1998,", "@article{berger1994,",
        "@article{clopper1934,", "@article{mcnemar1947,",
    ]  # fmt: skip
    assert entries.strip() in render_latex(run())


def test_texts_contain_no_latex_commands():
    assert escape_latex("\\input{x}") == "\\textbackslash{}input\\{x\\}"
    assert escape_latex("$a_1$ & 5 %") == "\\$a\\_\\allowbreak{}1\\$ \\& 5 \\%"


@pytest.mark.slow
def test_hostile_names_and_reasons_compile(run, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex here")
    verdicts = tuple(replace(verdict, reason=HOSTILE_TEXT) for verdict in run().verdicts)
    (tmp_path / "run.tex").write_text(render_latex(run(verdicts=verdicts)), encoding="utf-8")

    for program in ("pdflatex", "bibtex", "pdflatex", "pdflatex"):
        options = ["-interaction=nonstopmode", "-halt-on-error"] if program == "pdflatex" else []
        done = subprocess.run([program, *options, "run"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]
    assert "undefined" not in (tmp_path / "run.log").read_text(encoding="latin-1")
    assert (tmp_path / "run.pdf").stat().st_size > 10_000


WITHOUT_DOI = {"banerjee1961", "cochran1977", "korn1998", "bell2002", "holm1979", "gaffke2005", "westfall1993"}
"""Journals that give none to papers of these years."""


def test_every_method_of_a_session_has_words():
    used = {
        row.method
        for row in TABLE
        if (row.question in ("estimate", "bound") and row.design == "one arm")
        or (row.question in ("compare", "margin", "ratio claim", "ratio margin") and row.design == "pairs")
    }  # fmt: skip

    assert used - {"none"} <= set(read_table("methods"))


def test_citations_and_references_match():
    keys = {key for _, *cites in read_table("methods").values() for key in cites} | {
        *("mcnemar1947", "holm1979", "hyndman1996"),
        *("phipson2010", "besag1991", "chen2021", "yao2024"),
    }

    of_sections = {*many_arms.METHOD.cites, *sweep.CITES, *fairness_section.CITES, *search_section.CITES}
    assert keys | of_sections == set(known_references())


def test_references_have_the_fields_that_bibtex_requires():
    for entry in known_references().values():
        assert {"author", "title", "year"} <= set(entry.fields)
        assert {"journal", "volume", "pages"} <= set(entry.fields) or "publisher" in entry.fields
        assert entry.bibtex().startswith(f"@{entry.type}{{{entry.key},\n")
        assert entry.fields["year"] in entry.plain()
        assert "doi" in entry.fields or entry.key in WITHOUT_DOI
        assert not entry.fields.get("edition", "Third")[0].isdigit()  # styles write it before the word edition


def test_a_book_is_cited_with_its_edition():
    statements = known_references()["david2003"].plain()

    assert statements == (
        "David, Herbert A. and Nagaraja, Haikady N. (2003). Order Statistics, third edition. Wiley. doi:10.1002/0471722162"
    )


def test_the_methods_of_a_run_are_described(run):
    sentences = [entry.text for entry in method_statements(run())]

    assert (
        sentences[0]
        == "Intervals are two-sided at 95 % unless another level is beside them; n counts samples, and lost ones are counted apart."
    )
    assert "Estimates are by Wilson's score interval." in sentences
    assert any(text.startswith("A verdict is called proven only where") for text in sentences)  # v2 lost two
    assert not any("Holm" in text for text in sentences)
    assert any("over the 3 comparisons" in entry.text for entry in method_statements(run(family_size=3)))
    assert cited_keys(list(method_statements(run()))) == (
        "wilson1927", "fagerland2013", "lloyd2007", "tango1998", "berger1994", "clopper1934", "mcnemar1947"
    )  # fmt: skip


def test_permutation_tests_and_their_bounds_are_described(run, analysis):
    [exact] = analysis().comparisons
    interval = replace(exact.interval, method="gaffke")
    flipped = replace(exact, method="sign flips", arrangements=10_000, proof_p=0.3, p_exact=None, interval=interval)
    counted = replace(flipped, arrangements=1_024, is_exact=True)

    statements = list(method_statements(run(analysis(comparisons=(flipped, counted)), family_size=2)))
    texts = [statement.text for statement in statements]

    assert any(text.startswith("Differences are by Gaffke's bound") for text in texts)
    assert (
        "Tests that the replies of two arms could be exchanged are by sign flips of the pairs' differences, whole groups together, "
        "with the studentised mean." in texts
    )
    assert (
        "Each compares 1,024 to 10,000 arrangements, and p is the share of those as extreme as the observed one, itself included. "
        "Random arrangements are drawn by the seed of the run. They do not show that a mean is lower or higher; that is called "
        "proven by bounds alone." in texts
    )
    assert any("in two families" in text for text in texts)
    assert {"pesarin2010", "hemerik2020", "phipson2010", "besag1991"} <= set(cited_keys(statements))


def test_random_factors_are_named(run, plan):
    """The sentence stands before the method of the interval."""
    whole = run()
    experiments = tuple(
        replace(entry, plan=replace(entry.plan, rounds=3, repeats=3 * entry.plan.repeats))
        for entry in whole.experiments
    )

    sentences = [entry.text for entry in method_statements(replace(whole, experiments=experiments))]

    assert "Random factors, whose noise the intervals count: rounds." in sentences
