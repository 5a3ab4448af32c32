r"""A report as LaTeX for a paper: booktabs tables, a paragraph of methods, and its references, in a file that compiles as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_crucible.records import Run
from pytest_crucible.report.grids import Grid
from pytest_crucible.report.methods import Statement
from pytest_crucible.report.model import Report, report_of
from pytest_crucible.report.printable import printable

_PREAMBLE = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage[utf8]{inputenc}
\usepackage[margin=2.5cm]{geometry}
\usepackage{array, booktabs, tabularx}
\begin{filecontents*}[overwrite]{\jobname-references.bib}"""
_BEGIN = r"""\end{filecontents*}
\begin{document}"""
_END = r"""\bibliographystyle{plain}
\bibliography{\jobname-references}
\end{document}"""
_SPECIAL = {
    **{character: f"\\{character}" for character in "&%$#{}"},
    "_": "\\_\\allowbreak{}",
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    '"': "\\textquotedbl{}",
    "'": "\\textquotesingle{}",
    "`": "\\textasciigrave{}",
    "-": "{-}",
    "\n": " ",
    "\u00a0": "~",
    "\u202f": "\\,",
}
_LAST_LATIN = "\u017f"
"""Beyond it a font must be chosen before a letter can be set."""


def render_latex(run: Run) -> str:
    """A run as a LaTeX document: `pdflatex`, `bibtex`, `pdflatex` twice; or `tectonic` once."""
    report = report_of(run)
    return "\n".join([_PREAMBLE, _entries(report), _BEGIN, *_body(report), _END]) + "\n"


def render_bibtex(run: Run) -> str:
    """What the methods of a run come from."""
    return _entries(report_of(run)) + "\n"


def escaped(text: str) -> str:
    r"""Text as it is set. A letter that needs a font of its own is written as its code point.

    >>> escaped("50 % of a_b"), escaped("你")
    ('50 \\% of a\\_\\allowbreak{}b', '[U+4F60]')
    """
    return "".join(_character(one) for one in printable(text))


def _character(one: str) -> str:
    if one in _SPECIAL:
        return _SPECIAL[one]
    return one if one <= _LAST_LATIN else f"[U+{ord(one):04X}]"


def _entries(report: Report) -> str:
    return "\n\n".join(one.bibtex() for one in report.references)


def _body(report: Report) -> Iterator[str]:
    many = len(report.run.experiments) > 1
    yield f"\\noindent Run {escaped(report.run.id)}: {escaped(report.headline)}.\n"
    captions = {
        "Quality targets": report.targets,
        "Comparisons of the candidate with its baselines": report.comparisons,
        "Estimates": report.estimates,
        "Findings of the antagonist": report.findings,
        "Findings and gold flags": report.agreement,
        "What it took to ask each arm": report.usage,
    }
    for caption, grid in captions.items():
        if grid.rows:
            yield from _table(grid.with_names() if many else grid, caption, words=1 + many)
    for remark in report.remarks:
        yield f"\\noindent {escaped(remark.strip())}.\n"
    yield "\\section*{Methods}"
    yield "\n".join(map(_sentence, report.methods)) + "\n"


def _sentence(one: Statement) -> str:
    return escaped(one.text.removesuffix(".")) + (f"~\\cite{{{','.join(one.cites)}}}." if one.cites else ".")


def _table(grid: Grid, caption: str, words: int) -> Iterator[str]:
    """The first `words` columns share what room the others leave."""
    wide = ">{\\raggedright\\arraybackslash}X" * words
    columns = wide + "".join("r" if grid.is_number(k) else "l" for k in range(words, len(grid.heads)))
    yield "\\begin{table}[htbp]\\centering\\footnotesize\\setlength\\tabcolsep{4pt}"
    yield f"\\caption{{{escaped(caption)}}}"
    yield f"\\begin{{tabularx}}{{\\linewidth}}{{@{{}}{columns}@{{}}}}"
    yield "\\toprule"
    yield _row(grid.heads)
    yield "\\midrule"
    for row in grid.rows:
        yield _row(row.cells)
        if row.below:
            below = f"\\footnotesize\\itshape {escaped(row.below)}"
            yield f"\\multicolumn{{{len(grid.heads)}}}{{@{{\\quad}}p{{0.92\\linewidth}}@{{}}}}{{{below}}} \\\\"
    yield "\\bottomrule\n\\end{tabularx}\n\\end{table}\n"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(_cell, cells)) + " \\\\"


def _cell(text: str) -> str:
    """Numbers have a minus, not a hyphen."""
    signed = text.replace("[-", "[\0").replace(", -", ", \0")
    signed = f"\0{signed[1:]}" if signed[:1] == "-" and len(signed) > 1 else signed
    return "$-$".join(map(escaped, signed.split("\0")))
