"""Reads what is stored about each sample: states and latencies, replies, and conversations turn by turn."""

from __future__ import annotations

import contextlib
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.records import (
    ArmReply,
    Conversation,
    Draws,
    Exchange,
    OutcomeState,
    Plan,
    StoredCall,
    Unit,
)
from pytest_crucible.records.outcomes import STOP
from pytest_crucible.records.reasoning import reasoning_text
from pytest_crucible.store.database import Row, from_json
from pytest_crucible.store.outcomes import of_arm, place_of
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import load_sample, load_twins, samples
from pytest_crucible.store.schema import FORM_COLUMNS
from pytest_crucible.store.texts import (
    PARAMETERS,
    SHORTEST_REFERENCE,
    messages_of,
    referred_text,
    sample_texts,
    stored_text,
    text_form,
)


def mean_latencies(store: RunStore, experiment: int, number: int, samples: int) -> list[float]:
    """Return the mean latency of an arm's replies to each sample, in seconds; NaN without any."""
    import numpy as np

    total, count = np.zeros(samples), np.zeros(samples)
    for position, seconds in _rows_of_arm(store, experiment, number, "replies", "position, latency_s"):
        if seconds is not None:
            total[position] += seconds
            count[position] += 1
    with np.errstate(invalid="ignore"):
        # 0 / 0 is NaN.
        means: list[float] = (total / count).tolist()
    return means


def outcome_states(store: RunStore, experiment: int, number: int, samples: int) -> list[OutcomeState]:
    """Return the worst state of each sample's repeats in an arm. A sample without a result is lost."""
    import numpy as np

    worst = np.full(samples, -1)
    rows = _rows_of_arm(store, experiment, number, "replies", "position, failure, skipped")
    for position, failure, skipped in rows:
        worst[position] = max(worst[position], 2 if failure else 1 if skipped else 0)
    for position, metric in _rows_of_arm(store, experiment, number, "lost", "position, metric"):
        if not metric:
            worst[position] = 3
    # -1 is the last of them.
    return [_SEVERITY[k] for k in worst]


_SEVERITY: tuple[OutcomeState, ...] = ("answered", "skipped", "failed", "lost")


def load_exchanges(
    store: RunStore, experiment: int, plan: Plan, positions: Sequence[int], twin: int = 0
) -> list[Exchange]:
    """Return input and replies of the samples at some positions, in that order. Pass a few hundred at a time.

    With a `twin` they are the replies to the samples' twins with this number.
    """
    of_samples = samples(store, plan.dataset_sha256, positions)
    numbers = range(len(plan.arms))
    arms = [arm_replies(store, experiment, number, positions, plan.draws(number), twin) for number in numbers]
    return [
        Exchange(
            position=position,
            input=of_samples[position].input,
            expected=of_samples[position].expected,
            replies=tuple(tuple(arm.get(position, ())) for arm in arms),
        )
        for position in positions
    ]


def arm_replies(
    store: RunStore, experiment: int, number: int, positions: Sequence[int], draws: Draws, twin: int = 0
) -> Mapping[int, list[ArmReply]]:
    """Return an arm's replies by position, in the order of the repeats over all prompts. Pass a few hundred at a time."""
    by_position: dict[int, list[ArmReply]] = defaultdict(list)

    def add(
        position: int, repeat: int, state: OutcomeState, reason: str | None, detail: str | None, *rest: Any
    ) -> None:
        text, latency_s, tokens, input_tokens, finish = rest or ("", None, None, None, None)
        by_position[position].append(
            ArmReply(
                repeat=repeat,
                state=state,
                text=text or "",
                detail="; ".join(part for part in (reason, detail) if part),
                latency_s=latency_s,
                output_tokens=tokens,
                input_tokens=input_tokens,
                finish=finish or STOP,
            )
        )

    def read(table: str, columns: str) -> Iterator[tuple[Any, ...]]:
        columns = f"position, {place_of(table, draws, twin)}, {columns}"
        where = f"{of_arm(twin)} AND position IN (:positions)"
        return _rows_of_arm(store, experiment, number, table, columns, where, positions=list(positions))

    of_replies = f"failure, skipped, detail, {stored_text('replies')}, latency_s, output_tokens, input_tokens, finish"
    for position, repeat, failure, skipped, detail, *rest in read("replies", of_replies):
        state: OutcomeState = "failed" if failure else "skipped" if skipped else "answered"
        add(position, repeat, state, failure, detail, *rest)
    for position, repeat, metric, reason, detail in read("lost", "metric, reason, detail"):
        if not metric:
            add(position, repeat, "lost", reason, detail)
    return {position: sorted(of_sample, key=lambda reply: reply.repeat) for position, of_sample in by_position.items()}


def _rows_of_arm(
    store: RunStore, experiment: int, number: int, table: str, columns: str, where: str = of_arm(), **values: Any
) -> Iterator[tuple[Any, ...]]:
    """Yield columns of an arm's rows in a table."""
    query = f"SELECT {columns} FROM {table} JOIN arms ON arms.id = {table}.arm WHERE {where}"
    return store.rows(query, experiment=experiment, number=number, **values)


def load_conversations(store: RunStore, experiment: int, plan: Plan, position: int) -> list[Conversation]:
    """Return the conversations about the sample at a position: by variant, then by arm, and then by repeat."""
    return [
        conversation
        for twin in range(1 + len(plan.variants))
        for conversation in _of_twin(store, experiment, plan, position, twin)
    ]


def _of_twin(store: RunStore, experiment: int, plan: Plan, position: int, twin: int) -> Iterator[Conversation]:
    """Yield the conversations about an original sample, or about its twin in a variant."""
    [exchange] = load_exchanges(store, experiment, plan, [position], twin)
    sample = load_sample(store, plan.dataset_sha256, position)
    if twin:
        sent = load_twins(store, plan.variants[twin - 1].sha256, position).get(position)
        sample = sample if sent is None else {**sample, "input": sent["input"]}
    for number, (arm, replies) in enumerate(zip(plan.arms, exchange.replies, strict=True)):
        draws = plan.draws(number)
        calls = load_sample_calls(store, experiment, number, sample, draws, twin)
        scores = _scores(store, experiment, number, position, draws, twin)
        for reply in replies:
            unit = Unit(position, twin * draws.prompts, number, reply.repeat)
            draw = plan.draw_text(number, twin * draws.size + reply.repeat)
            yield Conversation(
                unit=unit,
                arm=arm.name,
                state=reply.state,
                detail=reply.detail,
                reply=reply.text,
                calls=tuple(calls.get(reply.repeat, ())),
                scores=scores.get(reply.repeat, {}),
                input=sample["input"] if twin else None,
                draw=draw,
            )


def agent_positions(store: RunStore, experiment: int, number: int) -> set[int]:
    """Return the positions of samples about which an arm was called several times, or has called tools."""
    where = f"{of_arm()} AND calls.member = '' AND (calls.call > 1 OR calls.tool_calls IS NOT NULL)"
    return {position for (position,) in _rows_of_arm(store, experiment, number, "calls", "DISTINCT position", where)}


def load_sample_calls(
    store: RunStore, experiment: int, number: int, sample: Mapping[str, Any], draws: Draws, twin: int = 0
) -> Mapping[int, Sequence[StoredCall]]:
    """Return the calls of an arm about one sample or twin, by repeat over all prompts."""
    # Imported here: a session's reports read no conversations.
    from pytest_crucible.store.forms import load_forms

    query = f"""
        SELECT
            calls.call, request, member, messages, tool_calls, is_scored, reasoning, think, error, paid_by,
            has_texts, cached, answered_by,
            {PARAMETERS} AS parameters,
            {stored_text("calls")} AS text,
            {referred_text("calls.reasoning_id")} AS thoughts,
            {stored_text("replies")} AS scored,
            {place_of("calls", draws, twin)} AS place
        FROM calls JOIN arms ON arms.id = calls.arm
        LEFT JOIN replies ON replies.arm = calls.arm AND replies.position = calls.position AND replies.epoch = calls.epoch
        WHERE {of_arm(twin)} AND calls.position = :position
        ORDER BY calls.arm, calls.epoch, calls.call, calls.member
    """
    by_repeat: dict[int, list[Row]] = defaultdict(list)
    with store.connect() as connection:
        for row in connection.named_rows(query, experiment=experiment, number=number, position=sample["position"]):
            by_repeat[row["place"]].append(row)
        rows = [row for of_repeat in by_repeat.values() for row in of_repeat]
        keys = (row[name] for row in rows for name in FORM_COLUMNS if row[name] is not None)
        forms = load_forms(connection.execute, keys, experiment=experiment)
    return {repeat: list(_of_unit(of_repeat, sample, forms)) for repeat, of_repeat in by_repeat.items()}


def _of_unit(rows: Sequence[Row], sample: Mapping[str, Any], forms: Mapping[int, str]) -> Iterator[StoredCall]:
    """Yield calls in the order in which they were sent: their messages refer to the sample and to earlier replies."""
    texts = sample_texts(sample["input"], sample["metadata"] or {})
    for row in rows:
        text = row["scored"] if row["is_scored"] else row["text"]
        messages, is_known = _messages(row["messages"], sample["input"], forms, texts)
        yield StoredCall(
            call=row["call"],
            request=row["request"],
            member=row["member"],
            messages=messages,
            parameters=from_json(row["parameters"]),
            text=text,
            reasoning=_reasoning(row, text),
            tool_calls=_tool_calls(row["tool_calls"], forms, texts),
            think=row["think"] or 0,
            error=row["error"] or "",
            paid_by=row["paid_by"],
            cached=None if row["cached"] is None else bool(row["cached"]),
            answered_by=from_json(row["answered_by"]),
            # `cached` is null for a call without a reply.
            is_recorded=is_known and (text is not None or row["has_texts"] is None or row["cached"] is None),
        )
        if not row["member"] and text is not None and len(text) >= SHORTEST_REFERENCE:
            texts[f"r{row['call']}"] = text_form(text)


def _messages(form: int | None, input: Any, forms: Mapping[int, str], texts: Mapping[str, str]) -> tuple[Any, bool]:
    """Return the messages of a call as they were sent, and True; None and False where they, or replies in them, are not stored."""
    if form is None:
        return input, True
    with contextlib.suppress(KeyError):
        return messages_of(forms[form], texts), True
    return None, False


def _tool_calls(form: int | None, forms: Mapping[int, str], texts: Mapping[str, str]) -> Sequence[Any]:
    """Return the tools that a reply calls; none where they are not stored."""
    with contextlib.suppress(KeyError):
        calls: Sequence[Any] = () if form is None else messages_of(forms[form], texts)
        return tuple(calls)
    return ()


def _reasoning(row: Row, text: str | None) -> str:
    if row["thoughts"] is not None:
        return str(row["thoughts"])
    if row["reasoning"] is not None:
        return zlib.decompress(row["reasoning"]).decode()
    return reasoning_text(text or "", row["think"] or 0)


def _scores(
    store: RunStore, experiment: int, number: int, position: int, draws: Draws, twin: int
) -> Mapping[int, Mapping[str, Any]]:
    """Return metric -> value for each repeat of a sample in an arm."""
    columns = f"{place_of('observations', draws, twin)}, metric, value, is_bool, label"
    where = f"{of_arm(twin)} AND position = :position ORDER BY arm, epoch, metric"
    rows = _rows_of_arm(store, experiment, number, "observations", columns, where, position=position)
    scores: dict[int, dict[str, Any]] = defaultdict(dict)
    for repeat, metric, value, is_bool, label in rows:
        scores[repeat][metric] = label if label is not None else bool(value) if is_bool and value is not None else value
    return scores
