"""Conversations with a model that calls tools: questions, replies, and the messages of a chat that they are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from pytest_crucible.records import Reply


@dataclass(frozen=True)
class Turn:
    """A question and its reply; each of the reply's calls is answered by `result ID`."""

    question: str
    reply: Reply

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages of a chat."""
        reply = self.reply
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or (None if reply.tool_calls else "")}
        message |= {"reasoning_content": reply.reasoning} if reply.reasoning else {}
        message |= {"tool_calls": [dict(call) for call in reply.tool_calls]} if reply.tool_calls else {}
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": f"result {call['id']}"} for call in reply.tool_calls
        ]
        return [{"role": "user", "content": self.question}, message, *results]


def _write_call(name: str, arguments: dict[str, Any], place: str) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": place, "type": "function", "function": function}


@st.composite
def conversations(draw: st.DrawFn) -> list[Turn]:
    """Draw up to three turns; ids of calls are unique, arguments are JSON as Python writes it."""
    texts, names = st.text(max_size=12), st.text("abc_", min_size=1, max_size=6)
    values = st.dictionaries(texts, st.one_of(texts, st.integers(-9, 9), st.none(), st.booleans()), max_size=2)
    turns = []
    for number in range(draw(st.integers(1, 3))):
        drawn = draw(st.lists(st.tuples(names, values), max_size=2))
        calls = tuple(_write_call(*call, f"call_{number}_{place}") for place, call in enumerate(drawn))
        reply = Reply(text=draw(texts), reasoning=draw(texts), tool_calls=calls)
        turns.append(Turn(draw(texts), reply))
    return turns
