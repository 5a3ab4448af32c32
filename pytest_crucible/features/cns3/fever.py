"""FEVER rows as claim-extraction samples and training records, in SciFact's form, about Wikipedia pages.

FEVER names its evidence by page and sentence. The sentences are in its `wiki-pages` (Wikipedia, CC BY-SA 3.0), from which
`read_pages` takes the requested pages. The claim format cites documents by number; pages have none, so theirs are derived from
their names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.benchmarks import evidence_of
from pytest_crucible.features.cns3 import scifact
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.row_files import read_rows

Row = Mapping[str, Any]
LICENCE = "CC-BY-SA-3.0"
_LABELS = {"SUPPORTS": "SUPPORT", "REFUTES": "CONTRADICT"}
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-COLON-": ":"}


def samples(rows: Iterable[Row], pages: Mapping[str, Row]) -> Iterator[dict[str, Any]]:
    """Yield one sample for each claim with evidence: without evidence, no page is named that could be shown.

    `pages` maps a page's name to its title and sentences, see `read_pages`. Raises DatasetError for a missing page or
    sentence.
    """
    return scifact.samples(_to_scifact_rows(rows, pages), _by_number(pages))


def training_records(rows: Iterable[Row], pages: Mapping[str, Row]) -> Iterator[dict[str, Any]]:
    """Yield prompt and completion of each claim with evidence, in the order of the rows."""
    return scifact.training_records(_to_scifact_rows(rows, pages), _by_number(pages), source="FEVER", licence=LICENCE)


def evidence_pages(rows: Iterable[Row]) -> set[str]:
    """Return the pages that the evidence names."""
    return {page for row in rows for sentences in evidence_of(row) for page, _ in sentences}


def read_pages(paths: Iterable[Path], names: Collection[str]) -> dict[str, dict[str, Any]]:
    """Read the named pages from FEVER's `wiki-NNN.jsonl`, line by line. Raises DatasetError for an invalid line.

    A page has its sentences in `lines`, one per line: a number, a tab, the sentence, and its links behind further tabs.
    """
    pages = {}
    for path in paths:
        for number, row in read_rows(path):
            if row.get("id") in names:
                pages[row["id"]] = {
                    "title": page_title(row["id"]),
                    "abstract": _sentences(row, f"line {number} of {path}"),
                }
    return pages


def page_number(page: str) -> str:
    """Return the number by which a page is cited: the same in every run, and independent of other pages.

    >>> page_number("Fox_2000") == page_number("Fox_2000") != page_number("Fox_2001")
    True
    """
    # Five bytes: short enough for the claim format; collisions are checked in _by_number.
    return str(int.from_bytes(hashlib.blake2b(page.encode(), digest_size=5).digest()))


def page_title(page: str) -> str:
    """Return a page's name as people write it.

    >>> page_title("Soul_Food_-LRB-film-RRB-")
    'Soul Food (film)'
    """
    for code, character in _BRACKETS.items():
        page = page.replace(code, character)
    return page.replace("_", " ")


def _to_scifact_rows(rows: Iterable[Row], pages: Mapping[str, Row]) -> Iterator[dict[str, Any]]:
    """Yield rows in SciFact's form: evidence by page, each set of sentences once, in FEVER's order."""
    for row in rows:
        evidence: dict[str, list[dict[str, Any]]] = {}
        for several in evidence_of(row):
            for page in dict.fromkeys(page for page, _ in several):
                lines = sorted({line for sentence_page, line in several if sentence_page == page})
                _check(row, page, lines, pages)
                sentence_page = {"sentences": lines, "label": _LABELS[row["label"]]}
                annotations = evidence.setdefault(page_number(page), [])
                if sentence_page not in annotations:
                    annotations.append(sentence_page)
        if evidence:
            yield {"id": row["id"], "claim": row["claim"], "evidence": evidence}


def _by_number(pages: Mapping[str, Row]) -> dict[str, Row]:
    numbered = {page_number(page): row for page, row in pages.items()}
    if len(numbered) < len(pages):
        raise DatasetError(f"two of {len(pages)} pages have the same number: read fewer pages at a time")
    return numbered


def _check(row: Row, page: str, lines: list[int], pages: Mapping[str, Row]) -> None:
    if page not in pages:
        raise DatasetError(
            f"claim {row['id']} cites page {page!r}, which was not read: pass it to read_pages as wanted"
        )
    if lines[-1] >= len(pages[page]["abstract"]):
        raise DatasetError(
            f"claim {row['id']} cites sentence {lines[-1]} of {page}, which has only {len(pages[page]['abstract'])}"
        )


def _sentences(row: Row, where: str) -> list[str]:
    if not isinstance(row.get("lines"), str):
        raise DatasetError(f"{where} has no 'lines'; expected a page of FEVER's wiki-pages")
    parts = (line.split("\t") for line in row["lines"].split("\n"))
    return [fields[1] if len(fields) > 1 else "" for fields in parts if fields != [""]]
