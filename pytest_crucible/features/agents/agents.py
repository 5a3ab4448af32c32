"""Metrics of an agent's trajectory: its calls, its tools and their arguments, what it repeats.

from pytest_crucible import agents

@pytest.mark.crucible("tickets.jsonl", metrics=["calls", "tokens", agents.tool_called("refund")])

A trajectory is the calls that the unit's function has sent to its arm, in the order of their arrival. Calls of roles are not among
them: `agents.role_calls("planner")` counts those. Tokens, cost and seconds are those of the whole unit, roles included.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from pytest_crucible.features.agents.state_metrics import file_equals as file_equals
from pytest_crucible.features.agents.state_metrics import rows as rows
from pytest_crucible.features.agents.state_metrics import tests_pass as tests_pass
from pytest_crucible.features.agents.tables import endpoint_calls
from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.metrics.models.scorers import current_reply
from pytest_crucible.metrics.text import start_clock
from pytest_crucible.records import JUDGE, ModelCall, Reply, Sample
from pytest_crucible.records.errors import NotStored, SpecError
from pytest_crucible.records.usage import ROLE

Order = Literal["strict", "any order", "subset"]
Tool: TypeAlias = "tuple[str, Any]"
"""The name of a tool and its arguments: a JSON value, or the text itself if it is no JSON."""
_NOT_KNOWN = NotApplicable("no session has recorded the calls of this reply")


def _of_calls(*tables: str) -> Callable[[Metric], Metric]:
    """Return what declares that a metric follows from the calls of a reply, and from rows of these tables."""
    return lambda scorer: replace(scorer, facts=replace(scorer.facts, of_calls=True), tables=tables)


def _of_failures(scorer: Metric) -> Metric:
    # A trajectory is known whether the agent failed at its end or not.
    return replace(scorer, scores_failures=True)


def _unit_calls() -> list[ModelCall] | NotApplicable:
    """Return the calls of the unit that is scored, without those of judges; or why they are not known."""
    recorded = current_reply().calls
    return _NOT_KNOWN if recorded is None else [call for call in recorded if not call.judge.startswith(JUDGE)]


def _own_calls(role: str = "") -> list[ModelCall] | NotApplicable:
    sent = _unit_calls()
    return sent if isinstance(sent, NotApplicable) else [call for call in sent if call.judge == role]


def read_tools(sent: Sequence[ModelCall]) -> list[Tool]:
    """Return the tools that replies have called, in order."""
    return [_read_tool(tool) for call in sent if call.reply is not None for tool in call.reply.tool_calls]


def _read_tool(tool: Mapping[str, Any]) -> Tool:
    function = tool.get("function") or {}
    arguments = function.get("arguments")
    try:
        return str(function.get("name")), json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return str(function.get("name")), arguments


def _own_tools() -> list[Tool] | NotApplicable:
    sent = _own_calls()
    return sent if isinstance(sent, NotApplicable) else read_tools(sent)


@_of_calls()
@_of_failures
@metric(kind="count", direction="lower", version="1")
def calls(reply: Reply, sample: Sample) -> int | NotApplicable:
    """The number of calls of the arm."""
    sent = _own_calls()
    return sent if isinstance(sent, NotApplicable) else len(sent)


@_of_calls(endpoint_calls.name)
@_of_failures
@metric(kind="count", direction="lower", version="1")
def steps(reply: Reply, sample: Sample) -> int | NotApplicable:
    """The number of calls of the arm, of which those that were in flight together count once."""
    if isinstance(sent := _own_calls(), NotApplicable):
        return sent
    rows = (current_reply().feature_rows or {}).get(endpoint_calls.name, ())
    return len(sent) - sum(row["is_parallel"] and not row["role"] for row in rows)


@_of_calls()
@_of_failures
@metric(kind="count", direction="lower", version="1")
def tool_calls(reply: Reply, sample: Sample) -> int | NotApplicable:
    """The number of tools that the arm has called."""
    tools = _own_tools()
    return tools if isinstance(tools, NotApplicable) else len(tools)


@_of_calls()
@_of_failures
@metric(kind="count", direction="lower", version="1")
def repeated_calls(reply: Reply, sample: Sample) -> int | NotApplicable:
    """The number of tool calls that have the name and the arguments of an earlier one."""
    tools = _own_tools()
    if isinstance(tools, NotApplicable):
        return tools
    return len(tools) - len({json.dumps(tool, sort_keys=True, default=repr) for tool in tools})


@_of_calls(endpoint_calls.name)
@metric(kind="positive", direction="lower", version="1")
def tokens(reply: Reply, sample: Sample) -> int | NotApplicable:
    """The number of tokens read and written in all calls of the unit."""
    # Those of an agent that failed are scored when its unit is closed: unknown ones are lost there, and not inapplicable.
    sent = _unit_calls()
    if isinstance(sent, NotApplicable):
        return sent
    replies = [call.reply for call in sent] if current_reply().stored is None else [_stored_totals(len(sent))]
    numbers = [number for each in replies for number in _count_tokens(each)]
    if None in numbers:
        return NotApplicable("the tokens of a call are not known: its server does not count them, or it was cut off")
    return sum(number or 0 for number in numbers)


def _stored_totals(sent: int) -> Reply | None:
    """Return the stored reply, which has the tokens of all calls of a unit. Raises NotStored where it has not."""
    rows = (current_reply().feature_rows or {}).get(endpoint_calls.name, ())
    if sent != 1 and not rows:
        raise NotStored("the tokens of several calls of a sampler are not stored with a reply")
    return current_reply().stored


def _count_tokens(reply: Reply | None) -> tuple[int | None, int | None]:
    return (None, None) if reply is None else (reply.input_tokens, reply.output_tokens)


@_of_calls(endpoint_calls.name)
@_of_failures
@metric(kind="positive", direction="lower", version="1")
def wall_s(reply: Reply, sample: Sample) -> float | NotApplicable:
    """The seconds from the first call over the endpoint to the end of the last, tools between them included."""
    rows = (current_reply().feature_rows or {}).get(endpoint_calls.name, ())
    if not rows:
        return NotApplicable("no call was sent over the endpoint")
    return float(max(row["ended"] for row in rows) - min(row["begun"] for row in rows))


def role_calls(role: str) -> Metric:
    """Return a metric that counts the calls of a role, named `ROLE_calls`."""

    @_of_calls()
    @_of_failures
    @metric(name=f"{role}_calls", kind="count", direction="lower", version="1")
    def count(reply: Reply, sample: Sample) -> int | NotApplicable:
        sent = _own_calls(f"{ROLE}{role}")
        return sent if isinstance(sent, NotApplicable) else len(sent)

    return _describe_metric(count, f"The number of calls of the role {role!r}.")


def tool_called(name: str) -> Metric:
    """Return a metric that is true if the arm has called a tool, named `NAME_called`."""

    @_of_calls()
    @_of_failures
    @metric(name=f"{name}_called", kind="binary", version="1")
    def was_called(reply: Reply, sample: Sample) -> bool | NotApplicable:
        tools = _own_tools()
        return tools if isinstance(tools, NotApplicable) else any(tool == name for tool, _ in tools)

    return _describe_metric(was_called, f"The arm has called the tool {name!r}.")


def tool_arguments_valid(
    schemas: Mapping[str, Mapping[str, Any] | bool], *, name: str = "tool_arguments_valid"
) -> Metric:
    """Return a metric that is true if all tools that were called are among the schemas, with arguments that satisfy them.

    `schemas` are JSON Schemas by the name of the tool. Does not apply where no tool was called. Raises SpecError for an invalid
    schema.
    """
    from pytest_crucible.metrics.json_validator import schema_validator

    validators = {tool: schema_validator(schema, f"{name} of {tool}")[0] for tool, schema in schemas.items()}
    digest = hashlib.sha256(json.dumps(schemas, sort_keys=True).encode()).hexdigest()[:16]

    @_of_calls()
    @_of_failures
    @metric(name=name, kind="binary", version=f"2:{digest}", applies="reply")
    def valid(reply: Reply, sample: Sample) -> bool | NotApplicable:
        tools = _own_tools()
        if isinstance(tools, NotApplicable):
            return tools
        if not tools:
            return NotApplicable("no tool was called")
        start_clock()
        return all(tool in validators and validators[tool].is_valid(arguments) for tool, arguments in tools)

    return _describe_metric(valid, "All tools that were called exist, and their arguments satisfy their schemas.")


def tool_order(names: Sequence[str], *, mode: Order = "strict", name: str = "tool_order") -> Metric:
    """Return a metric that is true if the arm has called these tools: in this order ("strict"), as often in "any order", or
    in this order among others ("subset"). Raises SpecError for another mode, and for no names.
    """
    expected = list(names)
    if isinstance(names, str) or not expected:
        raise SpecError(f"tool_order({names!r}): write a list with the names of tools")
    if mode not in ("strict", "any order", "subset"):
        raise SpecError(f"tool_order has mode={mode!r}: write 'strict', 'any order' or 'subset'")

    @_of_calls()
    @_of_failures
    @metric(name=name, kind="binary", version=f"1:{mode}:{json.dumps(expected)}")
    def is_in_order(reply: Reply, sample: Sample) -> bool | NotApplicable:
        tools = _own_tools()
        return tools if isinstance(tools, NotApplicable) else _is_in_order([tool for tool, _ in tools], expected, mode)

    return _describe_metric(is_in_order, f"The tools were called as expected ({mode}): {', '.join(expected)}.")


def _is_in_order(called: Sequence[str], expected: Sequence[str], mode: Order) -> bool:
    """Return whether tools were called as expected.

    >>> _is_in_order(["find", "look", "refund"], ["find", "refund"], "subset")
    True
    """
    if mode == "subset":
        left = iter(called)
        return all(tool in left for tool in expected)
    return list(called) == list(expected) if mode == "strict" else sorted(called) == sorted(expected)


def _describe_metric(scorer: Metric, text: str) -> Metric:
    scorer.function.__doc__ = text
    return scorer
