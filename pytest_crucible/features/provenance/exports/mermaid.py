"""Mermaid diagrams: texts that are inert in every kind, and four kinds of diagrams."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.report.printable import printable_cell

# Mermaid draws no diagram with more, and no diagram can raise these limits (`maxTextSize` and `maxEdges` of its configuration).
MOST_CHARACTERS, MOST_ARROWS = 50_000, 500
# Characters of a box; a longer text makes the whole picture too wide to read.
A_LABEL = 80
# All that Mermaid, HTML or Markdown could take for syntax. An underscore or a hyphen within a word is none, and neither is a
# full stop, unless it makes a list of the line: `1. a`.
_SYNTAX = re.compile(r"(?<!\w)[_-]|_(?!\w)|\.(?=\s|$)|[^\w\s.,/=-]")
# How Mermaid writes an entity while it parses: it would take these for one that it has written itself.
_PLACEHOLDERS = (("ﬂ°", "fl°"), ("¶ß", "¶ss"))
# Words that begin a line of a timeline which is not an event.
_LINES = re.compile(r"title|section|acc", re.IGNORECASE)


def mermaid_text(text: str, most: int = A_LABEL) -> str:
    r"""Return a text that every kind of diagram shows as it is, on one line.

    >>> mermaid_text('call 1: "end"; <b>'), mermaid_text("a\nb"), mermaid_text("x" * 9, 4)
    ('call 1#58; #34;end#34;#59; #60;b#62;', 'a#92;nb', 'xxx…')
    """
    # Cut before it is escaped: a text of 1 MB is not read to its end.
    line = " ".join(printable_cell(text[: most + 1]).split())
    cut = line if len(line) <= most else f"{line[: most - 1]}…"
    for placeholder, replacement in _PLACEHOLDERS:
        cut = cut.replace(placeholder, replacement)
    # Mermaid knows `#NUMBER;` in all texts, and replaces it after it has parsed them.
    return _SYNTAX.sub(lambda match: match[0] if match[0] == "…" else f"#{ord(match[0])};", cut) or "#32;"


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One box of a flowchart."""

    key: str
    text: str
    shape: str = "entity"
    """One of `SHAPES`."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from one key of a box or an actor to another. A message is in the order of time."""

    source: str
    target: str
    text: str = ""
    is_reply: bool = False


# Shape -> how its box opens and closes, and the style of its class. A claim is dashed: it was not observed.
SHAPES = {
    "entity": ("(", ")", ""),
    "activity": ("[[", "]]", ""),
    "step": ("[", "]", ""),
    "claim": ("(", ")", "stroke-dasharray:5 5"),
    "error": ("[", "]", "stroke-width:3px"),
}


def render_flowchart(
    groups: Iterable[tuple[str, Sequence[Box]]],
    arrows: Iterable[Arrow],
    *,
    direction: str = "TD",
    word: str = "flowchart",
) -> str:
    """Return a flowchart with a frame around each group of boxes that has a title."""
    return "\n".join(_flowchart_lines(groups, arrows, f"{word} {direction}")) + "\n"


def _flowchart_lines(groups: Iterable[tuple[str, Sequence[Box]]], arrows: Iterable[Arrow], head: str) -> Iterator[str]:
    numbers: dict[str, str] = {}
    shapes = set()
    yield head
    for place, (title, boxes) in enumerate(groups, start=1):
        if title:
            yield f'  subgraph g{place}["{mermaid_text(title)}"]'
        for box in boxes:
            opened, closed, style = SHAPES[box.shape]
            numbers[box.key] = number = f"n{len(numbers) + 1}"
            shapes |= {box.shape} if style else set()
            yield f'  {number}{opened}"{mermaid_text(box.text)}"{closed}{f":::{box.shape}" if style else ""}'
        if title:
            yield "  end"
    for arrow in arrows:
        text = f'|"{mermaid_text(arrow.text)}"|' if arrow.text else ""
        yield f"  {numbers[arrow.source]} -->{text} {numbers[arrow.target]}"
    for shape in sorted(shapes):
        yield f"  classDef {shape} {SHAPES[shape][2]}"


def render_sequence(actors: Sequence[str], messages: Iterable[Arrow], *, title: str = "") -> str:
    """Return a sequence diagram. A message of an actor to itself is a note."""
    numbers = {actor: f"a{number}" for number, actor in enumerate(actors, start=1)}
    lines = ["sequenceDiagram", *([f"  title {mermaid_text(title)}"] if title else [])]
    lines += [f"  participant {number} as {mermaid_text(actor)}" for actor, number in numbers.items()]
    for message in messages:
        source, target = numbers[message.source], numbers[message.target]
        arrow = (
            f"Note over {source}" if source == target else f"{source}{'-->>' if message.is_reply else '->>'}{target}"
        )
        lines.append(f"  {arrow}: {mermaid_text(message.text)}")
    return "\n".join(lines) + "\n"


def render_timeline(sections: Iterable[tuple[str, Sequence[tuple[str, str]]]], *, title: str) -> str:
    """Return a timeline: sections with pairs of a time and an event."""
    lines = ["timeline", f"  title {mermaid_text(title)}"]
    for name, events in sections:
        lines.append(f"  section {mermaid_text(name)}")
        lines += [f"    {_period(time)} : {mermaid_text(event)}" for time, event in events]
    return "\n".join(lines) + "\n"


def _period(time: str) -> str:
    text = mermaid_text(time)
    return f"#{ord(text[0])};{text[1:]}" if _LINES.match(text) else text
