"""Versions of a prompt: the same requests with the texts of some segments left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.features.explanation.segments import Prompt, Segment, read_messages
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ModelCall
from pytest_crucible.records.errors import BackendError

ASSISTANT = "assistant"
EMPTY = {"role": "user", "content": ""}
"""Sent where no message is left."""


def left_out(mask: int, prompt: Prompt) -> list[Segment]:
    """Return the segments that are not in a set, whose bit i is 1 when segment i stays."""
    return [segment for number, segment in enumerate(prompt.segments) if not mask >> number & 1]


@dataclass
class VersionEdit:
    """Leaves out the segments of one version in all requests of its unit."""

    prompt: Prompt
    mask: int
    draw: int | str | None
    calls: Sequence[ModelCall]
    """The calls of the unit so far."""
    _is_first: bool = True

    def __call__(self, input: Any, parameters: Mapping[str, Any]) -> Any:
        """Return the input without the segments. Raises BackendError for another first request than that with the segments."""
        messages = read_messages(input)
        if self._is_first and tuple(_role_and_text(message) for message in messages) != self.prompt.messages:
            raise BackendError(
                "the test's first request is not the same each time, so that its segments cannot be left out: remove what "
                "changes, such as a time or an unseeded order"
            )
        self._is_first = False
        replies = [call.reply.text for call in self.calls if call.reply is not None and not call.judge]
        edited = [message for message in self._edit(messages, replies) if message is not None]
        if isinstance(input, str):
            return edited[0]["content"] if edited else ""
        return edited or [dict(EMPTY)]

    def _edit(
        self, messages: Sequence[Mapping[str, Any]], replies: Sequence[str]
    ) -> Iterator[Mapping[str, Any] | None]:
        """Yield each message without the segments; None for one that they have emptied."""
        for number, message in enumerate(messages):
            role, text = _role_and_text(message)
            if text is None:
                yield message
                continue
            edited = self._cut(number, role, text, replies)
            if edited == text:
                yield message
            else:
                yield {**message, "content": edited} if edited.strip() else None

    def _cut(self, number: int, role: str, text: str, replies: Sequence[str]) -> str:
        if number < len(self.prompt.messages) and (role, text) == self.prompt.messages[number]:
            spans = [(each.start, each.end) for each in left_out(self.mask, self.prompt) if each.message == number]
            return cut_spans(text, spans)
        # A reply of the model that the test sends back.
        return text if role == ASSISTANT else cut_texts(text, self._texts_left_out(), replies)

    def _texts_left_out(self) -> list[str]:
        """Return the texts to leave out in other messages: not one that a segment has which stays."""
        texts = [self.prompt.text(segment).strip() for segment in left_out(self.mask, self.prompt)]
        staying = {
            self.prompt.text(segment).strip()
            for number, segment in enumerate(self.prompt.segments)
            if self.mask >> number & 1
        }
        return sorted(dict.fromkeys(text for text in texts if text not in staying), key=len, reverse=True)


def cut_spans(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return a text without spans that are in order; the last one that stays ends without its separator.

    >>> cut_spans("a\\n\\nb\\n\\nc", [(6, 7)])
    'a\\n\\nb'
    """
    parts, place = [], 0
    for start, end in spans:
        parts.append(text[place:start])
        place = end
    parts.append(text[place:])
    cut = "".join(parts)
    return cut.rstrip() if spans and spans[-1][1] == len(text) else cut


def cut_texts(text: str, texts: Sequence[str], replies: Sequence[str]) -> str:
    """Return a text without all occurrences of some texts, but those within replies of the model.

    >>> cut_texts("sum: 2 + 2. You said: sum: 4", ["sum:"], ["sum: 4"])
    ' 2 + 2. You said: sum: 4'
    """
    for unwanted in texts:
        protected = [span for reply in replies if unwanted in reply for span in _occurrences(text, reply)]
        spans = [
            (start, end)
            for start, end in _occurrences(text, unwanted)
            if not any(first <= start and end <= last for first, last in protected)
        ]
        text = cut_spans(text, spans)
    return text


def _occurrences(text: str, part: str) -> Iterator[tuple[int, int]]:
    start = text.find(part)
    while start >= 0:
        yield start, start + len(part)
        start = text.find(part, start + len(part))


def _role_and_text(message: Mapping[str, Any]) -> tuple[str, str | None]:
    text = message.get("content")
    return str(message.get("role", "user")), text if isinstance(text, str) else None
