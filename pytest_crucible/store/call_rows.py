"""Calls of models as rows: messages once by their form, reasoning apart from the text, and who paid."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

from pytest_crucible.records import ModelCall, Outcome, Reply, Sample
from pytest_crucible.records.reasoning import reasoning_length
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.serialize import plain_or_repr, to_plain
from pytest_crucible.store.prompt_forms import SHORTEST, form_key, form_of, pack_form, sample_texts, text_form
from pytest_crucible.store.sanitize import sanitize_text

MOST_FORMS = 100_000
"""Keys of stored forms that are remembered. A suite whose samples share no form would otherwise fill the memory with them."""

Row = dict[str, Any]
StoredUnit = tuple[int, Outcome, Sample]
"""Key of the arm, outcome of a unit, and its sample."""


class CallRows:
    """Turns the calls of units into rows of the tables `calls` and `messages`. It remembers which forms were written."""

    def __init__(self, hide: Callable[[str], str], run: Callable[[], str]) -> None:
        """`hide` redacts texts before they are stored; `run` returns the id of this run."""
        self._hide = hide
        self._run = run
        self._forms: set[int] = set()

    def rows(self, units: Iterable[StoredUnit]) -> tuple[list[Row], list[Row]]:
        """Return rows of `calls`, and rows of `messages` for forms that have not been written before."""
        calls: list[Row] = []
        forms: list[Row] = []
        for arm, outcome, sample in units:
            calls += self._of_unit(arm, outcome, sample, forms)
        return calls, forms

    def _of_unit(self, arm: int, outcome: Outcome, sample: Sample, forms: list[Row]) -> Iterator[Row]:
        scored = outcome.reply.text if outcome.reply is not None and not outcome.lost else None
        texts = _KnownTexts(sample, self._hide)
        for number, call in enumerate(outcome.calls, start=1):
            row = {
                "arm": arm,
                "position": outcome.unit.position,
                "epoch": outcome.unit.repeat,
                "call": number,
                "request": call.request,
                "messages": self._messages(call, texts, forms),
                "parameters": None if call.parameters is None else redact(to_plain(call.parameters), self._hide),
                "member": sanitize_text(call.judge),
                "error": self._text(call.error) or None,
            }
            if call.reply is not None and not call.judge:
                for member, reply in call.reply.members.items():
                    yield {**row, "member": sanitize_text(member), "error": None, **self._reply(reply, None)}
                texts.replies[f"r{number}"] = call.reply.text
            row.update(self._reply(call.reply, None if call.judge else scored))
            yield row

    def _messages(self, call: ModelCall, texts: _KnownTexts, forms: list[Row]) -> int | None:
        """Return the key of the form; None if the sample's input was sent unchanged, as by most tests."""
        if call.text is texts.sample.input and not (call.system or call.judge):
            return None
        messages = redact(json.loads(call.text) if call.is_json else call.text, self._hide)
        if call.system:
            messages = with_system(self._hide(call.system), messages)
        elif messages == texts.input:
            return None
        form = form_of(messages, texts.texts())
        key = form_key(form)
        if key not in self._forms:
            if len(self._forms) >= MOST_FORMS:
                self._forms.clear()
            self._forms.add(key)
            forms.append({"id": key, "body": pack_form(form)})
        return key

    def _reply(self, reply: Reply | None, scored: str | None) -> Row:
        """Return the columns about a reply. A text that the table `replies` has is not stored again."""
        if reply is None:
            return {"text": None, "is_scored": False, "reasoning_id": None, "think": None, "paid_by": None}
        is_scored = reply.text == scored
        return {
            "text": None if is_scored else self._text(reply.text),
            "is_scored": is_scored,
            "reasoning_id": self._text(reply.reasoning) if reply.reasoning else None,
            # In the text as it is stored, which may be shorter than the reply's: only where there is a block is it worth the time.
            "think": reasoning_length(self._text(reply.text)) if reasoning_length(reply.text) else None,
            "paid_by": reply.paid_by if reply.cached and reply.paid_by != self._run() else None,
        }

    def _text(self, text: str) -> str:
        return sanitize_text(self._hide(text)) if text else ""


class _KnownTexts:
    """Texts that the messages of a unit may refer to: those of its sample and its earlier replies. Computed when needed."""

    def __init__(self, sample: Sample, hide: Callable[[str], str]) -> None:
        self.sample = sample
        self.replies: dict[str, str] = {}
        self._hide = hide

    @cached_property
    def input(self) -> Any:
        """The stored input of the sample."""
        return redact(plain_or_repr(self.sample.input), self._hide)

    @cached_property
    def _of_sample(self) -> dict[str, str]:
        return sample_texts(self.input, redact(plain_or_repr(self.sample.metadata), self._hide))

    def texts(self) -> dict[str, str]:
        """Return texts by the name of their reference."""
        replies = {name: sanitize_text(self._hide(text)) for name, text in self.replies.items()}
        return {**self._of_sample, **{name: text_form(text) for name, text in replies.items() if len(text) >= SHORTEST}}


def with_system(system: str, messages: Any) -> Any:
    """Return the messages as sent: after the adapter's system prompt, a text as a message of the user."""
    rest = messages if isinstance(messages, list) else [{"role": "user", "content": messages}]
    return [{"role": "system", "content": system}, *rest]
