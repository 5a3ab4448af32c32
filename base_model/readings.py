"""Exercises about passages: read the abstract, then answer in words, in quotes, or in lines of a given format."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from base_model.claims import LineFormat
from base_model.drills import ANSWERED, ASKED, DECISIVE, READ, VERBS, Segment
from base_model.passages import Direction, Passage, either_way, write_passage
from base_model.words import TRAINING_NAMES

ITEMS = ("NOTE", "FACT", "POINT", "ITEM", "CLAIM")
LINKS = ("LINK", "TIE", "EDGE", "BOND", "RELATION")
LETTERS = ("n", "f", "p", "e", "k", "s", "c")
_DECISIVE = re.compile(
    rf"((?<=Document )\d+| (?:{'|'.join(verb for pair in VERBS for verb in pair)})\b| rose| fell| not)"
)
_ANSWERS: dict[Direction, str] = {"up": "It rose.", "down": "It fell.", "same": "It did not change."}


def line_format(draw: random.Random) -> LineFormat:
    """A format of random words, never the suite's own pair of CLAIM and RELATION."""
    item, link = draw.choice(ITEMS), draw.choice(LINKS)
    if (item, link) == ("CLAIM", "RELATION"):
        return line_format(draw)
    return LineFormat(item, link, draw.choice(LETTERS), *draw.choice(VERBS))


def plain(draw: random.Random) -> Iterator[Segment]:
    """An abstract to read, with nothing asked."""
    yield str(write_passage(draw, TRAINING_NAMES)), 0.5


def copy(draw: random.Random) -> Iterator[Segment]:
    """A passage, and one of its documents again, word by word."""
    passage = write_passage(draw, TRAINING_NAMES)
    document = draw.choice(passage.documents)
    yield f"{passage}\n\nCopy Document {document.number}.\n", READ
    yield str(document), ANSWERED


def lines(draw: random.Random) -> Iterator[Segment]:
    """Hypotheses, and the evidence on each in lines whose key words the task gives."""
    passage, form = write_passage(draw, TRAINING_NAMES), line_format(draw)
    yield str(passage), READ
    for _ in range(draw.choice((1, 2, 3))):
        hypothesis = either_way(draw, draw.choice(list(passage.findings()))[1])
        yield f"\n\nHypothesis: {hypothesis.sentence}\n", ASKED
        yield f"Write {form.item} and {form.link}, {form.letter}, {form.agrees} or {form.disagrees}.\n", ASKED
        yield from weighed(form.lines(passage, hypothesis))


def ask(draw: random.Random) -> Iterator[Segment]:
    """A passage and questions about it."""
    passage = write_passage(draw, TRAINING_NAMES)
    yield str(passage), READ
    for kind in draw.choices(_QUESTIONS, k=5):
        asked, answer = kind(draw, passage)
        yield f"\n\nQuestion: {asked}\nAnswer:", ASKED
        yield from weighed(f" {answer}")


def weighed(answer: str) -> Iterator[Segment]:
    """An answer in pieces: a document's number and the word for or against are decisive, the rest is not."""
    for place, piece in enumerate(_DECISIVE.split(answer)):
        if piece:
            yield piece, DECISIVE if place % 2 else ANSWERED


def _which_document(draw: random.Random, passage: Passage) -> tuple[str, str]:
    document = draw.choice(passage.documents)
    return f"which document is called {document.title}?", f"Document {document.number}"


def _which_reports(draw: random.Random, passage: Passage) -> tuple[str, str]:
    document, finding = draw.choice(list(passage.findings()))
    return f"which document says: {finding.sentence}", f"Document {document.number}"


def _title(draw: random.Random, passage: Passage) -> tuple[str, str]:
    document = draw.choice(passage.documents)
    return f"what is Document {document.number} called?", document.title


def _quote(draw: random.Random, passage: Passage) -> tuple[str, str]:
    document, finding = draw.choice(list(passage.findings()))
    return (
        f"what does Document {document.number} say about {finding.outcome}?",
        next(each.sentence for each in document.findings if each.outcome == finding.outcome),
    )


def _what_happened(draw: random.Random, passage: Passage) -> tuple[str, str]:
    document, finding = draw.choice(list(passage.findings()))
    return f"in Document {document.number}, what happened to {finding.outcome}?", _ANSWERS[finding.direction]


def _agree(draw: random.Random, passage: Passage) -> tuple[str, str]:
    document, finding = draw.choice(list(passage.findings()))
    hypothesis = either_way(draw, finding)
    verb = "agrees" if hypothesis.agrees(finding) else "disagrees"
    asked = f"does Document {document.number} agree that {finding.name}{hypothesis.sentence[len(finding.name) :]}"
    return asked, f"{finding.sentence} This {verb}."


_QUESTIONS: tuple[Callable[[random.Random, Passage], tuple[str, str]], ...] = (
    _which_document,
    _which_reports,
    _title,
    _quote,
    _what_happened,
    _agree,
)

READINGS: dict[Callable[[random.Random], Iterator[Segment]], int] = {plain: 2, copy: 7, ask: 10, lines: 15}
"""How many of a hundred exercises are of each kind."""
