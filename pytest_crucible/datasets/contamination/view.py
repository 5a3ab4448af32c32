"""Samples that training rows match, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.datasets.contamination.compare import LEAST_COSINE, Similar
from pytest_crucible.datasets.contamination.matching import SHORT
from pytest_crucible.records import Note, Row, Statement, Table, View
from pytest_crucible.records.contamination import How, Match, Overlap
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.stats.number_format import quantity

# Rows of the table of matches: more are not read, and JSON has all.
MOST_MATCHES = 100
_HOW: tuple[How, ...] = ("exact", "long", "near", "group")


def overlap_text(overlap: Overlap) -> str:
    """Return the result of one file in a sentence.

    >>> overlap_text(Overlap(file="train.jsonl", problem="it does not exist"))
    'train.jsonl cannot be checked: it does not exist'
    """
    if overlap.problem:
        return f"{overlap.file} cannot be checked: {overlap.problem}"
    counts = Counter(match.how for match in overlap.matches)
    kinds = ", ".join(f"{counts[how]} {how}" for how in _HOW if counts[how])
    others = sum(match.other_answer for match in overlap.matches)
    answers = f"; {others:,} of them with another answer" if others else ""
    details = f" ({kinds}{answers})" if overlap.matches else ""
    verb = "matches" if len(overlap.matches) == 1 else "match"
    return f"{len(overlap.matches):,} of {quantity(overlap.samples, 'sample')} {verb} {overlap.file}{details}"


def overlap_table(overlaps: Sequence[Overlap]) -> Table:
    """Return a row for each file."""
    heads = (
        "file",
        "rows",
        "samples",
        "matched",
        *_HOW,
        "other answer",
        "J >= near",
        "J >= 0.5",
        "8 words",
        "too short",
    )
    return Table(
        title="Training files",
        heads=heads,
        rows=tuple(Row(cells=_cells(overlap), below=overlap.problem) for overlap in overlaps),
        numbers=heads[1:],
        note="J is the Jaccard similarity of the words; 8 words: samples that share a sequence of "
        f"{SHORT} words; too short: samples of fewer words.",
    )


def match_tables(overlaps: Sequence[Overlap]) -> Iterator[Table]:
    """Yield the matched samples, and apart from them those whose rows have another answer."""
    for title, other in (("Matched samples", False), ("Matched samples, with another answer", True)):
        matches = [
            (overlap.file, match) for overlap in overlaps for match in overlap.matches if match.other_answer == other
        ]
        yield Table(
            title=title,
            heads=("sample", "match", "similarity", "file", "row"),
            rows=tuple(Row(cells=_match_cells(file, match)) for file, match in matches[:MOST_MATCHES]),
            numbers=("similarity", "row"),
            note=f"{len(matches) - MOST_MATCHES:,} more are in the JSON." if len(matches) > MOST_MATCHES else "",
        )


def overlap_view(
    name: str,
    overlaps: Sequence[Overlap],
    lines: Sequence[str] = (),
    tests: Mapping[str, Any] | None = None,
    similar: Sequence[tuple[str, Similar]] | None = None,
) -> View:
    """Return the comparison of a dataset with training files as a page, and the lines of tests of memorisation.

    `similar` are the samples with similar embeddings, by file; None if these were not compared.
    """
    tables = (overlap_table(overlaps), *match_tables(overlaps)) if overlaps else ()
    if similar is not None:
        tables = (*tables, _similar_table(similar))
        tests = {**(tests or {}), "similar": [{"file": file, **to_plain(entry)} for file, entry in similar]}
    return View(
        title=f"Contamination of {name}",
        tables=tables,
        notes=tuple(Note(text=text) for text in (*map(overlap_text, overlaps), *lines)),
        methods=(Statement(text=METHOD),) if overlaps else (),
        document={"dataset": name, "files": list(overlaps), **(tests or {})},
    )


def _similar_table(similar: Sequence[tuple[str, Similar]]) -> Table:
    rows = [Row(cells=(entry.sample, f"{entry.cosine:.3f}", file, f"{entry.row:,}")) for file, entry in similar]
    return Table(
        title="Similar embeddings",
        heads=("sample", "cosine", "file", "row"),
        rows=tuple(rows[:MOST_MATCHES]),
        numbers=("cosine", "row"),
        note=f"Cosines of at least {LEAST_COSINE:g}; they are listed, and no verdict leaves these samples out.",
    )


METHOD = (
    "A sample matches a training row if their texts are equal after normalising (exact), if the row contains at least half of the "
    "sample's sequences of 13 words (long), if the Jaccard similarity of their words is at least that of `near` (near), or if both "
    "have one group. Each sample has its strongest match."
)


def _cells(overlap: Overlap) -> tuple[str, ...]:
    if overlap.problem:
        return (overlap.file, "-", f"{overlap.samples:,}", "cannot be checked", *["-"] * 9)
    counts = Counter(match.how for match in overlap.matches)
    others = sum(match.other_answer for match in overlap.matches)
    numbers = (overlap.rows, overlap.samples, len(overlap.matches), *(counts[how] for how in _HOW), others)
    further = (overlap.similar_near, overlap.similar, overlap.shared, overlap.too_short)
    return (overlap.file, *(f"{number:,}" for number in (*numbers, *further)))


def _match_cells(file: str, match: Match) -> tuple[str, ...]:
    return (match.sample, match.how, f"{match.similarity:.3f}", file, f"{match.row:,}")
