"""Short exercises: repeating, looking up, telling directions apart, numbers digit by digit, and plain questions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from base_model.passages import OPPOSITE, Direction, either_way, report
from base_model.words import FIELDS, PLAIN_WORDS, TRAINING_NAMES, identifiers

Segment = tuple[str, float]
"""A piece of text and the weight of its tokens in the loss."""
ASKED, READ, ANSWERED, DECISIVE = 0.05, 0.2, 1.0, 3.0
"""What is asked and read is mostly drawn by chance and hardly worth learning; of an answer, one word may decide."""

VERBS = (
    ("supports", "refutes"),
    ("backs", "denies"),
    ("confirms", "rejects"),
    ("favours", "opposes"),
    ("agrees", "disagrees"),
)
"""Words for a finding that goes with a hypothesis, and for one that goes against it."""

_OPPOSITES = (
    "hot cold;big small;early late;open closed;full empty;fast slow;wet dry;old new;high low;long short;hard soft"
)
_HOMES = "bees hive;birds nest;horses stable;fish water;bears den;spiders web;hens coop;dogs kennel;rabbits burrow"


def repeat(draw: random.Random) -> Iterator[Segment]:
    """A line of loose words, names, numbers and marks, and the same line again."""
    pools = (lambda: draw.choice(PLAIN_WORDS), lambda: str(draw.randint(10, 9999)), lambda: draw.choice(TRAINING_NAMES))
    line = " ".join(draw.choices(pools, (5, 1, 3))[0]() for _ in range(draw.choice((1, 2, 3, 4, 6, 8, 12, 18))))
    yield f"{line}\n", 0.0
    yield line, ANSWERED


def look_up(draw: random.Random) -> Iterator[Segment]:
    """A table of document numbers and names; then its rows are asked for, from either side."""
    numbers = identifiers(draw, draw.choice((1, 2, 2, 3)))
    rows = list(zip(numbers, draw.sample(TRAINING_NAMES, len(numbers)), strict=True))
    yield "\n".join(f"Document {number}: {name}" for number, name in rows), 0.0
    for number, name in draw.sample(rows, len(rows)):
        if draw.random() < 0.7:
            yield f"\nWhich has {name}? (Document ", 0.0
            yield f"{number})", ANSWERED
        else:
            yield f"\nWhat is in Document {number}?", 0.0
            yield f" {name}", ANSWERED


def directions(draw: random.Random) -> Iterator[Segment]:
    """Hypotheses next to findings: which of two words relates them? Rise and fall alone decide."""
    agrees, disagrees = draw.choice(VERBS)
    yield f"{agrees} or {disagrees}?", ASKED
    for _ in range(draw.randint(2, 4)):
        finding = report(draw, *_topic(draw, draw.choices(("up", "down", "same"), (4, 4, 1))[0]))
        hypothesis = either_way(draw, finding)
        yield f"\n{hypothesis.sentence} {finding.sentence}", ASKED
        yield f" {agrees if hypothesis.agrees(finding) else disagrees}", DECISIVE


def contrasts(draw: random.Random) -> Iterator[Segment]:
    """One hypothesis and two findings that differ in their direction alone: one goes with it, the other against it."""
    agrees, disagrees = draw.choice(VERBS)
    name, outcome, direction, group = _topic(draw, draw.choice(("up", "down")))
    one = report(draw, name, outcome, direction, group)
    other = report(draw, name, outcome, OPPOSITE[direction], group)
    hypothesis = either_way(draw, one)
    yield f"{agrees} or {disagrees}?\n{hypothesis.sentence}", ASKED
    for finding in draw.sample((one, other), 2):
        yield f"\n{finding.sentence}", ASKED
        yield f" {agrees if hypothesis.agrees(finding) else disagrees}", DECISIVE


def numbers(draw: random.Random) -> Iterator[Segment]:
    """Digits one by one: spelt out, counted on, compared, and small sums."""
    for start in draw.sample(range(10, 990), 3):
        other = draw.randint(10, 99)
        asked, answer = draw.choice(
            (
                (f"Spell {start}{other}:", "".join(f" {digit}" for digit in f"{start}{other}")),
                (f"Count on: {start} {start + 1}", f" {start + 2} {start + 3}"),
                (f"Greater of {start % 100} and {other}:", f" {max(start % 100, other)}"),
                (f"{start % 10} + {other % 10} =", f" {start % 10 + other % 10}"),
            )
        )
        yield f"{asked}", ASKED
        yield f"{answer}\n", ANSWERED


def questions(draw: random.Random) -> Iterator[Segment]:
    """Plain short questions with a word as the answer."""
    for _ in range(3):
        if draw.random() < 0.5:
            pair = draw.choice(_OPPOSITES.split(";")).split()
            one, other = draw.sample(pair, 2)
            yield f"Question: what is the opposite of {one}?\nAnswer:", ASKED
            yield f" {other}\n", ANSWERED
        else:
            animal, home = draw.choice(_HOMES.split(";")).split()
            yield f"Question: where do {animal} live?\nAnswer:", ASKED
            yield f" {home}\n", ANSWERED


def _topic(draw: random.Random, direction: Direction) -> tuple[str, str, Direction, str]:
    groups, outcomes = draw.choice(FIELDS)
    return draw.choice(TRAINING_NAMES), draw.choice(outcomes), direction, draw.choice(groups)


DRILLS: dict[Callable[[random.Random], Iterator[Segment]], int] = {
    repeat: 24,
    look_up: 24,
    directions: 16,
    contrasts: 12,
    numbers: 4,
    questions: 2,
}
"""How many of a hundred exercises are of each kind; the rest is about passages."""
