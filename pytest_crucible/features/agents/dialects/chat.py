"""Chat completions: the form in which the other dialects are read, too.

A reply has only the numbers of its log-probabilities: an answer has them beside empty tokens, without alternatives.
Usage always comes, in a stream as an unasked last chunk, because several clients do not ask and then count no tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_crucible.features.agents.dialects.dialect import ClientRequest
from pytest_crucible.local_model.server.openai_bodies import read_model, read_objects, read_parameters
from pytest_crucible.local_model.server.openai_wire import (
    DONE,
    SentText,
    finish_reason,
    write_calls,
    write_error,
    write_event,
    write_logprobs,
    write_message,
    write_usage,
)
from pytest_crucible.local_model.server.transport import Refusal
from pytest_crucible.records import Reply

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


class Chat:
    """Reads and writes chat completions."""

    def read(self, body: Mapping[str, Any]) -> ClientRequest:
        messages = read_objects(body.get("messages"), "messages")
        for message in messages:
            if message.get("role") not in _ROLES:
                raise Refusal(f"messages has the role {message.get('role')!r}; expected {', '.join(_ROLES)}")
        parameters = read_parameters(body, "messages", "model", "stream")
        return ClientRequest(messages, parameters, read_model(body), stream=body.get("stream") is True)

    def answer(self, request: ClientRequest, reply: Reply, answer_id: str, created: int) -> dict[str, Any]:
        choices = []
        for index, choice in enumerate((reply, *reply.alternatives)):
            message = write_message(choice, _write_calls(request, choice))
            choices.append({"index": index, "message": message, **_write_end(request, choice)})
        head = _write_head("chat.completion", request, answer_id, created)
        usage = write_usage(reply.input_tokens, reply.output_tokens)
        return {**head, "choices": choices, "usage": usage, **_write_fingerprint(reply)}

    def stream(self, request: ClientRequest, answer_id: str, created: int) -> ChatStream:
        return ChatStream(request, answer_id, created)

    def error(self, sentence: str, status: int, code: str | None) -> dict[str, Any]:
        return write_error(sentence, status, code)


class ChatStream:
    """Writes the chunks of one chat completion; further choices come whole at the end."""

    def __init__(self, request: ClientRequest, answer_id: str, created: int) -> None:
        self._request = request
        self._head = _write_head("chat.completion.chunk", request, answer_id, created)
        self._sent = SentText()

    def begin(self) -> bytes:
        return self._chunk(0, {"role": "assistant", "content": ""})

    def piece(self, text: str) -> bytes:
        self._sent.add(text)
        return self._chunk(0, {"content": text})

    def end(self, reply: Reply) -> bytes:
        rest = self._sent.rest(reply.text)
        if rest is None:
            return self.fail(SentText.DIFFERS)
        chunks = [self._choice(0, reply, rest)]
        for index, choice in enumerate(reply.alternatives, start=1):
            chunks += [self._chunk(index, {"role": "assistant"}), self._choice(index, choice, choice.text)]
        usage = write_usage(reply.input_tokens, reply.output_tokens)
        last = {**self._head, "choices": [], "usage": usage, **_write_fingerprint(reply)}
        return b"".join((*chunks, write_event(last), DONE))

    def fail(self, sentence: str) -> bytes:
        return write_event(write_error(sentence, 500))

    def _choice(self, index: int, reply: Reply, text: str) -> bytes:
        calls = _write_calls(self._request, reply)
        numbered = [{"index": number, **call} for number, call in enumerate(calls)]
        deltas = ({"reasoning_content": reply.reasoning}, {"content": text}, {"tool_calls": numbered})
        chunks = [self._chunk(index, delta) for delta in deltas if any(delta.values())]
        return b"".join((*chunks, self._chunk(index, {}, **_write_end(self._request, reply))))

    def _chunk(self, index: int, delta: Mapping[str, Any], **end: Any) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None, **end}
        return write_event({**self._head, "choices": [choice], "usage": None})


def _write_head(kind: str, request: ClientRequest, answer_id: str, created: int) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answer_id}", "object": kind, "created": created, "model": request.model}


def _write_calls(request: ClientRequest, reply: Reply) -> list[dict[str, Any]]:
    # The earlier calls are counted only where the names of new ones may need it: a conversation may be long.
    return write_calls(reply, request.earlier_calls) if reply.tool_calls else []


def _write_end(request: ClientRequest, reply: Reply) -> dict[str, Any]:
    has_logprobs = request.parameters.get("logprobs") and reply.logprobs is not None
    logprobs = {"content": write_logprobs(reply), "refusal": None} if has_logprobs else None
    return {"logprobs": logprobs, "finish_reason": finish_reason(reply)}


def _write_fingerprint(reply: Reply) -> dict[str, str]:
    return {"system_fingerprint": reply.system_fingerprint} if reply.system_fingerprint else {}
