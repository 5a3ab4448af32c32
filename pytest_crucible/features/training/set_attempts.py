"""Reads an arm's replies for training sets: the prompt as it was sent, the reply to the call, and one metric's value."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.store.database import Connection, Cursor, from_json
from pytest_crucible.store.forms import load_forms
from pytest_crucible.store.outcomes import variant_keys
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import messages_of, sample_texts, stored_text

# Rows that are fetched at a time: a call may have a long conversation.
_PART = 1000
_OWN = re.compile("\x01([im]\\d+)\x02")


AttemptState = Literal["answered", "failed", "skipped", "lost"]
# Records of single replies are named tuples: a frozen dataclass takes four times as long to make.


@dataclass(frozen=True, slots=True)
class AttemptSource:
    """The arm that replied, in one experiment of one run."""

    run: str
    experiment: str
    arm: str


class SampleFacts(NamedTuple):
    """A sample as a training set needs it. The dataset's SHA-256 and the position identify it."""

    dataset: str
    position: int
    id: str
    group: str | None
    expected: Any
    is_gate: bool
    """Whether a verdict depends on it, so that training on it would spoil the verdict."""


class Attempt(NamedTuple):
    """One reply of an arm to one sample, with the prompt as it was sent."""

    source: AttemptSource
    sample: SampleFacts
    variant: int
    repeat: int
    prompt: Any
    """A text or messages; None if it is neither, or where the test called the model several times."""
    template: int | None
    """The key of the prompt form that the test wrote around the sample's own texts; None if the whole prompt is the sample's."""
    own: str
    """The sample's own texts in the prompt."""
    reply: str | None
    """The reply to the call; None if it has none."""
    calls: int
    state: AttemptState
    value: float | None
    """The value of the metric that decides; None if it does not apply, or was not measured."""


def load_attempts(
    store: RunStore,
    experiment: int,
    plan: Plan,
    number: int,
    metric: str,
    *,
    run: str,
    is_gate: Callable[[Any], bool],
    twin: int = 0,
) -> Iterator[Attempt]:
    """Yield an arm's replies to each sample in the dataset's order, variant by variant; or to the samples' twins of a number.

    `is_gate` returns whether a verdict depends on a sample with this input. A reply without a stored call has no prompt.
    """
    source = AttemptSource(run, plan.nodeid, plan.arms[number].name)
    with store.connect() as connection:
        samples = _Samples(connection, plan.dataset_sha256, is_gate, plan.variants[twin - 1].sha256 if twin else "")
        first = twin * plan.draws(number).prompts
        for key, prompt_form in variant_keys(store, experiment, number, twin):
            prompts = _Prompts(_load_forms(connection, key), samples)
            for calls in _calls_of_units(connection, key, metric):
                position, repeat, form, is_scored, text, scored, failure, skipped, value, *lost = calls[0]
                is_single = len(calls) == 1
                prompt = prompts.read(form, position)
                yield Attempt(
                    source,
                    samples.facts(position),
                    first + prompt_form,
                    repeat,
                    prompt.messages if is_single else None,
                    prompt.template,
                    prompt.own,
                    scored if is_scored else text,
                    len(calls),
                    _state(failure, skipped, lost),
                    value,
                )


def count_replies(store: RunStore, experiment: int, number: int) -> int:
    """Return how many replies of an arm are stored, lost ones included."""
    keys = [key for key, _ in variant_keys(store, experiment, number)]
    replies = store.scalar("SELECT COUNT(*) FROM replies WHERE arm IN (:keys)", keys=keys)
    lost = store.scalar("SELECT COUNT(*) FROM lost WHERE arm IN (:keys) AND metric = ''", keys=keys)
    return int(replies + lost)


def stored_kinds(store: RunStore, experiment: int) -> Mapping[str, str]:
    """Return the kinds of an experiment's metrics, as its values have shown them."""
    kinds = store.scalar("SELECT kinds FROM experiments WHERE id = :experiment", experiment=experiment)
    return from_json(kinds) or {}


def sample_inputs(store: RunStore, dataset: str) -> Iterator[Any]:
    """Yield the inputs of a dataset's samples."""
    return map(from_json, store.scalars("SELECT input FROM samples WHERE dataset = :dataset", dataset=dataset))


def _calls_of_units(connection: Connection, arm: int, metric: str) -> Iterator[list[tuple[Any, ...]]]:
    """Yield an arm's own calls, those of judges and of an ensemble's members left out, unit by unit."""
    query = f"""
        SELECT calls.position, calls.epoch, calls.messages, calls.is_scored, {stored_text("calls")},
            {stored_text("replies")}, replies.failure, replies.skipped, observations.value,
            lost_reply.reason, lost_metric.reason
        FROM calls
        LEFT JOIN replies ON {_of_unit("replies")}
        LEFT JOIN observations ON {_of_unit("observations")} AND observations.metric = :metric
        LEFT JOIN lost AS lost_reply ON {_of_unit("lost_reply")} AND lost_reply.metric = ''
        LEFT JOIN lost AS lost_metric ON {_of_unit("lost_metric")} AND lost_metric.metric = :metric
        WHERE calls.arm = :arm AND calls.member = '' ORDER BY calls.position, calls.epoch, calls.call
    """
    with connection.stream(query, arm=arm, metric=metric) as cursor:
        for _, calls in itertools.groupby(_rows(cursor), key=itemgetter(0, 1)):
            yield list(calls)


def _rows(cursor: Cursor) -> Iterator[tuple[Any, ...]]:
    while part := cursor.fetchmany(_PART):
        yield from part


def _of_unit(table: str) -> str:
    """Return the SQL condition that a row is of a call's unit."""
    return " AND ".join(f"{table}.{name} = calls.{name}" for name in ("arm", "position", "epoch"))


def _state(failure: str | None, skipped: bool | None, lost: Sequence[str | None]) -> AttemptState:
    # A call without an outcome belongs to a run that was killed.
    if skipped is None or any(reason is not None for reason in lost):
        return "lost"
    return "skipped" if skipped else "failed" if failure else "answered"


class _Prompt:
    """A prompt as sent, and the sample's own part of it."""

    __slots__ = ("messages", "own", "template")

    def __init__(self, messages: Any, template: int | None = None, own: str = "") -> None:
        self.messages = messages if _is_prompt(messages) else None
        self.template, self.own = template, own


class _Prompts:
    """Reads prompts by their forms. Repeats of a sample mostly have the prompt that was read last."""

    def __init__(self, forms: Mapping[int, str], samples: _Samples) -> None:
        self._forms = {key: (form, tuple(dict.fromkeys(_OWN.findall(form)))) for key, form in forms.items()}
        self._samples = samples
        self._last: tuple[int | None, int] = (None, -1)
        self._prompt = _Prompt(None)

    def read(self, form: int | None, position: int) -> _Prompt:
        if self._last != (form, position):
            self._last, self._prompt = (form, position), self._read(form, position)
        return self._prompt

    def _read(self, key: int | None, position: int) -> _Prompt:
        if key is None:
            return _Prompt(self._samples.input(position))
        if key not in self._forms:
            # The run has stored no texts of calls (--crucible-trace=off).
            return _Prompt(None)
        form, names = self._forms[key]
        texts = self._samples.texts(position)
        try:
            messages = messages_of(form, texts)
        except KeyError:
            # It refers to an earlier reply: the test has called the model several times.
            return _Prompt(None)
        return _Prompt(messages, key, "\n".join(_plain(texts[name]) for name in names)) if names else _Prompt(messages)


def _plain(text: str) -> str:
    """Return the text that JSON has between its quotes."""
    return str(json.loads(f'"{text}"')) if "\\" in text else text


def _is_prompt(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    return isinstance(value, list) and bool(value) and all(map(_is_message, value))


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict) and isinstance(value.get("role"), str) and isinstance(value.get("content"), str | list)
    )


def _load_forms(connection: Connection, arm: int) -> Mapping[int, str]:
    query = "SELECT DISTINCT messages FROM calls WHERE arm = :arm AND messages IS NOT NULL"
    return load_forms(connection.execute, connection.scalars(query, arm=arm), arm=arm)


class _Samples:
    """The samples of one dataset by position: the originals, or a variant's twins."""

    def __init__(self, connection: Connection, dataset: str, is_gate: Callable[[Any], bool], variant: str = "") -> None:
        """`variant` is the hash of a variant's twins, if any."""
        query = """
            SELECT position, sample_id, sample_group, input, expected, metadata FROM samples WHERE dataset = :dataset
        """
        rows = connection.execute(query, dataset=dataset)
        self._rows = {position: (key, group, *map(from_json, values)) for position, key, group, *values in rows}
        self._sent = {position: (input, expected) for position, (_, _, input, expected, _) in self._rows.items()}
        if variant:
            # The samples that the variant does not apply to have no attempts, and are not looked up.
            twins = "SELECT position, input, expected FROM twins WHERE variant = :variant"
            rows = connection.execute(twins, variant=variant)
            self._sent = {position: (from_json(input), from_json(expected)) for position, input, expected in rows}
        self._dataset = dataset
        self._is_gate = is_gate
        self._facts: SampleFacts | None = None
        self._texts: tuple[int, dict[str, str]] = (-1, {})

    def input(self, position: int) -> Any:
        return self._sent[position][0]

    def facts(self, position: int) -> SampleFacts:
        """Return the facts of a sample. Rows come in the order of positions, so only the last ones are kept."""
        if self._facts is None or self._facts.position != position:
            key, group, input, _, _ = self._rows[position]
            expected = self._sent[position][1]
            self._facts = SampleFacts(self._dataset, position, key, group, expected, self._is_gate(input))
        return self._facts

    def texts(self, position: int) -> dict[str, str]:
        """Return the texts that a form refers to, those of the last sample kept."""
        if self._texts[0] != position:
            *_, metadata = self._rows[position]
            self._texts = (position, sample_texts(self.input(position), metadata or {}))
        return self._texts[1]
