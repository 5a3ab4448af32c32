"""The segments of a prompt: messages, paragraphs, sentences, or what a function of the suite returns."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError, describe_type

Place = tuple[int, int, int]
"""Message number, start and end."""
FindPlaces = Callable[[Sequence[Mapping[str, Any]]], Sequence[Place]]

_BLANK_LINES = re.compile(r"\n[ \t]*(?:\r?\n[ \t]*)+")
# A full stop before a small letter mostly ends an abbreviation.
_SENTENCE_ENDS = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+(?=[^\sa-z])|\n+|(?<=[\u3002\uff01\uff1f])")


class Segment(NamedTuple):
    """A part of one message that is left out as a whole."""

    message: int
    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """The first request of a sample, and its segments in their order."""

    messages: tuple[tuple[str, str | None], ...]
    """Role and text of each; None for a message whose content is not a text, which always stays."""
    segments: tuple[Segment, ...]

    def text(self, segment: Segment) -> str:
        """Return the text of a segment."""
        return (self.messages[segment.message][1] or "")[segment.start : segment.end]


def read_messages(input: Any) -> list[Mapping[str, Any]]:
    """Return an input as messages: a text is one of the user. Raises SpecError for other inputs.

    >>> read_messages("2 + 2?")
    [{'role': 'user', 'content': '2 + 2?'}]
    """
    if isinstance(input, str):
        return [{"role": "user", "content": input}]
    if isinstance(input, Sequence) and input and all(isinstance(message, Mapping) for message in input):
        return list(input)
    raise SpecError(f"its first request is {describe_type(input)}, which has no segments: send a text or messages")


def split_prompt(input: Any, find_places: FindPlaces, noun: str) -> Prompt:
    """Return the prompt with its segments; `noun` names them where a message has several. Raises SpecError."""
    messages = read_messages(input)
    places = sorted(find_places(messages))
    texts = [message.get("content") for message in messages]
    pairs = tuple(
        (str(message.get("role", "user")), text if isinstance(text, str) else None)
        for message, text in zip(messages, texts, strict=True)
    )
    return Prompt(pairs, tuple(_label_segments(pairs, places, noun)))


def _label_segments(
    messages: Sequence[tuple[str, str | None]], places: Sequence[Place], noun: str
) -> Iterator[Segment]:
    """Yield segments such as `user, paragraph 2`; messages of one role are numbered where there are several."""
    roles, of_message = Counter(role for role, _ in messages), Counter(message for message, _, _ in places)
    part = Counter[int]()
    for message, start, end in places:
        role = messages[message][0]
        if roles[role] > 1:
            role += f" {sum(other == role for other, _ in messages[: message + 1])}"
        part[message] += 1
        label = f"{role}, {noun} {part[message]}" if of_message[message] > 1 else role
        yield Segment(message, start, end, label)


def find_finder(kind: str, folders: Sequence[Path]) -> tuple[FindPlaces, str]:
    """Return the function that finds segments of a kind, and what it calls them. Raises SpecError."""
    if kind == "message":
        return find_messages, "part"
    if kind == "paragraph":
        return lambda messages: _find_pieces(messages, _BLANK_LINES), "paragraph"
    if kind == "sentence":
        return lambda messages: _find_pieces(messages, _SENTENCE_ENDS), "sentence"
    function = _load_function(kind, folders)
    return lambda messages: _check_places(kind, function, messages), "part"


def find_messages(messages: Sequence[Mapping[str, Any]]) -> list[Place]:
    """Return the whole text of each message."""
    return [
        (number, 0, len(message["content"]))
        for number, message in enumerate(messages)
        if isinstance(message.get("content"), str) and message["content"].strip()
    ]


def _find_pieces(messages: Sequence[Mapping[str, Any]], separator: re.Pattern[str]) -> list[Place]:
    """Return the pieces of each message, each with the separator after it."""
    return [
        (number, start, end)
        for number, _, length in find_messages(messages)
        for start, end in _split_at(messages[number]["content"], separator, length)
    ]


def _split_at(text: str, separator: re.Pattern[str], length: int) -> Iterator[tuple[int, int]]:
    start = 0
    for match in separator.finditer(text):
        if text[start : match.start()].strip() and text[match.end() :].strip():
            yield start, match.end()
            start = match.end()
    yield start, length


def _load_function(kind: str, folders: Sequence[Path]) -> Callable[..., Any]:
    """Return the function that FILE:function names. Raises SpecError."""
    name, _, function = kind.rpartition(":")
    path = next((folder / name for folder in folders if (folder / name).is_file()), None)
    if path is None:
        raise SpecError(f"--crucible-segments={kind}: there is no file {name!r}; write FILE:function")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SpecError(f"--crucible-segments={kind}: {name!r} is not a Python file; write FILE.py:function")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise SpecError(f"{name} cannot be imported ({type(error).__name__}: {error}): repair it") from error
    found_function = getattr(module, function, None)
    if not callable(found_function):
        raise SpecError(f"--crucible-segments={kind}: {name} has no function {function!r}; name one of its functions")
    loaded: Callable[..., Any] = found_function
    return loaded


def _check_places(kind: str, function: Callable[..., Any], messages: Sequence[Mapping[str, Any]]) -> list[Place]:
    """Return what the function of a suite returns for messages. Raises SpecError for invalid segments."""
    try:
        returned = list(function([dict(message) for message in messages]))
    except Exception as error:
        raise SpecError(f"{kind} raised {type(error).__name__}: {error}; repair it") from error
    places = sorted(_check_place(kind, place, messages) for place in returned)
    for place, other in pairwise(places):
        if place[0] == other[0] and other[1] < place[2]:
            raise SpecError(f"{kind} returned overlapping segments {place} and {other}; return separate ones")
    return places


def _check_place(kind: str, place: Any, messages: Sequence[Mapping[str, Any]]) -> Place:
    is_triple = isinstance(place, Sequence) and len(place) == 3 and all(type(number) is int for number in place)
    if is_triple and 0 <= place[0] < len(messages):
        text = messages[place[0]].get("content")
        if isinstance(text, str) and 0 <= place[1] < place[2] <= len(text):
            return (place[0], place[1], place[2])
    raise SpecError(
        f"{kind} returned {place!r:.100}; return (message number, start, end) of a part that is within one of the "
        f"{len(messages)} messages"
    )
