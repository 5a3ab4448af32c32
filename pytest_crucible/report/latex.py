r"""A report as LaTeX for a paper: booktabs tables, a paragraph of methods, and its references, in a file that compiles as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_crucible.records import Run, Statement, Table, experiment_name
from pytest_crucible.report.model import Report, build_report
from pytest_crucible.report.printable import printable
from pytest_crucible.report.verdicts import DIGIT, POINT, align_estimates, typeset

_PREAMBLE = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage[utf8]{inputenc}
\usepackage[margin=2.5cm]{geometry}
\usepackage{array, booktabs, longtable}
\setlength\LTleft{0pt}
\setlength\LTright{0pt}
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
    # Two hyphens in a row would become a dash.
    "-": "{-}",
    "/": "/\\allowbreak{}",
    "\u2212": "$-$",
    DIGIT: "\\phantom{0}",
    POINT: "\\phantom{.}",
    "\n": " ",
    "\u00a0": "~",
    "\u202f": "\\,",
}
_LINE, _BOLD, _ITALIC = "\\linewidth", "\\bfseries", "\\leftskip1em\\itshape"
# Letters up to which a cell is never broken: names of metrics and methods stay in one piece.
A_WORD = 18
# Letters beyond this one need a font of their own.
_LAST_LATIN = "\u017f"


def render_latex(run: Run) -> str:
    """Return a run as a LaTeX document: `pdflatex`, `bibtex`, `pdflatex` twice; or `tectonic` once."""
    report = build_report(run)
    return "\n".join([_PREAMBLE, _entries(report), _BEGIN, *_body(report), _END]) + "\n"


def render_bibtex(run: Run) -> str:
    """Return the BibTeX entries that the methods of a run cite."""
    return _entries(build_report(run)) + "\n"


def escape_latex(text: str) -> str:
    r"""Return a text as LaTeX. A letter that needs a font of its own is written as its code point.

    >>> escape_latex("50 % of a_b"), escape_latex("你")
    ('50 \\% of a\\_\\allowbreak{}b', '[U+4F60]')
    """
    return _numbers(printable(text))


def _numbers(text: str) -> str:
    """Return our own text as LaTeX. It may have the blanks of aligned numbers, which `printable` would escape."""
    return "".join(
        _SPECIAL.get(letter, letter if letter <= _LAST_LATIN else f"[U+{ord(letter):04X}]") for letter in text
    )


def _entries(report: Report) -> str:
    return "\n\n".join(reference.bibtex() for reference in report.references)


def _body(report: Report) -> Iterator[str]:
    many = len(report.run.experiments) > 1
    yield f"\\noindent Run {escape_latex(report.run.id)}: {escape_latex(report.headline)}.\n"
    sections = [table for section in report.sections for table in section.tables if table.verbosity == 0]
    for table in (*report.verdicts, report.estimates, *sections):
        if table.rows:
            yield from _table(table, table.title, many=many)
    for remark in report.remarks:
        yield f"\\noindent {escape_latex(remark.strip())}.\n"
    yield "\\section*{Methods}"
    yield "\n".join(map(_sentence, report.methods)) + "\n"


def _sentence(statement: Statement) -> str:
    cites = f"~\\cite{{{','.join(statement.cites)}}}" if statement.cites else ""
    return f"{escape_latex(statement.text.removesuffix('.'))}{cites}."


def _table(grid: Table, caption: str, *, many: bool) -> Iterator[str]:
    """Return a table that continues on the next page. With several experiments the rows of each are under its name."""
    columns = [_set(grid, k) for k in range(len(grid.heads))]
    wide = len(columns)
    yield "{\\footnotesize\\setlength\\tabcolsep{4pt}"
    yield f"\\begin{{longtable}}{{@{{\\extracolsep{{\\fill}}}}{''.join(kind for kind, _ in columns)}@{{}}}}"
    yield f"\\caption{{{escape_latex(caption)}}} \\\\"
    head = f"\\toprule\n{_row(map(escape_latex, grid.heads))}\n\\midrule"
    yield f"{head}\n\\endfirsthead\n{head}\n\\endhead\n\\bottomrule\n\\endfoot"
    above = ""
    for row, *cells in zip(grid.rows, *(cells for _, cells in columns), strict=True):
        if many and row.experiment != above:
            above = row.experiment
            yield f"\\addlinespace\n{_across(wide, experiment_name(above), _BOLD)}*"
        below = _across(wide, row.below, _ITALIC) if row.below else ""
        yield _row(cells) + (f"*\n{below}" if below else "")
    yield "\\end{longtable}}\n"


def _set(grid: Table, k: int) -> tuple[str, list[str]]:
    """Return a column's alignment and its cells as LaTeX.

    Numbers are aligned right, estimates at their decimal points, and long texts are broken into lines.
    """
    cells = [row.cells[k] for row in grid.rows]
    if grid.is_number(k):
        return "r", [_numbers(typeset(cell)) for cell in cells]
    if any(cell.endswith("]") for cell in cells):
        return "l", [_numbers(f"{number} {interval}") for number, interval in align_estimates(cells)]
    longest = max(map(len, cells))
    width = f"{min(0.3, longest / 100):.2f}{_LINE}"
    kind = "l" if longest <= A_WORD else f">{{\\raggedright\\arraybackslash}}p{{{width}}}"
    return kind, list(map(escape_latex, cells))


def _across(columns: int, text: str, shape: str) -> str:
    # The box has no width: LaTeX would add it to the width of the last column.
    box = f"\\makebox[0pt][l]{{\\parbox[t]{{0.95{_LINE}}}{{\\raggedright\\strut{shape} {escape_latex(text)}\\strut}}}}"
    return f"\\multicolumn{{{columns}}}{{@{{}}l@{{}}}}{{{box}}} \\\\"


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + " \\\\"
