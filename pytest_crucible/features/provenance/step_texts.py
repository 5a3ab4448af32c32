"""The texts of a timeline's steps: prompts, parameters, reasoning and replies, each where it belongs in the order of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_crucible.features.provenance.timeline import CALLS, LONGEST_TITLE, Step, call_ends
from pytest_crucible.records.tool_results import name_results, result_name
from pytest_crucible.report.conversations import tool_texts
from pytest_crucible.stats.number_format import quantity


class NamedText(NamedTuple):
    """A text of a step. Its name is empty for a remark about others."""

    name: str
    value: Any
    """A text, or plain data."""


def step_texts(steps: Sequence[Step]) -> list[list[NamedText]]:
    """Return the texts of each step: of a call its prompt and parameters, of the last step of the call its reply."""
    ends = call_ends(steps)
    replies = [step.facts.get("reply") for step in steps if step.kind in CALLS]
    decisions = {step.facts.get("number"): step for step in steps if step.kind == "decision"}
    texts: list[list[NamedText]] = []
    before: list[Any] = []
    sent: dict[int | None, list[NamedText]] = {}
    for place, step in enumerate(steps):
        texts.append(own := [])
        if step.kind == "call":
            messages = _as_messages(step.facts.get("prompt"))
            own += [*_prompt(messages, before), *_parameters(step)]
            before, sent[step.call] = messages, [*_prompt(messages, ()), *_parameters(step)]
        elif step.kind == "member":
            # What the call has sent to all members stands below it.
            to_member = [*_prompt(_as_messages(step.facts.get("prompt")), ()), *_parameters(step)]
            own += [text for text in to_member if text not in sent.get(step.call, ())]
        elif step.kind == "end" and step.facts.get("reply") and step.facts["reply"] not in replies:
            # The reply of no call: the test made it, or its call is not known.
            own.append(NamedText("scored", step.facts["reply"]))
        elif step.kind == "decision":
            own += _grounds(step, decisions)
        if place in ends:
            own += _reply(ends[place])
    return texts


def _as_messages(prompt: Any) -> list[Any]:
    if isinstance(prompt, list) and all(isinstance(message, Mapping) for message in prompt):
        return name_results(prompt)
    return [] if prompt is None else [{"role": "prompt", "content": prompt}]


def _prompt(messages: Sequence[Any], before: Sequence[Any]) -> Iterator[NamedText]:
    """Yield the messages that were not sent before: each call sends the whole conversation again."""
    repeated = len(before) if before and messages[: len(before)] == before else 0
    if repeated:
        yield NamedText("", f"({quantity(repeated, 'message')} as before)")
    for message in messages[repeated:]:
        tool = result_name(message)
        shown_apart = ("role", "content", *(["name"] if tool else []))
        rest = {name: value for name, value in message.items() if name not in shown_apart}
        content, role = message.get("content"), f"{message.get('role', 'message')}{f' {tool}' if tool else ''}"
        if content is not None or not rest:
            yield NamedText(role, content)
        if rest:
            yield NamedText(role, rest)


def _parameters(step: Step) -> Iterator[NamedText]:
    parameters = step.facts.get("parameters")
    if parameters:
        yield NamedText("parameters", ", ".join(f"{name}={value}" for name, value in parameters.items()))


def _grounds(decision: Step, decisions: Mapping[int | None, Step]) -> Iterator[NamedText]:
    text = decision.facts.get("decision", "")
    if len(text) > LONGEST_TITLE:
        yield NamedText("decision", text)
    revises = decision.facts.get("revises")
    if revises is not None:
        # By its text: its number among the decisions is not that of its step.
        revised = (decisions[revises].facts.get("decision") if revises in decisions else "") or f"decision {revises}"
        yield NamedText("instead of", revised)
    if decision.facts.get("over"):
        yield NamedText("over", "; ".join(decision.facts["over"]))
    if decision.facts.get("because"):
        yield NamedText("because", decision.facts["because"])


def _reply(call: Step) -> Iterator[NamedText]:
    if call.facts.get("reasoning"):
        yield NamedText("reasoning", call.facts["reasoning"])
    if call.facts.get("reply") is not None:
        tools = call.facts.get("tool_calls") or ()
        if call.facts["reply"] or not tools:
            yield NamedText("reply", call.facts["reply"] or "(empty)")
        for tool in list(tool_texts(tools)) or tools:
            yield NamedText("tool call", tool)
    elif call.facts.get("error"):
        yield NamedText("no reply", call.facts["error"])
