"""FEVER rows as claim-extraction samples and training records: the same form as SciFact's, of Wikipedia's pages.

FEVER names its evidence by page and sentence. The sentences are in its `wiki-pages` (Wikipedia, CC BY-SA 3.0), of which
`read_pages` keeps those that are wanted. A claim's line cites documents by numbers, and pages have none: theirs are made
of their names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.cns3 import scifact
from pytest_crucible.datasets.fever import evidence_of
from pytest_crucible.datasets.jsonl import read_rows
from pytest_crucible.errors import DatasetError

Row = Mapping[str, Any]
LICENCE = "CC-BY-SA-3.0"
_LABELS = {"SUPPORTS": "SUPPORT", "REFUTES": "CONTRADICT"}
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-COLON-": ":"}


def samples(rows: Iterable[Row], pages: Mapping[str, Row]) -> Iterator[dict[str, Any]]:
    """One sample for each claim that has evidence; a claim of too little information names no page that could be shown.

    `pages` maps a page's name to its title and sentences, as `read_pages` has them. Raises DatasetError for a page or a
    sentence that is not there.
    """
    return scifact.samples(_converted(rows, pages), _numbered(pages))


def training_records(rows: Iterable[Row], pages: Mapping[str, Row]) -> Iterator[dict[str, Any]]:
    """Prompt and completion of every claim that has evidence, in the order of the rows."""
    return scifact.training_records(_converted(rows, pages), _numbered(pages), source="FEVER", licence=LICENCE)


def pages_of(rows: Iterable[Row]) -> set[str]:
    """The pages that the evidence names."""
    return {page for row in rows for one in evidence_of(row) for page, _ in one}


def read_pages(paths: Iterable[Path], wanted: Collection[str]) -> dict[str, dict[str, Any]]:
    """The wanted pages of FEVER's `wiki-NNN.jsonl`, read line by line. Raises DatasetError for a line that is none.

    A page has its sentences in `lines`, one a line: a number, a tab, the sentence, and what it links to behind further tabs.
    """
    found = {}
    for path in paths:
        for number, row in read_rows(path):
            if row.get("id") in wanted:
                found[row["id"]] = {
                    "title": title_of(row["id"]),
                    "abstract": _sentences(row, f"line {number} of {path}"),
                }
    return found


def number_of(page: str) -> str:
    """The number by which a page is cited: the same in every run, whatever other pages there are.

    >>> number_of("Fox_2000") == number_of("Fox_2000") != number_of("Fox_2001")
    True
    """
    return str(int.from_bytes(hashlib.blake2b(page.encode(), digest_size=5).digest()))


def title_of(page: str) -> str:
    """A page's name as people write it.

    >>> title_of("Soul_Food_-LRB-film-RRB-")
    'Soul Food (film)'
    """
    for code, character in _BRACKETS.items():
        page = page.replace(code, character)
    return page.replace("_", " ")


def _converted(rows: Iterable[Row], pages: Mapping[str, Row]) -> Iterator[dict[str, Any]]:
    """Rows as SciFact has them: evidence by page, each set of sentences once, in FEVER's order."""
    for row in rows:
        evidence: dict[str, list[dict[str, Any]]] = {}
        for several in evidence_of(row):
            for page in dict.fromkeys(page for page, _ in several):
                lines = sorted({line for one, line in several if one == page})
                _check(row, page, lines, pages)
                one = {"sentences": lines, "label": _LABELS[row["label"]]}
                known = evidence.setdefault(number_of(page), [])
                if one not in known:
                    known.append(one)
        if evidence:
            yield {"id": row["id"], "claim": row["claim"], "evidence": evidence}


def _numbered(pages: Mapping[str, Row]) -> dict[str, Row]:
    numbered = {number_of(page): one for page, one in pages.items()}
    if len(numbered) < len(pages):
        raise DatasetError(f"two of {len(pages)} pages have the same number: read fewer pages at a time")
    return numbered


def _check(row: Row, page: str, lines: list[int], pages: Mapping[str, Row]) -> None:
    if page not in pages:
        raise DatasetError(f"claim {row['id']} cites page {page!r}, which is not among those that were read")
    if lines[-1] >= len(pages[page]["abstract"]):
        raise DatasetError(
            f"claim {row['id']} cites sentence {lines[-1]} of {page}, which has {len(pages[page]['abstract'])}"
        )


def _sentences(row: Row, where: str) -> list[str]:
    if not isinstance(row.get("lines"), str):
        raise DatasetError(f"{where} has no 'lines': wanted a page of FEVER's wiki-pages")
    parts = (line.split("\t") for line in row["lines"].split("\n"))
    return [one[1] if len(one) > 1 else "" for one in parts if one != [""]]
