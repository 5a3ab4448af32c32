"""The form that requests of all dialects are read into, and what a dialect and its streams do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from pytest_crucible.local_model.server.openai_tools import OwnTool
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A client's request, in the form of chat completions."""

    messages: list[dict[str, Any]]
    """Of the roles system, developer, user, assistant (with `tool_calls`) and tool (with `tool_call_id`)."""
    parameters: dict[str, Any]
    """Such as tools, tool_choice, response_format, temperature, max_tokens, stop, seed, n. What only means something to the
    provider's own service is left out; a parameter without a counterpart in chats is passed on as it is."""
    model: str
    """The client's name of the model, which answers carry too."""
    stream: bool
    with_reasoning: bool = True
    """Whether the client reads reasoning in answers."""
    own_tools: Mapping[str, OwnTool] = field(default_factory=dict)
    """Tools that chats do not have, by the names of their functions in `parameters`."""
    left_out: tuple[str, ...] = ()
    """Types of tools that the provider's own servers run, and that the arm is not offered."""

    @property
    def earlier_calls(self) -> int:
        """The number of tool calls in the conversation so far."""
        return sum(len(message.get("tool_calls") or ()) for message in self.messages)


def leave_out_provider_tools(
    tools: Sequence[dict[str, Any]], types: tuple[str, ...]
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return the tools that a client runs, and the types of the others: theirs begin with one of `types`."""
    others = [tool for tool in tools if str(tool.get("type")).startswith(types)]
    return [tool for tool in tools if tool not in others], tuple(str(tool["type"]) for tool in others)


class StreamWriter(Protocol):
    """Writes the events of one streamed answer."""

    def begin(self) -> bytes:
        """Return the events before the first text."""
        ...

    def piece(self, text: str) -> bytes:
        """Return the events of a piece of the text."""
        ...

    def end(self, reply: Reply) -> bytes:
        """Return all remaining events: the text that has not been sent, tool calls, the end and the usage.

        A reply that does not begin with the pieces that were sent ends as `fail` does: a client cannot take text back.
        """
        ...

    def fail(self, sentence: str) -> bytes:
        """Return an event with an error, which ends the stream."""
        ...


class Dialect(Protocol):
    """Reads requests, and writes answers, in the format of one API."""

    def read(self, body: Mapping[str, Any]) -> ClientRequest:
        """Return the request in a JSON body. Raises Refusal for one that this format does not allow, or that cannot be served."""
        ...

    def answer(self, request: ClientRequest, reply: Reply, answer_id: str, created: int) -> dict[str, Any]:
        """Return the answer's JSON; `answer_id` is a hexadecimal text that no other answer has."""
        ...

    def stream(self, request: ClientRequest, answer_id: str, created: int) -> StreamWriter:
        """Return the writer of a streamed answer."""
        ...

    def error(self, sentence: str, status: int, code: str | None) -> dict[str, Any]:
        """Return the JSON of an error."""
        ...
