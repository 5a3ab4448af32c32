"""Reads the decisions that a model states in <event> tags, in linear time, and writes them.

    <event type="hypothesis_formed">
    <decision>binary search</decision>
    <alternative>scan</alternative>
    <reasoning>the list is sorted</reasoning>
    <confidence>0.8</confidence>
    </event>

A reply is hostile: it may hold a million tags, nested or never closed. Each character is looked at a fixed number of times, and no
pattern goes back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_crucible.features.provenance import kinds
from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.quoted import quoted_spans

_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>event|decision|alternatives?|reasoning|because|confidence)(?P<attributes>\s[^<>]*+|/)?>",
    re.IGNORECASE,
)
_EVENT = re.compile(r"<event[\s/>]", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""\b(type|kind|confidence)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'/]++))""", re.IGNORECASE)
_LONGEST_ATTRIBUTES = 1000
"""Characters of a tag that are read for attributes."""
_NUMBER = re.compile(r"\s*+([0-9]++(?:[.,][0-9]++)?|[.,][0-9]++)([eE][-+]?[0-9]++)?\s*+(%?)\s*+")
_LONGEST_NUMBER = 60
_ENTITY = re.compile(r"&(?:#([0-9]{1,7})|(amp|lt|gt|quot|apos));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_SEPARATORS = re.compile(r"[,;\n]")
_REST_OF_LINE = re.compile(r"[ \t]*+\n")


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply without its events."""

    text: str
    events: tuple[Decision, ...]
    """In the order in which they begin."""
    unclosed: int
    """How many <event> tags are not closed; they stay in the text."""


class _OpenEvent:
    """An event whose end may come."""

    __slots__ = ("alternatives", "attributes", "field", "is_closed", "parent", "pieces", "start", "texts")

    def __init__(self, start: int, attributes: str, parent: int) -> None:
        self.start, self.attributes, self.parent = start, attributes, parent
        self.is_closed = False
        self.field = ""
        """The name of the tag that was opened last; empty between the tags."""
        self.pieces: list[str] = []
        """The text since then."""
        self.texts: dict[str, str] = {}
        """The first text of each tag; under an empty name the text between the tags."""
        self.alternatives: list[str] = []

    def end_field(self) -> None:
        text, name = "".join(self.pieces).strip(), self.field
        self.pieces, self.field = [], ""
        if name == "alternative":
            self.alternatives.append(_unescape(text))
        elif name == "alternatives":
            self.alternatives += [part for piece in _SEPARATORS.split(text) if (part := _unescape(piece.strip()))]
        elif text:
            self.texts.setdefault(name, text)


def parse_events(text: str) -> ParsedReply:
    """Return the events of a reply, and its text without them.

    Nested events have a parent. Tags in quotation marks, in code and in quoted lines are text.

    >>> parsed = parse_events('<event type="pattern_applied"><decision>halve it</decision><confidence>90%</confidence></event>4')
    >>> parsed.text, parsed.events[0].decision, parsed.events[0].confidence
    ('4', 'halve it', 0.9)
    """
    if _EVENT.search(text) is None:
        return ParsedReply(text, (), 0)
    opened, spans = _scan(text)
    events = tuple(_closed_events(opened))
    return ParsedReply(_cut(text, spans) if events else text, events, len(opened) - len(events))


def _scan(text: str) -> tuple[list[_OpenEvent], list[tuple[int, int]]]:
    """Return all opened events, and the places of the outermost closed ones."""
    quoted = quoted_spans(text)
    opened: list[_OpenEvent] = []
    stack: list[int] = []
    spans: list[tuple[int, int]] = []
    cursor = 0
    for match in _TAG.finditer(text):
        name, is_end, (start, end) = match["name"].lower(), bool(match["end"]), match.span()
        if (quoted.starts and quoted.has(start)) or (name == "event" and _in_quotation_marks(text, start, end)):
            continue
        event = opened[stack[-1]] if stack else None
        if event is not None:
            event.pieces.append(text[cursor:start])
        cursor = end
        if name != "event":
            if event is not None:
                event.end_field()
                event.field = "" if is_end else name
        elif not is_end:
            attributes = match["attributes"] or ""
            opened.append(_OpenEvent(start, attributes, stack[-1] if stack else -1))
            stack.append(len(opened) - 1)
            is_end = attributes.endswith("/")
            event = opened[-1]
        if name == "event" and is_end and event is not None:
            event.end_field()
            event.is_closed = True
            stack.pop()
            _add_span(spans, event.start, end)
    return opened, spans


def _add_span(spans: list[tuple[int, int]], start: int, end: int) -> None:
    """Add a place in the text; it takes the place of those within."""
    while spans and spans[-1][0] > start:
        spans.pop()
    spans.append((start, end))


def _in_quotation_marks(text: str, start: int, end: int) -> bool:
    """Return whether a tag stands in quotation marks, or is the first thing in them."""
    mark = text[start - 1 : start]
    if mark not in _CLOSING_MARKS:
        return False
    opens = start < 2 or text[start - 2] in " \t\n(["
    return bool(mark) and (opens or text[end : end + 1] == _CLOSING_MARKS[mark])


_CLOSING_MARKS = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "„": "“"}


def _closed_events(opened: Sequence[_OpenEvent]) -> Iterable[Decision]:
    # The number of each event or, of one that is not closed, of the event around it.
    numbers: list[int | None] = []
    count = 0
    for event in opened:
        parent = None if event.parent < 0 else numbers[event.parent]
        if not event.is_closed:
            numbers.append(parent)
            continue
        count += 1
        numbers.append(count)
        yield _decision(event, count, parent)


def _decision(event: _OpenEvent, number: int, parent: int | None) -> Decision:
    texts = event.texts
    attributes = _attributes(event.attributes) if event.attributes else {}
    return Decision(
        number=number,
        kind=attributes.get("type") or attributes.get("kind") or kinds.DEFAULT,
        decision=_unescape(texts.get("decision") or texts.get("", "")),
        over=tuple(event.alternatives),
        because=_unescape(texts.get("reasoning") or texts.get("because", "")),
        confidence=read_confidence(texts.get("confidence") or attributes.get("confidence", "")),
        parent=parent,
        is_claim=True,
    )


def _attributes(text: str) -> dict[str, str]:
    matches = _ATTRIBUTE.finditer(text, 0, _LONGEST_ATTRIBUTES)
    return {match[1].lower(): _unescape(match[match.lastindex or 2]) for match in matches}


def read_confidence(text: str) -> float | None:
    """Return the confidence that a text states, from 0 to 1; None where it states none.

    >>> [read_confidence(text) for text in ("0.9", "90%", "0,9", "1.7", "high", "")]
    [0.9, 0.9, 0.9, None, None, None]
    """
    match = _NUMBER.fullmatch(text) if len(text) <= _LONGEST_NUMBER else None
    if match is None:
        return None
    value = float(match[1].replace(",", ".") + (match[2] or "")) / (100 if match[3] else 1)
    return value if value <= 1 else None


def _unescape(text: str) -> str:
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(match: re.Match[str]) -> str:
    if match[2]:
        return _NAMED[match[2]]
    code = int(match[1])
    # Half a surrogate pair and NUL are no characters that a text may have.
    return match[0] if code == 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF else chr(code)


def _cut(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the text without some places; a line that has nothing else goes with them."""
    pieces, cursor = [], 0
    for start, end in spans:
        before = text[cursor:start]
        line = before.rstrip(" \t")
        cursor = end
        if line.endswith("\n") or not line:
            before = line
            rest = _REST_OF_LINE.match(text, end)
            cursor = rest.end() if rest else end
        pieces.append(before)
    return "".join((*pieces, text[cursor:])).strip()


def write_events(events: Iterable[Decision]) -> str:
    """Return events as `parse_events` reads them, one after the other: their nesting is not written.

    >>> print(write_events([Decision(number=1, kind="decision", decision="a < b", confidence=0.8)]))
    <event type="decision">
    <decision>a &lt; b</decision>
    <confidence>0.8</confidence>
    </event>
    """
    return "\n".join(line for event in events for line in _lines(event))


def _lines(event: Decision) -> Iterable[str]:
    yield f'<event type="{_escape(event.kind)}">'
    yield f"<decision>{_escape(event.decision)}</decision>"
    yield from (f"<alternative>{_escape(text)}</alternative>" for text in event.over)
    if event.because:
        yield f"<reasoning>{_escape(event.because)}</reasoning>"
    if event.confidence is not None:
        yield f"<confidence>{event.confidence!r}</confidence>"
    yield "</event>"


_ESCAPED = str.maketrans({**{f: f"&{name};" for name, f in _NAMED.items()}, "`": "&#96;", "~": "&#126;"})


def _escape(text: str) -> str:
    """Return a text as it stands in a tag: without signs of tags or code, and with its outer space."""
    inner = text.strip()
    if not inner:
        return "".join(f"&#{ord(sign)};" for sign in text)
    before, _, after = text.partition(inner)
    outer = ("".join(f"&#{ord(sign)};" for sign in part) for part in (before, after))
    return inner.translate(_ESCAPED).join(outer)


_EXAMPLE = Decision(
    number=1,
    kind="hypothesis_formed",
    decision="what you chose",
    over=("what you did not choose",),
    because="why",
    confidence=0.8,
)
REQUEST = (
    "Before your answer, state each decision that you make as an event, in this form, with your confidence that it is right "
    f"from 0 to 1. The type is one of {', '.join(kinds.DECISIONS[1:])}.\n{write_events([_EXAMPLE])}"
)
"""What `trace.prompt` adds to a prompt."""
