"""Reasoning that a model writes into the text of its reply, before the answer.

Only what a reply begins with counts: a later mark, a quoted one, or one in a code block is part of the answer. All functions
read hostile text in linear time. `reasoning_forms` has the table of forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_crucible.records.reasoning_forms import FORMS, Form
from pytest_crucible.stats.number_format import quantity

_OPENING = re.compile(rf"\s*+(?:{'|'.join(f'({form.opening_pattern})' for form in FORMS)})")
FIRST_SIGNS = "".join({form.opening[0] for form in FORMS} | {form.lead[0] for form in FORMS if form.lead})
_BEGUN_IN_PROMPT = tuple(form for form in FORMS if form.may_begin_in_prompt)
# Each closing mark of these has one of the parts. A character, and words of this length, are found quicker than all the marks.
_PARTS = ("|", "think", "thought", "reason")
_FENCE = "```"
# A mark between these is quoted: the reply is about the mark.
_QUOTES = "`\"'"


def answer_span(text: str) -> tuple[int, int]:
    """Return where the answer of a reply begins and ends. What stands before it is the reasoning.

    A chat template may write the opening mark itself, so that only the closing one is in the reply; and a reply that was cut at
    its length may have no closing mark: then all of it is reasoning.

    >>> answer_span("<think>2 + 2</think>4"), answer_span("2 + 2</think>4"), answer_span("4")
    ((20, 21), (13, 14), (0, 1))
    """
    # Most replies have no reasoning, and one character is found much quicker than two.
    block = _last_block(text) if text.lstrip()[:1] in FIRST_SIGNS and _OPENING.match(text) else None
    if block is None and "<" in text:
        block = _block_begun_in_prompt(text)
    return _trim_answer(text, *block) if block else (0, len(text))


def reasoning_length(text: str) -> int:
    """Return how many leading characters of a reply's text are its reasoning, with all marks before the answer.

    >>> reasoning_length("<think>2 + 2</think>4"), reasoning_length("[THINK]2 + 2[/THINK]4"), reasoning_length("4")
    (20, 20, 0)
    """
    return answer_span(text)[0]


def answer_text(text: str) -> str:
    """Return a reply's text without its reasoning; a reply that is all reasoning has an empty answer.

    >>> answer_text("<think>It is 3, no, 4.</think>\\n4"), answer_text("<think>It is 3, no")
    ('4', '')
    """
    start, end = answer_span(text)
    return text[start:end].lstrip() if start else text


def reasoning_text(text: str, length: int) -> str:
    """Return the reasoning in the leading characters of a text, without its marks.

    >>> reasoning_text("<think> 2 + 2 </think>4", 22)
    '2 + 2'
    """
    parts = [text[:length]]
    forms = dict.fromkeys(form for form, _ in _blocks(parts[0]))
    for form in forms or [form for form in _BEGUN_IN_PROMPT if form.closing_pattern.search(parts[0])]:
        parts = [piece for part in parts for piece in form.marks_pattern.split(part)]
    return "\n\n".join(stripped for part in parts if (stripped := part.strip()))


def fold_reasoning(text: str) -> str:
    """Return a text with its reasoning replaced by a line that gives its length, for reports.

    >>> print(fold_reasoning("<think>2 + 2</think>4"))
    (reasoning: 5 characters)
    4
    """
    start, end = answer_span(text)
    if not start:
        return text
    count = quantity(len(reasoning_text(text, start)), "character")
    return f"(reasoning: {count})\n{text[start:end].lstrip()}"


def _last_block(text: str) -> tuple[Form, int] | None:
    return next(reversed(list(_blocks(text))), None)


def _blocks(text: str) -> Iterator[tuple[Form, int]]:
    """Yield the form and the end of each block of reasoning that the text begins with."""
    end, may_nest = 0, True
    while opening := _OPENING.match(text, end):
        form = FORMS[(opening.lastindex or 1) - 1]
        start = opening.start(opening.lastindex or 1) if form.is_channels else opening.end()
        closing = _find_closing(text, form, start)
        if closing < 0:
            if not form.needs_closing:
                yield form, len(text)
            return
        if may_nest and text.find(form.opening, start, closing) >= 0 and not form.is_channels:
            outer = _find_outer_closing(text, form, start)
            # Marks without a partner are looked for once, so that many of them cost no more than one.
            closing, may_nest = (outer, True) if outer >= 0 else (closing, False)
        yield form, closing
        end = closing


def _find_closing(text: str, form: Form, start: int) -> int:
    """Return the end of the first closing mark, or of the last one on channels; -1 without one."""
    if form.is_channels:
        return max((match.end() for match in form.closing_pattern.finditer(text, start)), default=-1)
    if form.closing_spelling:
        match = form.closing_pattern.search(text, start)
        return match.end() if match else -1
    place = text.find(form.closing, start)
    return place + len(form.closing) if place >= 0 else -1


def _find_outer_closing(text: str, form: Form, start: int) -> int:
    """Return the end of the closing mark of the outermost pair; -1 where some pair is not closed. Quoted marks do not count."""
    depth = 1
    for mark in form.pair_pattern.finditer(text, start):
        if not _is_quoted(text, mark.start(), mark.end()):
            depth += 1 if mark[1] else -1
        if not depth:
            return mark.end()
    return -1


def _block_begun_in_prompt(text: str) -> tuple[Form, int] | None:
    """Return the form and the end of reasoning that the prompt has begun; None without it."""
    if not any(part in text for part in _PARTS):
        return None
    for form in _BEGUN_IN_PROMPT:
        if (form.opening if form.is_channels else form.closing) in text:
            end = _length_without_opening(text, form)
            if end:
                return form, end
    return None


def _length_without_opening(text: str, form: Form) -> int:
    """Return the end of the closing mark that has no opening mark before it and is not quoted; 0 without one."""
    matches = list(form.closing_pattern.finditer(text)) if form.is_channels else [form.closing_pattern.search(text)]
    closing = matches[-1] if matches else None
    if closing is None or (not form.is_channels and text.find(form.opening, 0, closing.start()) >= 0):
        return 0
    in_code = text.count(_FENCE, 0, closing.start()) % 2
    return 0 if in_code or _is_quoted(text, closing.start(), closing.end()) else closing.end()


def _is_quoted(text: str, start: int, end: int) -> bool:
    """Return whether the same quotation mark is before and after a part of the text."""
    before = text[start - 1 : start]
    return bool(before) and before in _QUOTES and text[end : end + 1] == before


def _trim_answer(text: str, form: Form, end: int) -> tuple[int, int]:
    """Return the span of the answer, without the form's marks around it."""
    opening = form.answer_pattern.match(text, end) if form.answer else None
    start = opening.end() if opening else end
    closing = form.end_pattern.search(text, start) if form.ends else None
    return start, start + len(text[start : closing.start()].rstrip()) if closing else len(text)
