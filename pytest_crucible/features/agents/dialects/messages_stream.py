"""Answers in the format of Anthropic's Messages: whole, and as events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pytest_crucible.features.agents.dialects.dialect import ClientRequest
from pytest_crucible.features.agents.dialects.tool_inputs import write_input
from pytest_crucible.local_model.server.openai_wire import SentText, write_calls, write_event
from pytest_crucible.records import Reply

Fields = dict[str, Any]


def write_message(request: ClientRequest, reply: Reply, answer_id: str) -> Fields:
    """Return a reply as a whole message."""
    message = _write_head(request, answer_id)
    usage = {**message["usage"], **_write_usage(reply)}
    return {**message, "content": _write_blocks(request, reply), **_write_end(reply), "usage": usage}


def _write_head(request: ClientRequest, answer_id: str) -> Fields:
    return {
        "id": f"msg_{answer_id}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
        },
    }


def _write_usage(reply: Reply) -> dict[str, int]:
    return {"input_tokens": reply.input_tokens or 0, "output_tokens": reply.output_tokens or 0}


def _write_end(reply: Reply) -> Fields:
    """Return the reason of the end; which stop sequence was met is not known, so such an end is `end_turn`."""
    reasons = {"length": "max_tokens", "content_filter": "refusal"}
    reason = reasons.get(reply.finish, "tool_use" if reply.tool_calls else "end_turn")
    return {"stop_reason": reason, "stop_sequence": None, "stop_details": None}


def _write_blocks(request: ClientRequest, reply: Reply, *, text_first: bool = False) -> list[Fields]:
    """Return thinking, text and calls; the text comes first where it was sent before the thinking was known."""
    calls = [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": write_input(call["function"]["arguments"]),
        }
        for call in write_calls(reply, request.earlier_calls)
    ]
    # A signature would prove to the provider that the thinking is its own.
    thinking = [{"type": "thinking", "thinking": reply.reasoning, "signature": ""}]
    thinking = thinking if reply.reasoning and request.with_reasoning else []
    texts = [{"type": "text", "text": reply.text}] if reply.text or not calls else []
    return [*texts, *thinking, *calls] if text_first else [*thinking, *texts, *calls]


class MessageStream:
    """Writes the events of one message."""

    def __init__(self, request: ClientRequest, answer_id: str) -> None:
        self._request, self._head = request, _write_head(request, answer_id)
        self._sent = SentText()

    def begin(self) -> bytes:
        return _event("message_start", message=self._head)

    def piece(self, text: str) -> bytes:
        is_first = not self._sent
        self._sent.add(text)
        if not text:
            return b""
        return (_open(0, {"type": "text", "text": ""}) if is_first else b"") + _delta(0, "text", text)

    def end(self, reply: Reply) -> bytes:
        rest = self._sent.rest(reply.text)
        if rest is None:
            return self.fail(SentText.DIFFERS)
        events: list[bytes] = []
        for index, block in enumerate(_write_blocks(self._request, reply, text_first=bool(self._sent))):
            if index == 0 and self._sent:
                events += [_delta(0, "text", rest)] if rest else []
            else:
                events += _start(index, block)
            events.append(_event("content_block_stop", index=index))
        events.append(_event("message_delta", delta=_write_end(reply), usage=_write_usage(reply)))
        return b"".join((*events, _event("message_stop")))

    def fail(self, sentence: str) -> bytes:
        return _event("error", error={"type": "api_error", "message": sentence})


def _start(index: int, block: Fields) -> Iterator[bytes]:
    """Yield the beginning of a block, which is empty, and its content."""
    kind = block["type"]
    if kind == "tool_use":
        yield _open(index, {**block, "input": {}})
        yield _delta(index, "input_json", json.dumps(block["input"], ensure_ascii=False))
    else:
        yield _open(index, {**block, kind: ""})
        yield _delta(index, kind, block[kind])


def _open(index: int, block: Fields) -> bytes:
    return _event("content_block_start", index=index, content_block=block)


def _delta(index: int, kind: str, text: str) -> bytes:
    field = {"input_json": "partial_json"}.get(kind, kind)
    return _event("content_block_delta", index=index, delta={"type": f"{kind}_delta", field: text})


def _event(kind: str, **fields: Any) -> bytes:
    return write_event({"type": kind, **fields}, kind)
