"""LaTeX: it compiles, whatever names and reasons have in them."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess

import pytest

from pytest_crucible.report.latex import escape_latex, render_bibtex, render_latex

HOSTILE = "50 % & #1 $x$ {a} ~ ^ \\input{/etc/passwd} a_b 你 😀 < > | \" ' ` --- \x1b[2J"


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
    verdicts = tuple(dataclasses.replace(verdict, reason=HOSTILE) for verdict in run().verdicts)
    (tmp_path / "run.tex").write_text(render_latex(run(verdicts=verdicts)), encoding="utf-8")

    for program in ("pdflatex", "bibtex", "pdflatex", "pdflatex"):
        options = ["-interaction=nonstopmode", "-halt-on-error"] if program == "pdflatex" else []
        done = subprocess.run([program, *options, "run"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]
    assert "undefined" not in (tmp_path / "run.log").read_text(encoding="latin-1")
    assert (tmp_path / "run.pdf").stat().st_size > 10_000
