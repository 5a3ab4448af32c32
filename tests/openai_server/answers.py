"""The server's answers: whole ones, streams and errors in OpenAI's form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .behaviour import Behaviour

Json = dict[str, Any]
_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)


def prompt_of(body: Mapping[str, Any]) -> str:
    """The prompt, or the content of the last message."""
    if "messages" not in body:
        return str(body.get("prompt", ""))
    content = body["messages"][-1].get("content") if body["messages"] else ""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return str(content or "")


def tokens_of(text: str) -> list[str]:
    """Words, each with the blanks after it."""
    return re.findall(r"\S+\s*|\s+", text)


def whole(behaviour: Behaviour, body: Mapping[str, Any]) -> Json:
    """The answer in one piece."""
    chat, tokens, finish = _choose_answer(behaviour, body)
    choices = []
    for index in range(int(body.get("n") or 1)):
        choice: Json = {"index": index, "finish_reason": finish, "logprobs": _logprobs(chat, body, tokens)}
        if body.get("echo") and behaviour.text != "no echo":
            choice["logprobs"] = _echo(tokens_of(prompt_of(body)), tokens)
        if chat:
            choice["message"] = _message("".join(tokens), finish, body)
        else:
            choice["text"] = "".join(tokens)
        choices.append(choice)
    kind = "chat.completion" if chat else "text_completion"
    return {**_about(kind, behaviour, body), "choices": choices, "usage": _usage(body, tokens, len(choices))}


def pieces(behaviour: Behaviour, body: Mapping[str, Any]) -> Iterator[Json]:
    """The answer as a stream's events: every token of every choice, the ends, and the usage where it is asked for."""
    chat, tokens, finish = _choose_answer(behaviour, body)
    about = _about("chat.completion.chunk" if chat else "text_completion", behaviour, body)
    numbers = range(int(body.get("n") or 1))
    for token in tokens:
        for index in numbers:
            choice: Json = {"delta": {"content": token}} if chat else {"text": token}
            yield {
                **about,
                "choices": [
                    {"index": index, "finish_reason": None, "logprobs": _logprobs(chat, body, [token]), **choice}
                ],
            }
    for index in numbers:
        last: Json = {"delta": _calls_in_pieces(finish, body)} if chat else {"text": ""}
        yield {**about, "choices": [{"index": index, "finish_reason": finish, **last}]}
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**about, "choices": [], "usage": _usage(body, tokens, len(numbers))}


def error(message: str, *, kind: str = "server_error", code: str | None = None) -> Json:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def models(names: list[str]) -> Json:
    return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "tests"} for name in names]}


def encode(answer: Json) -> bytes:
    return _ENCODER.encode(answer).encode()


def text_of(behaviour: Behaviour, body: Mapping[str, Any]) -> str:
    """The whole text of the answer."""
    prompt = prompt_of(body)
    return dict(behaviour.answers).get(prompt, prompt) if behaviour.text is None else behaviour.text


def _choose_answer(behaviour: Behaviour, body: Mapping[str, Any]) -> tuple[bool, list[str], str]:
    text = text_of(behaviour, body)
    most = body.get("max_completion_tokens") or body.get("max_tokens")
    tokens = tokens_of(text)
    cut = most is not None and len(tokens) > most
    return "messages" in body, tokens[:most] if cut else tokens, behaviour.finish or ("length" if cut else "stop")


def _message(text: str, finish: str, body: Mapping[str, Any]) -> Json:
    if finish != "tool_calls":
        return {"role": "assistant", "content": text, "refusal": None}
    return {"role": "assistant", "content": None, "tool_calls": [_call(body)]}


def _call(body: Mapping[str, Any]) -> Json:
    name = body["tools"][0]["function"]["name"] if body.get("tools") else "look_up"
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": '{"of": "evidence"}'}}


def _calls_in_pieces(finish: str, body: Mapping[str, Any]) -> Json:
    return {"tool_calls": [{"index": 0, **_call(body)}]} if finish == "tool_calls" else {}


def _logprobs(chat: bool, body: Mapping[str, Any], tokens: list[str]) -> Json | None:
    if not body.get("logprobs"):
        return None
    values = [-0.5 / (1 + len(token)) for token in tokens]
    if not chat:
        return {"tokens": tokens, "token_logprobs": values, "top_logprobs": None, "text_offset": []}
    return {
        "content": [
            {"token": token, "logprob": value, "bytes": None, "top_logprobs": []}
            for token, value in zip(tokens, values, strict=True)
        ]
    }


def _echo(prompt: list[str], answer: list[str]) -> Json:
    """The prompt's tokens before those of the answer; the first has no log-probability."""
    tokens = [*prompt, *answer]
    return {"tokens": tokens, "token_logprobs": [None, *(-float(len(token)) for token in tokens[1:])]}


def _usage(body: Mapping[str, Any], tokens: list[str], choices: int) -> Json:
    read = len(prompt_of(body).split())
    written = len(tokens) * choices
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _about(kind: str, behaviour: Behaviour, body: Mapping[str, Any]) -> Json:
    return {"id": "answer-1", "object": kind, "created": 0, "model": behaviour.names or body.get("model")}
