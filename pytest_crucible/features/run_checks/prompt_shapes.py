"""The shape of a prompt: all of it but the text that varies from sample to sample.

Two prompts have one shape if they are of one kind (a text, or messages that a chat template renders), have the same roles in the
same order and the same system prompt, and if the text around what varies is the same. What varies is unknown in a training file:
there, the template is what rows have in common. Only text up to a mark counts (end of a line, sentence or label, special token),
so that questions that happen to begin with one word have no template.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_crucible.local_model.tokens import message_text
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.plan import PlanValue

_REFERENCE = re.compile("\x01[^\x02]*\x02")
# After a line, a sentence, a label or a special token begins something else.
_AFTER_MARK = re.compile(r"\n|[:.!?] |[>\]]")
_BEFORE_MARK = re.compile(r"\n|[<\[]|(?<= )[A-Z]\w{0,20}:")
MOST_CHARACTERS = 400
"""Of a template on either side: a longer one is the same if its beginning and end are."""
MOST_MARKS = 8
LEAST_ROWS = 8
"""Rows from which on text that all of them have is a template, and not a coincidence."""
MOST_SHAPES = 100
MOST_ANCHORS = 200
SYSTEM_ROLES = ("system", "developer")
VARIES = "*"
MOST_SYSTEMS = 10
"""System prompts of one kind of conversation, from which on they are thought to vary with the row."""


class Shape(NamedTuple):
    """The common part of two prompts of one shape, without their templates."""

    kind: str
    """`text`, or `messages`, which a chat template renders."""
    roles: tuple[str, ...]
    """The roles of the messages, in their order."""
    system: str
    """A hash of the system prompt; empty without one, `*` where it varies from row to row."""


@dataclass(frozen=True, slots=True)
class ShapedPrompt:
    """A prompt and its shape."""

    shape: Shape
    text: str
    """The text, or that of the last message."""
    before: str = ""
    """The template before the varying part; empty where it is not known."""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingShape:
    """The prompts of one shape in a training file."""

    kind: str
    roles: tuple[str, ...]
    system: str
    rows: int
    before: str
    """Text up to a mark with which all of these prompts begin."""
    after: str
    tails: tuple[str, ...]
    """The blanks at the ends of prompts that are texts: a model learns to go on after exactly these."""
    anchors: tuple[str, ...]
    """Hashes of all beginnings and ends, up to a mark, that several prompts have."""

    @property
    def shape(self) -> Shape:
        return Shape(self.kind, self.roles, self.system)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedShapes:
    """The prompts that an arm was trained on."""

    arm: str
    rows: int
    """Rows that were read; 0 where no file could be read."""
    shapes: tuple[TrainingShape, ...] = ()
    unread: str = ""
    """The name of a file that has changed, is missing or has no prompts: what was trained on is not all known."""


TRAINED_SHAPES = PlanValue[tuple[TrainedShapes, ...]]("trained_shapes", tuple[TrainedShapes, ...], ())


def shape_prompt(prompt: Any, template: Any = None) -> ShapedPrompt | None:
    """Return a prompt with its shape; None for anything but a text or messages with roles.

    `template` is the same prompt with references in place of the texts that vary, as the run store has it.

    >>> shape_prompt("Question: 2 + 2\\nAnswer:", "Question: \\x01i0\\x02\\nAnswer:").before
    'Question: '
    """
    if isinstance(prompt, str):
        return ShapedPrompt(Shape("text", (), ""), prompt, *_split_template(template))
    if not isinstance(prompt, Sequence) or not prompt or not all(map(_is_message, prompt)):
        return None
    system = "\0".join(_content(message).strip() for message in prompt if message["role"] in SYSTEM_ROLES)
    shape = Shape("messages", tuple(message["role"] for message in prompt), _digest(system) if system else "")
    last = template[-1] if isinstance(template, Sequence) and template else None
    return ShapedPrompt(
        shape, _content(prompt[-1]), *_split_template(_content(last) if isinstance(last, Mapping) else None)
    )


def prompts_before_answers(prompt: Any) -> Iterator[Any]:
    """Yield the prompt of a training row, and what stands before each earlier answer in it, which may be learnt, too."""
    yield prompt
    if isinstance(prompt, list):
        for end, message in enumerate(prompt):
            if end and isinstance(message, Mapping) and message.get("role") == "assistant":
                yield prompt[:end]


def summarise_shapes(prompts: Iterable[ShapedPrompt]) -> tuple[TrainingShape, ...]:
    """Return the shapes of training prompts, the most frequent first."""
    texts: dict[Shape, list[str]] = defaultdict(list)
    for prompt in prompts:
        texts[prompt.shape].append(prompt.text)
    texts = _join_systems(texts)
    frequent = sorted(texts.items(), key=lambda item: -len(item[1]))[:MOST_SHAPES]
    return tuple(_summarise(shape, of_shape) for shape, of_shape in frequent)


def _join_systems(texts: Mapping[Shape, list[str]]) -> dict[Shape, list[str]]:
    """Return the prompts of each shape, those with many system prompts as one shape."""
    systems = Counter(shape._replace(system=VARIES) for shape in texts)
    joined: dict[Shape, list[str]] = defaultdict(list)
    for shape, of_shape in texts.items():
        free = shape._replace(system=VARIES)
        joined[free if shape.system and systems[free] > MOST_SYSTEMS else shape] += of_shape
    return joined


def occurs(prompt: ShapedPrompt, shapes: Iterable[TrainingShape]) -> bool:
    """Return whether a prompt has one of these shapes, with a template that occurs there."""
    alike = (prompt.shape, prompt.shape._replace(system=VARIES if prompt.shape.system else ""))
    return any(_fits(prompt, shape) for shape in shapes if shape.shape in alike)


def _fits(prompt: ShapedPrompt, shape: TrainingShape) -> bool:
    has_frame = prompt.text.startswith(shape.before) and prompt.text.endswith(shape.after)
    has_tail = shape.kind != "text" or _tail(prompt.text) in shape.tails
    own = (_last(_beginnings(prompt.before)), _last(_endings(prompt.after)))
    return has_frame and has_tail and all(not anchor or anchor in shape.anchors for anchor in own)


def _summarise(shape: Shape, texts: Sequence[str]) -> TrainingShape:
    counts = Counter(anchor for text in texts for anchor in (*_beginnings(text), *_endings(text)))
    least = 2 if len(texts) >= LEAST_ROWS else 1
    anchors = [anchor for anchor, count in counts.most_common(MOST_ANCHORS) if count >= least]
    before, after = _frame(texts) if len(texts) >= LEAST_ROWS else ("", "")
    tails = tuple(sorted({_tail(text) for text in texts}))[:MOST_MARKS]
    return TrainingShape(
        **shape._asdict(), rows=len(texts), before=before, after=after, tails=tails, anchors=tuple(sorted(anchors))
    )


def _frame(texts: Sequence[str]) -> tuple[str, str]:
    """Return the text up to a mark that all texts begin with, and that with which all end."""
    before = _common_beginning([text[:MOST_CHARACTERS] for text in texts])
    after = _common_beginning([text[-MOST_CHARACTERS:][::-1] for text in texts])[::-1]
    ends = [mark.end() for mark in _AFTER_MARK.finditer(before)]
    starts = [mark.start() for mark in _BEFORE_MARK.finditer(after)]
    return before[: ends[-1]] if ends else "", after[starts[0] :] if starts else ""


def _common_beginning(texts: Sequence[str]) -> str:
    # What the first and the last in order have in common, all between them have.
    first, last = min(texts), max(texts)
    length = next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:length]


def _beginnings(text: str) -> list[str]:
    """Return hashes of the first beginnings of a text that end at a mark, the shortest first."""
    marks = list(_AFTER_MARK.finditer(text[:MOST_CHARACTERS]))[:MOST_MARKS]
    return [f"b{_digest(text[: mark.end()])}" for mark in marks]


def _endings(text: str) -> list[str]:
    """Return hashes of the last ends of a text that begin at a mark, the shortest first."""
    end = text[-MOST_CHARACTERS:]
    marks = list(_BEFORE_MARK.finditer(end))[-MOST_MARKS:]
    return [f"e{_digest(end[mark.start() :])}" for mark in reversed(marks)]


def _last(anchors: Sequence[str]) -> str:
    return anchors[-1] if anchors else ""


def _split_template(template: Any) -> tuple[str, str]:
    """Return the text of a template before its first reference and after its last; empty ones without a reference."""
    references = list(_REFERENCE.finditer(template)) if isinstance(template, str) else []
    if not references:
        return "", ""
    return template[: references[0].start()], template[references[-1].end() :]


def _is_message(message: Any) -> bool:
    return isinstance(message, Mapping) and isinstance(message.get("role"), str)


def _content(message: Mapping[str, Any]) -> str:
    try:
        return message_text(message)
    except TypeError:  # an image, or a call of a tool
        return ""


def _tail(text: str) -> str:
    return text[len(text.rstrip()) :][:MOST_MARKS]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
