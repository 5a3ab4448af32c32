"""Outcomes, calls, events and twins as rows of the store's tables."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_crucible.records import UNCHANGED, Event, ModelCall, NoTwin, Outcome, Plan, Reply, Sample, Unit, Variant
from pytest_crucible.records.outcomes import STOP, FeatureRows
from pytest_crucible.records.reasoning import reasoning_length
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.serialize import plain_or_repr, to_plain
from pytest_crucible.store import schema
from pytest_crucible.store.table import Table
from pytest_crucible.store.texts import (
    SHORTEST_APART,
    SHORTEST_REFERENCE,
    form_key,
    form_of,
    pack_form,
    sample_texts,
    sanitize_text,
    text_form,
    text_id,
)

if TYPE_CHECKING:
    from pytest_crucible.store.forms import ConversationForms, SplitForm

MOST_FORMS = 100_000
"""Keys of stored forms that are remembered. A suite whose samples share no form would otherwise fill the memory with them."""

Row = dict[str, Any]
StoredUnit = tuple[int, Outcome, Sample]
"""Key of the arm, outcome of a unit, and its sample."""


class FormRows:
    """Turns forms into rows of the table `messages`. It remembers which were written."""

    def __init__(self, *, stores_texts: bool) -> None:
        """Without `stores_texts` there are no rows: forms are known by their keys alone."""
        self._stores_texts = stores_texts
        self._written: dict[int, Sequence[int]] = {}
        """The keys of the texts that stand apart, by key of the form."""
        self.rows: list[Row] = []

    def __contains__(self, key: int) -> bool:
        return key in self._written

    def texts_of(self, key: int) -> Sequence[int]:
        """Return the keys of the texts that stand apart from a form that was added."""
        return self._written[key]

    def add(self, split: SplitForm) -> int:
        """Add the rows of a form that was not written before; return its key."""
        key = form_key(split.form)
        if key not in self._written and self._stores_texts:
            self._write(key, split.body, tuple(split.texts))
            for text, literal in split.texts.items():
                self._write(text, literal, ())
        self._written.setdefault(key, ())
        return key

    def _write(self, key: int, body: str, texts: Sequence[int]) -> None:
        if key not in self._written:
            self._written[key] = texts
            self.rows.append({"id": key, "body": pack_form(body)})

    def take_rows(self) -> list[Row]:
        """Return the rows since the last time, and forget forms where there are too many: they are written again."""
        rows, self.rows = self.rows, []
        if len(self._written) >= MOST_FORMS:
            self._written.clear()
        return rows


class UnitRows(NamedTuple):
    """The rows about the calls of some units, by table."""

    calls: list[Row]
    messages: list[Row]
    conversation_texts: list[Row]


class CallRows:
    """Turns the calls of units into rows of the tables `calls`, `messages` and `conversation_texts`."""

    def __init__(self, hide: Callable[[str], str], run: Callable[[], str], *, stores_texts: bool = True) -> None:
        """`hide` redacts texts before they are stored; `run` returns the id of this run.

        Without `stores_texts`, messages, replies and reasoning of calls are stored as their hashes alone (--crucible-trace=off).
        """
        self._hide, self._stores_texts = hide, stores_texts
        self._run = run
        self._forms = FormRows(stores_texts=stores_texts)
        self._answerers: dict[tuple[str, ...], list[str] | None] = {}

    def rows(self, units: Iterable[StoredUnit]) -> UnitRows:
        """Return the rows of some units; of `messages` those that have not been written before."""
        calls: list[Row] = []
        texts: list[Row] = []
        for arm, outcome, sample in units:
            of_unit = list(self._of_unit(arm, outcome, sample))
            calls += of_unit
            texts += self._texts_of_unit(of_unit)
        return UnitRows(calls, self._forms.take_rows(), texts)

    def _of_unit(self, arm: int, outcome: Outcome, sample: Sample) -> Iterator[Row]:
        scored = outcome.reply.text if outcome.reply is not None and not outcome.lost else None
        texts = KnownTexts(sample, self._hide, has_several=len(outcome.calls) > 1)
        for number, call in enumerate(outcome.calls, start=1):
            row = {
                "arm": arm,
                "position": outcome.unit.position,
                "epoch": outcome.unit.repeat,
                "call": number,
                "request": call.request,
                "messages": self._messages(call, texts),
                **self._parameters(call),
                "member": sanitize_text(call.judge),
                "error": self._text(call.error) or None,
            }
            own = self._reply(call.reply, None if call.judge else scored, texts)
            if call.reply is not None and not call.judge:
                for member, reply in call.reply.members.items():
                    yield {**row, "member": sanitize_text(member), "error": None, **self._reply(reply, None, texts)}
                texts.add_reply(number, call.reply.text)
            yield {**row, **own}

    def _parameters(self, call: ModelCall) -> Row:
        """Return the columns with a call's parameters: long ones, such as the schemas of tools, are a text that calls share."""
        plain = None if call.parameters is None else redact(to_plain(call.parameters), self._hide)
        if not self._stores_texts or len(call.settings) < SHORTEST_APART:
            return {"parameters": plain, "parameters_id": None}
        return {"parameters": None, "parameters_id": json.dumps(plain)}

    def _texts_of_unit(self, calls: Sequence[Row]) -> Iterator[Row]:
        """Yield the rows that keep the texts which stand apart from the forms of a unit's calls."""
        forms = [row[name] for row in calls for name in schema.FORM_COLUMNS if row[name] is not None]
        for text in dict.fromkeys(text for form in forms for text in self._forms.texts_of(form)):
            yield {**{name: calls[0][name] for name in ("arm", "position", "epoch")}, "message": text}

    def _messages(self, call: ModelCall, texts: KnownTexts) -> int | None:
        """Return the key of the form of a call's messages; None if it has none."""
        if call.form_key is not None and call.form_key in self._forms:
            return call.form_key
        form = call_form(call, texts, call.system)
        return None if form is None else self._forms.add(form)

    def _tool_calls(self, reply: Reply, texts: KnownTexts) -> int | None:
        """Return the key of the form of the tools that a reply calls; None if it calls none."""
        if not reply.tool_calls:
            return None
        return self._forms.add(texts.form(plain_or_repr(list(reply.tool_calls))))

    def _reply(self, reply: Reply | None, scored: str | None, texts: KnownTexts) -> Row:
        """Return the columns about a reply. A text that the table `replies` has is not stored again.

        Its tool calls may refer to `texts`.
        """
        if reply is None:
            return {**dict.fromkeys(_OF_A_REPLY), **self._texts(None, ""), "is_scored": False}
        is_scored = reply.text == scored
        return {
            **self._texts(None if is_scored else self._text(reply.text), reply.reasoning),
            "is_scored": is_scored,
            # In the text as it is stored, which may be shorter than the reply's: only where there is a block is it worth the time.
            "think": reasoning_length(self._text(reply.text)) if reasoning_length(reply.text) else None,
            "paid_by": reply.paid_by if reply.cached and reply.paid_by != self._run() else None,
            "answered_by": self._answerer(reply),
            "cached": reply.cached,
            "as_before": reply.as_before,
            "finish": "" if reply.finish == STOP else finish_text(reply),
            "tool_calls": self._tool_calls(reply, texts),
        }

    def _texts(self, text: str | None, reasoning: str) -> Row:
        """Return the columns with the texts of a reply, or with the hash of its text."""
        if self._stores_texts:
            return {"text": text, "reasoning_id": self._text(reasoning) if reasoning else None}
        key = None if text is None else text_id(text)
        return {"text": None, "text_id": key, "reasoning_id": None, "has_texts": False}

    def _answerer(self, reply: Reply) -> list[str] | None:
        """Return what the server says of itself. Most replies have the same, so that it is redacted once."""
        names = (reply.model, reply.system_fingerprint, reply.server)
        if names not in self._answerers:
            if len(self._answerers) >= MOST_FORMS:
                self._answerers.clear()
            self._answerers[names] = [self._text(name) for name in names] if any(names) else None
        return self._answerers[names]

    def _text(self, text: str) -> str:
        return sanitize_text(self._hide(text)) if text else ""


_OF_A_REPLY = ("think", "paid_by", "answered_by", "cached", "as_before", "finish", "tool_calls")
"""Columns of a call that are null where it has no reply, beside those of its texts."""


_FINISH_CHARACTERS = 16
"""Stored characters of a reply's `finish`, for which a backend may have words of its own."""


def finish_text(reply: Reply) -> str:
    """Return how a reply ended, as the columns `finish` have it."""
    return sanitize_text(reply.finish)[:_FINISH_CHARACTERS]


class KnownTexts:
    """Texts that the messages of a unit may refer to: those of its sample and its earlier replies. Computed when needed."""

    def __init__(self, sample: Sample, hide: Callable[[str], str], *, has_several: bool = False) -> None:
        """`has_several` is true of a unit with several calls, whose later ones may send the same messages again."""
        self.sample = sample
        self.hide = hide
        self._has_several = has_several
        self._replies: list[tuple[str, str]] = []
        """Those that no call has needed yet, by the name of their reference."""

    def add_reply(self, number: int, text: str) -> None:
        """Let later messages refer to the reply of a call."""
        self._replies.append((f"r{number}", text))

    @cached_property
    def input(self) -> Any:
        """The input of the sample as plain data."""
        return plain_or_repr(self.sample.input)

    @cached_property
    def _forms(self) -> dict[str, str]:
        return sample_texts(redact(self.input, self.hide), redact(plain_or_repr(self.sample.metadata), self.hide))

    def texts(self) -> dict[str, str]:
        """Return texts by the name of their reference."""
        for name, reply in self._replies:
            text = sanitize_text(self.hide(reply))
            if len(text) >= SHORTEST_REFERENCE:
                self._forms[name] = text_form(text)
        self._replies.clear()
        return self._forms

    @cached_property
    def _conversations(self) -> ConversationForms:
        from pytest_crucible.store.forms import ConversationForms

        return ConversationForms(self.hide)

    def form(self, value: Any) -> SplitForm:
        """Return the redacted form of a prompt, or of tool calls, which refers to these texts."""
        # Imported here: most tests send the input of the sample, which has no form.
        from pytest_crucible.store.forms import join_parts, split_conversation

        if self._has_several and _is_list_of_objects(value):
            return join_parts(self._conversations.parts(value, self.texts()))
        return split_conversation(form_of(redact(value, self.hide), self.texts()))

    def call_form(self, call: ModelCall, system: str) -> SplitForm | None:
        """Return the form of a call's messages, as `call_form` does."""
        texts = self.texts()
        parts = self._conversations.extend(call.text, texts) if call.is_json and self._has_several else None
        if parts is None:
            messages = json.loads(call.text) if call.is_json else call.text
            if not system and messages == self.input:
                return None
            if not (call.is_json and self._has_several and _is_list_of_objects(messages)):
                return self.form(with_system(system, messages) if system else messages)
            parts = self._conversations.begin(call.text, messages, texts)
        from pytest_crucible.store.forms import join_parts

        head = self._conversations.parts(with_system(system, []), texts) if system else []
        return join_parts([*head, *parts])


def _is_list_of_objects(value: Any) -> bool:
    # Token ids are a list of numbers, perhaps a hundred thousand.
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def with_system(system: str, messages: Any) -> Any:
    """Return the messages as sent: after the adapter's system prompt, a text as a message of the user."""
    rest = messages if isinstance(messages, list) else [{"role": "user", "content": messages}]
    return [{"role": "system", "content": system}, *rest]


def call_form(call: ModelCall, texts: KnownTexts, system: str) -> SplitForm | None:
    """Return the form of a call's messages after a system prompt; None if the input was sent unchanged, as by most tests."""
    if call.text is texts.sample.input and not (system or call.judge):
        return None
    return texts.call_form(call, system)


FeatureUnit = tuple[int, Unit, FeatureRows]
"""Key of the arm, unit, and the rows of features about it."""


def feature_rows(units: Iterable[FeatureUnit], hide: Callable[[str], str]) -> dict[Table, list[Row]]:
    """Return the redacted rows of features' tables about some units, by table. `hide` redacts texts."""
    tables, rows = schema.unit_tables(), defaultdict[Table, list[Row]](list)

    def clean(text: str) -> str:
        return sanitize_text(hide(text))

    for arm, unit, by_table in units:
        place = {"arm": arm, "position": unit.position, "epoch": unit.repeat}
        for name, many in by_table.items():
            rows[tables[name]] += [
                place | {column: redact(value, clean) for column, value in values.items()} for values in many
            ]
    return rows


Redacted = dict[tuple[tuple[str, Any], ...], Any]
AMOUNTS = ("input_tokens", "output_tokens", "first_token_s", "cost_usd")
NOT_STORED = frozenset({"request.start", "sample.start", "sample.stop", "experiment.start", "experiment.stop"})
"""Emitted to listeners only: `request.stop` has the time of a request; samples and experiments have tables of their own."""


def event_rows(
    events: Sequence[tuple[str, Event]], hide: Callable[[str], str], hide_id: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Return rows of the table `events` for (run, event) pairs. `hide` redacts their texts, `hide_id` ids of samples.

    It never raises: a fact that JSON has no form for is stored as its repr.

    >>> event = Event(name="request.stop", at=9.0, facts={"error": "429", "output_tokens": 3, "finish": "stop"})
    >>> [row] = event_rows([("run", event)], str, str)
    >>> row["error"], row["output_tokens"], row["facts"]
    ('429', 3, {'finish': 'stop'})
    """
    redacted: Redacted = {}
    samples = redact_ids([event.sample for _, event in events], hide, hide_id)
    return [
        _event_row(run, event, sample, hide, redacted) for (run, event), sample in zip(events, samples, strict=True)
    ]


def redact_ids(ids: Sequence[str], hide: Callable[[str], str], hide_id: Callable[[str], str]) -> Sequence[str]:
    """Return ids, or groups, as the store has them. `hide` redacts a text, `hide_id` an id."""
    # Searching all at once takes a tenth of the time. No form of a key goes beyond a line.
    lines = "\n".join(ids)
    return ids if hide(sanitize_text(lines)) == lines else [hide_id(sanitize_text(each)) for each in ids]


def _event_row(run: str, event: Event, sample: str, hide: Callable[[str], str], redacted: Redacted) -> dict[str, Any]:
    """Return the row of one event about a redacted sample. Only its error and facts may hold texts, which are redacted."""
    facts = dict(event.facts)
    error = facts.pop("error", None)
    row = {
        "run": run,
        "experiment": event.experiment,
        "arm": event.arm,
        "sample": sample,
        "epoch": event.repeat,
        "name": event.name,
        "at": event.at,
        "seconds": event.seconds,
        "error": None if error is None else sanitize_text(hide(str(error))),
        "call": event.call or None,
        "request": event.request or None,
    }
    for name in AMOUNTS:
        amount = row[name] = facts.pop(name, None)
        if not (amount is None or type(amount) is int or (type(amount) is float and math.isfinite(amount))):
            # Anything but a finite number stays in the facts.
            row[name], facts[name] = None, amount
    row["facts"] = _facts(facts, hide, redacted) if facts else None
    return row


def _facts(facts: dict[str, Any], hide: Callable[[str], str], redacted: Redacted) -> Any:
    """Return redacted facts. Most events of a batch have equal ones, such as how a reply ended: those are redacted once."""
    if set(map(type, facts.values())) != {str}:
        return redact(_plain_facts(facts), hide)
    key = tuple(facts.items())
    if key not in redacted:
        redacted[key] = redact(_plain_facts(facts), hide)
    return redacted[key]


def _plain_facts(facts: dict[str, Any]) -> Any:
    try:
        return to_plain(facts)
    except TypeError:
        return {str(name): repr(value) for name, value in facts.items()}


def variant_rows(experiment: int, plan: Plan) -> list[Row]:
    """Return the rows of `variants`: each form of the prompt of the original samples, then those of their twins."""
    prompts = max(len(plan.prompts), 1)
    rows: list[tuple[int, int, str | None, str | None]] = [(k, 0, None, None) for k in range(prompts)]
    rows += [
        (k, twin, variant.name, variant.sha256)
        for twin, variant in enumerate(plan.variants, start=1)
        for k in range(prompts)
    ]
    names = ("prompt", "twin", "name", "sha256")
    return [
        {"experiment": experiment, "number": number, **dict(zip(names, row, strict=True))}
        for number, row in enumerate(rows)
    ]


def twin_row(sha256: str, position: int, sample: Sample, variant: Variant, hide: Callable[[str], str]) -> Row:
    """Return the row of a sample's twin, or of the reason why it has none."""
    twin = variant.twin(sample.id)
    row = {"variant": sha256, "position": position, "input": None, "expected": None, "reason": None, "facts": None}
    if isinstance(twin, NoTwin):
        return {**row, "reason": sanitize_text(hide(twin.reason))}
    expected = sample.expected if twin.expected is UNCHANGED else twin.expected
    facts = redact(plain_or_repr(twin.facts), hide) if twin.facts else None
    return {
        **row,
        "input": redact(plain_or_repr(twin.input), hide),
        "expected": redact(plain_or_repr(expected), hide),
        "facts": facts,
    }
