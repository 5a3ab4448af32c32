"""Text of a model made safe for a terminal: it can neither move the cursor nor fill the screen."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING
from unicodedata import combining, east_asian_width

if TYPE_CHECKING:
    from pytest_crucible.records import Table

# Characters of a text in a sentence or a cell; a longer one is cut.
MOST = 2_000
# Characters of a sample's id: beside a number in a table or above a reply, a long one would hide everything else.
AN_ID = 200
# Characters of a line of a conversation: a reply is printed whole, and a file that a test sent by mistake is not.
A_LINE = 100_000
# Characters of the longest escape of one character: `\\U0001f600`.
LONGEST_ESCAPE = 10
# Not printable to Python, but harmless. The last two join and part letters of Persian and Hindi, and parts of an emoji.
_HARMLESS = "\n\u00a0\u2007\u2008\u202f\u3000\u200c\u200d"


def printable(text: str, most: int = MOST) -> str:
    r"""Control, formatting and half characters as escapes (`\x1b`), tabs as blanks, and no more than `most` characters.

    >>> printable("\x1b[2Jred\t\u202eevil"), printable("a" * 30, 10)
    ('\\x1b[2Jred \\u202eevil', 'aaaaaaaaaa... (20 characters more)')
    """
    # Most texts are printable, and a report may have a million of them: the loop below would take long.
    if len(text) <= most and text.replace("\n", "").isprintable():
        return text
    parts: list[str] = []
    room = most
    for character in text:
        parts.append(
            character
            if character.isprintable() or character in _HARMLESS
            else (" " if character == "\t" else character.encode("unicode_escape").decode("ascii"))
        )
        room -= len(parts[-1])
        if room < 0:
            parts.pop()
            break
    left = len(text) - len(parts)
    return "".join(parts) + (f"... ({left:,} characters more)" if left else "")


def printable_cell(text: str, most: int = MOST) -> str:
    r"""Return a text for a cell of a table: printable, and on one line.

    >>> printable_cell("a\nb\u2028c")
    'a\\nb\\u2028c'
    """
    return printable(text, most).replace("\n", "\\n")


def printable_json(text: str) -> str:
    r"""Return JSON in which the same characters are JSON's own escapes: it has the same values, and is safe to show.

    >>> printable_json('"\u202e\x7f é"')
    '"\\u202e\\u007f é"'
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in _HARMLESS else _json_escape(character)
        for character in text
    )


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def aligned_lines(rows: Iterable[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """Return rows, the first of them the heads, as lines with aligned columns; those at the positions `right` to the right.

    >>> aligned_lines([("metric", "n"), ("accuracy", "240"), ("f1", "9")], right=(1,))
    ['metric      n', 'accuracy  240', 'f1          9']
    """
    return _align([*rows], right, at_least=0)


def headed_lines(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """Return rows below their heads as aligned lines; a column is two blanks wider than its head."""
    return _align([heads, *rows], right, at_least=2)


def _align(rows: Sequence[Sequence[str]], right: Container[int], *, at_least: int) -> list[str]:
    """Return rows as aligned lines, without blanks around cells; a column is at least so much wider than its first cell.

    Blanks before the first cell of a row are its indentation.
    """
    rows = [[first.rstrip(), *(cell.strip() for cell in cells)] for first, *cells in rows]
    widths = [[width_of(cell) for cell in row] for row in rows]
    columns = [max(column[0] + at_least, *column) for column in zip(*widths, strict=True)]
    lines = []
    for row, row_widths in zip(rows, widths, strict=True):
        blanks = [" " * (column - width) for column, width in zip(columns, row_widths, strict=True)]
        padded = (
            blank + cell if k in right else cell + blank
            for k, (cell, blank) in enumerate(zip(row, blanks, strict=True))
        )
        lines.append("  ".join(padded).rstrip())
    return lines


def width_of(text: str) -> int:
    """Return the columns of a terminal that a text takes: two for a wide character, none for an accent that follows its letter.

    >>> width_of("score"), width_of("得分"), width_of("e\u0301")
    (5, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(0 if combining(character) else 1 + (east_asian_width(character) in "FW") for character in text)


def table_lines(table: Table) -> list[str]:
    """Return a table of a view as lines, numbers to the right."""
    right = [k for k, head in enumerate(table.heads) if head in table.numbers]
    heads = [printable_cell(head) for head in table.heads]
    return headed_lines(heads, [[printable_cell(cell) for cell in row.cells] for row in table.rows], right)
