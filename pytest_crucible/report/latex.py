r"""A report as LaTeX for a paper: booktabs tables, a paragraph of methods, and its references, in a file that compiles as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_crucible.records import Run
from pytest_crucible.report.aligning import DIGIT, POINT, aligned, typeset
from pytest_crucible.report.grids import Grid, named
from pytest_crucible.report.methods import Statement
from pytest_crucible.report.model import Report, report_of
from pytest_crucible.report.printable import printable

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
A_WORD = 18
"""Letters up to which a cell is never broken."""
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
    return _numbers(printable(text))


def _numbers(text: str) -> str:
    """What we wrote ourselves, blanks as wide as a digit too."""
    return "".join(map(_character, text))


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
            yield from _table(grid, caption, many=many)
    for remark in report.remarks:
        yield f"\\noindent {escaped(remark.strip())}.\n"
    yield "\\section*{Methods}"
    yield "\n".join(map(_sentence, report.methods)) + "\n"


def _sentence(one: Statement) -> str:
    return escaped(one.text.removesuffix(".")) + (f"~\\cite{{{','.join(one.cites)}}}." if one.cites else ".")


def _table(grid: Grid, caption: str, *, many: bool) -> Iterator[str]:
    """A table that goes on on the next page. With several experiments the rows of each stand under its name."""
    columns = [_set(grid, k) for k in range(len(grid.heads))]
    wide = len(columns)
    yield "{\\footnotesize\\setlength\\tabcolsep{4pt}"
    yield f"\\begin{{longtable}}{{@{{\\extracolsep{{\\fill}}}}{''.join(kind for kind, _ in columns)}@{{}}}}"
    yield f"\\caption{{{escaped(caption)}}} \\\\"
    head = f"\\toprule\n{_row(map(escaped, grid.heads))}\n\\midrule"
    yield f"{head}\n\\endfirsthead\n{head}\n\\endhead\n\\bottomrule\n\\endfoot"
    above = ""
    for row, *cells in zip(grid.rows, *(cells for _, cells in columns), strict=True):
        if many and row.experiment != above:
            above = row.experiment
            yield f"\\addlinespace\n{_across(wide, named(above), _BOLD)}*"
        below = _across(wide, row.below, _ITALIC) if row.below else ""
        yield _row(cells) + (f"*\n{below}" if below else "")
    yield "\\end{longtable}}\n"


def _set(grid: Grid, k: int) -> tuple[str, list[str]]:
    """How a column is set: numbers to the right, estimates by their decimal points, words in lines where they are many."""
    cells = [row.cells[k] for row in grid.rows]
    if grid.is_number(k):
        return "r", [_numbers(typeset(cell)) for cell in cells]
    if any(cell.endswith("]") for cell in cells):
        return "l", [_numbers(f"{number} {interval}") for number, interval in aligned(cells)]
    longest = max(map(len, cells))
    width = f"{min(0.3, longest / 100):.2f}{_LINE}"
    return ("l" if longest <= A_WORD else f">{{\\raggedright\\arraybackslash}}p{{{width}}}"), list(map(escaped, cells))


def _across(columns: int, text: str, shape: str) -> str:
    """A row of one text. It takes no width, which would be added to that of the last column."""
    box = f"\\makebox[0pt][l]{{\\parbox[t]{{0.95{_LINE}}}{{\\raggedright\\strut{shape} {escaped(text)}\\strut}}}}"
    return f"\\multicolumn{{{columns}}}{{@{{}}l@{{}}}}{{{box}}} \\\\"


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + " \\\\"
