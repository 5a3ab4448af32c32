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
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from pytest_crucible.features.provenance import kinds
from pytest_crucible.features.provenance.quoted import quoted_spans
from pytest_crucible.quick_dataclass import dataclass

_ATTRIBUTES = r"(\s[^<>]*+|/)?"
# The last two are tags of an earlier form of these events: they are read over.
_NAMES = "decision|alternatives?|reasoning|because|confidence|code_section|spec_reference"
_PLAIN_EVENT = (
    rf"event{_ATTRIBUTES}>\s*+(?:<decision>([^<]*+)</decision>\s*+)?+"
    r"((?:<alternative>[^<]*+</alternative>\s*+)*+)(?:<alternatives>([^<]*+)</alternatives>\s*+)?+"
    r"(?:<reasoning>([^<]*+)</reasoning>\s*+)?+(?:<confidence>([^<]*+)</confidence>\s*+)?+"
    r"(?:<code_section>[^<]*+</code_section>\s*+)?+(?:<spec_reference>[^<]*+</spec_reference>\s*+)?+</event>"
)
"""An event after its first sign, with its tags in the usual order, and no others. It is read at once, five times as fast."""
_ALTERNATIVE = re.compile(r"<alternative>([^<]*+)</")
_ONE_TAG = rf"(?i:(?P<end>/?)(?P<name>event|{_NAMES})(?P<attributes>\s[^<>]*+|/)?>)"
# A pattern that begins with a sign is searched for at once wherever this sign is not.
_TAG = re.compile(f"<{_ONE_TAG}")
_PLAIN_EVENT_OR_TAG = re.compile(f"<(?:{_PLAIN_EVENT}|{_ONE_TAG})")
_EVENT = re.compile(r"<event[\s/>]", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""\b(type|kind|confidence)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'/]++))""", re.IGNORECASE)
_LONGEST_ATTRIBUTES = 1000
"""Characters of a tag that are read for attributes."""
_NUMBER = re.compile(r"\s*+([0-9]++(?:[.,][0-9]++)?|[.,][0-9]++)([eE][-+]?[0-9]++)?\s*+(%?)\s*+")
_LONGEST_NUMBER = 60
_ENTITY = re.compile(r"&(?:#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6})|(amp|lt|gt|quot|apos));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_SEPARATORS = re.compile(r"[,;\n]")
_REST_OF_LINE = re.compile(r"[ \t]*+\r?\n")


class StatedEvent(NamedTuple):
    """An event that a model states."""

    kind: str
    """One of `kinds.KINDS`, or a word of its own."""
    decision: str
    over: tuple[str, ...] = ()
    because: str = ""
    confidence: float | None = None
    """From 0 to 1; None where it states none that can be read."""
    parent: int | None = None
    """The event around it; they count from 1."""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply without its events."""

    text: str
    events: Sequence[StatedEvent]
    """In the order in which they begin."""
    unclosed: int
    """How many <event> tags are not closed; they stay in the text."""


def parse_events(text: str) -> ParsedReply:
    """Return the events of a reply, and its text without them.

    Nested events have a parent. Tags in quotation marks, in code and in quoted lines are text.

    >>> parsed = parse_events('<event type="pattern_applied"><decision>halve it</decision><confidence>90%</confidence></event>4')
    >>> parsed.text, parsed.events[0].decision, parsed.events[0].confidence
    ('4', 'halve it', 0.9)
    """
    if _EVENT.search(text) is None:
        return ParsedReply(text, (), 0)
    scan = _Scan(text)
    scan.run()
    events = scan.closed_events()
    return ParsedReply(_cut(text, scan.spans) if events else text, events, len(scan.opened) - len(events))


class _OpenEvent:
    """An event whose end may come."""

    __slots__ = ("attributes", "event", "field", "fields", "parent", "pieces", "start")

    def __init__(self, start: int, attributes: str, parent: int | None) -> None:
        self.start, self.attributes, self.parent = start, attributes, parent
        self.event: StatedEvent | None = None
        """Set when it is closed."""
        self.field = ""
        """The name of the tag that was opened last; empty between the tags."""
        self.pieces: list[str] = []
        """The text since then."""
        self.fields: list[tuple[str, str]] = []
        """The text of each tag by its name; under an empty one the text between the tags."""

    def end_field(self, next_field: str = "") -> None:
        name, self.field = self.field, next_field
        if self.pieces:
            if text := "".join(self.pieces).strip():
                self.fields.append((name, text))
            self.pieces = []

    def close(self, has_entities: bool) -> None:
        """State what it has. `has_entities` is False where the text has no character that is written as one."""
        self.end_field()
        # Of several tags with one name the first counts.
        texts = dict(reversed(self.fields))
        lists = (
            [text] if name == "alternative" else _SEPARATORS.split(text) for name, text in self.fields if name in _OVER
        )
        event = _state(
            self.attributes,
            texts.get("decision") or texts.get("", ""),
            [text for each in lists for text in each],
            texts.get("reasoning") or texts.get("because", ""),
            texts.get("confidence", ""),
            self.parent,
        )
        self.event = _unescape(event) if has_entities else event


_OVER = ("alternative", "alternatives")


class _Scan:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._quoted = quoted_spans(text)
        self.opened: list[_OpenEvent | StatedEvent] = []
        """All opened events; of a plain one what it states, with the place of its parent in this list."""
        self.spans: list[tuple[int, int]] = []
        """The places of the outermost closed ones."""
        self._stack: list[int] = []
        """The places in `opened` of those that are open."""
        self._cursor = 0
        self._has_parents = False
        self._has_entities = "&" in text

    def run(self) -> None:
        text, marks = self._text, _CLOSING_MARKS
        for match in self._find_unquoted() if self._quoted.starts else _PLAIN_EVENT_OR_TAG.finditer(text):
            start, end = match.span()
            if match.lastgroup is not None:
                self._read_tag(match, start, end)
            elif text[start - 1 : start] not in marks or not _is_in_quotation_marks(text, start, end):
                self._add_plain(match, start, end)

    def _find_unquoted(self) -> Iterator[re.Match[str]]:
        """Yield plain events and tags that are not in code or in quoted lines."""
        place, text = 0, self._text
        while (match := _PLAIN_EVENT_OR_TAG.search(text, place)) is not None:
            start, place = match.span()
            if self._quoted.meets(start, place):
                # A tag within a plain event may be quoted.
                match = _TAG.match(text, start) or match
                place = match.end()
                if self._quoted.has(start):
                    continue
            yield match

    def _read_tag(self, match: re.Match[str], start: int, end: int) -> None:
        name = match["name"]
        if name[0] not in "eE":
            if self._stack:
                self._take_text(start, end).end_field("" if match["end"] else name.lower())
        elif self._text[start - 1 : start] in _CLOSING_MARKS and _is_in_quotation_marks(self._text, start, end):
            return
        elif not match["end"]:
            self._open(start, end, match["attributes"] or "")
        elif self._stack:
            self._close(start, end)

    def _take_text(self, start: int, end: int) -> _OpenEvent:
        """Give the text before a tag to the event that is open, and return this."""
        event = self.opened[self._stack[-1]]
        assert isinstance(event, _OpenEvent)  # a plain one is closed
        if start > self._cursor:
            event.pieces.append(self._text[self._cursor : start])
        self._cursor = end
        return event

    def _open(self, start: int, end: int, attributes: str) -> None:
        if self._stack:
            self._take_text(start, end)
        self._cursor, self._has_parents = end, True
        self.opened.append(_OpenEvent(start, attributes, self._stack[-1] if self._stack else None))
        self._stack.append(len(self.opened) - 1)
        if attributes.endswith("/"):
            self._close(end, end)

    def _close(self, start: int, end: int) -> None:
        event = self._take_text(start, end)
        event.close(self._has_entities)
        self._stack.pop()
        spans = self.spans
        # Its place covers those of the events within it.
        while spans and spans[-1][0] > event.start:
            spans.pop()
        spans.append((event.start, end))

    def _add_plain(self, match: re.Match[str], start: int, end: int) -> None:
        attributes, decision, alternatives, listed, because, confidence = match.group(1, 2, 3, 4, 5, 6)
        parent = None
        if self._stack:
            self._take_text(start, end)
            parent = self._stack[-1]
        over = _ALTERNATIVE.findall(alternatives) if alternatives else ()
        if listed:
            over = [*over, *_SEPARATORS.split(listed)]
        event = _state(attributes or "", decision or "", over, because or "", confidence or "", parent)
        self.opened.append(_unescape(event) if self._has_entities else event)
        self.spans.append((start, end))

    def closed_events(self) -> list[StatedEvent]:
        """Return the closed events; one within an event that is not closed belongs to the event around that."""
        if not self._has_parents:
            return self.opened  # type: ignore[return-value]  # all are plain
        # The number of each event or, of one that is not closed, of the event around it.
        numbers: list[int | None] = []
        events: list[StatedEvent] = []
        for each in self.opened:
            event = each.event if isinstance(each, _OpenEvent) else each
            parent = None if each.parent is None else numbers[each.parent]
            if event is None:
                numbers.append(parent)
                continue
            events.append(event if event.parent == parent else event._replace(parent=parent))
            numbers.append(len(events))
        return events


def _is_in_quotation_marks(text: str, start: int, end: int) -> bool:
    """Return whether a tag stands in quotation marks, or is the first thing in them."""
    opens = start < 2 or text[start - 2] in " \t\n(["
    return opens or text[end : end + 1] == _CLOSING_MARKS[text[start - 1]]


_CLOSING_MARKS = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "„": "“"}


def _state(
    attributes: str, decision: str, over: Sequence[str], because: str, confidence: str, parent: int | None
) -> StatedEvent:
    """Return an event with its texts as they stand in the reply."""
    kind, stated = _attributes(attributes[:_LONGEST_ATTRIBUTES])
    confidence = confidence or stated
    value = _confidence(confidence) if confidence and len(confidence) <= _LONGEST_NUMBER else None
    others = tuple(filter(None, map(str.strip, over))) if over else ()
    return StatedEvent(kind, decision.strip(), others, because.strip(), value, parent)


def _unescape(event: StatedEvent) -> StatedEvent:
    """Return an event with the characters that its entities mean."""
    decision, because = _ENTITY.sub(_character, event.decision), _ENTITY.sub(_character, event.because)
    return event._replace(
        decision=decision, because=because, over=tuple(_ENTITY.sub(_character, text) for text in event.over)
    )


@lru_cache(maxsize=100)
def _attributes(text: str) -> tuple[str, str]:
    """Return the kind and the confidence that a tag has."""
    named = {
        match[1].lower(): _ENTITY.sub(_character, match[match.lastindex or 2]) for match in _ATTRIBUTE.finditer(text)
    }
    kind = named.get("type") or named.get("kind") or kinds.DEFAULT
    usual = kind.lower().replace(" ", "_").replace("-", "_")
    return usual if usual in kinds.NAMES else kind, named.get("confidence", "")


def read_confidence(text: str) -> float | None:
    """Return the confidence that a text states, from 0 to 1; None where it states none.

    >>> [read_confidence(text) for text in ("0.9", "90%", "0,9", "1.7", "high", "")]
    [0.9, 0.9, 0.9, None, None, None]
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    value = float(match[1].replace(",", ".") + (match[2] or "")) / (100 if match[3] else 1)
    return value if value <= 1 else None


_confidence = lru_cache(maxsize=100)(read_confidence)
"""Most events of a reply state one of few confidences."""


def _character(match: re.Match[str]) -> str:
    if match[3]:
        return _NAMED[match[3]]
    code = int(match[1]) if match[1] else int(match[2], 16)
    # Half a surrogate pair and NUL are no characters that a text may have.
    return match[0] if code == 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF else chr(code)


def _cut(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the text without some places; a line that has nothing else goes with them."""
    pieces, cursor = [], 0
    for start, end in spans:
        piece = text[cursor:start]
        line = piece.rstrip(" \t")
        cursor = end
        if not line or line[-1] == "\n":
            piece = line
            if rest := _REST_OF_LINE.match(text, end):
                cursor = rest.end()
        pieces.append(piece)
    return "".join((*pieces, text[cursor:])).strip()


def write_events(events: Iterable[StatedEvent]) -> str:
    """Return events as `parse_events` reads them, one after the other: their nesting is not written.

    >>> print(write_events([StatedEvent("decision", "a < b", confidence=0.8)]))
    <event type="decision">
    <decision>a &lt; b</decision>
    <confidence>0.8</confidence>
    </event>
    """
    return "\n".join(line for event in events for line in _lines(event))


def _lines(event: StatedEvent) -> Iterable[str]:
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


_EXAMPLE = StatedEvent(
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
