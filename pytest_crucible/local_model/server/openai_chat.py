"""Chat completions in OpenAI's format.

Messages become a prompt by `local_model.chat`: a single one is the prompt as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from pytest_crucible.local_model.chat import render_prompt
from pytest_crucible.local_model.sampling import Sampled
from pytest_crucible.local_model.server import request_fields
from pytest_crucible.local_model.server.messages import Json, Request, Response, bad_request
from pytest_crucible.local_model.server.openai_formats import read_tools, split_calls, with_tools
from pytest_crucible.local_model.server.openai_logprobs import chat_logprobs
from pytest_crucible.local_model.server.openai_models import find_weights
from pytest_crucible.local_model.server.openai_replies import compute_replies, count_usage, make_response
from pytest_crucible.local_model.server.openai_requests import MAX_TOP_LOGPROBS, read_body, read_sample_request
from pytest_crucible.local_model.server.openai_streams import open_stream
from pytest_crucible.local_model.server.replies import SampleRequest, Weights
from pytest_crucible.local_model.server.request_fields import Body
from pytest_crucible.local_model.server.state import Endpoints, Service
from pytest_crucible.local_model.tokens import Tokenizer


async def chat_completions(service: Service, request: Request) -> Response:
    """Reply to a conversation."""
    body = read_body(request)
    weights, sample_request = _chat_request(service, body)
    tokenizer = weights.base.engine.tokenizer
    if request_fields.boolean(body, "stream", False):
        piece = functools.partial(_delta_piece, read_tools(body), f"call-{next(service.numbers)}")
        return await open_stream(service, weights, body, [sample_request], "chat.completion.chunk", "chatcmpl", piece)
    replies = await compute_replies(service, weights, [sample_request])
    with_logprobs = request_fields.boolean(body, "logprobs", False)
    has_tools = bool(read_tools(body))
    choices: list[Json] = [
        {
            "index": index,
            "message": message,
            "logprobs": chat_logprobs(tokenizer, reply) if with_logprobs else None,
            "finish_reason": "tool_calls" if "tool_calls" in message else reply.stop_reason,
        }
        for index, reply in enumerate(replies)
        if (message := _chat_message(reply, f"call-{next(service.numbers)}", has_tools=has_tools))
    ]
    return make_response(
        service, weights, "chat.completion", "chatcmpl", body, choices, count_usage([sample_request], replies)
    )


async def answer_chat(service: Service, body: Body) -> tuple[Weights, list[Sampled], dict[str, int]]:
    """Return the replies to a chat request's body, with the weights that gave them and the usage."""
    weights, sample_request = _chat_request(service, body)
    replies = await compute_replies(service, weights, [sample_request])
    return weights, replies, count_usage([sample_request], replies)


def _chat_request(service: Service, body: Body) -> tuple[Weights, SampleRequest]:
    weights = find_weights(service, request_fields.text(body, "model"))
    tokenizer = weights.base.engine.tokenizer
    prompt = _chat_prompt(tokenizer, with_tools(body.get("messages"), body))
    top = request_fields.whole(body, "top_logprobs", 0, most=MAX_TOP_LOGPROBS)
    limit = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
    return weights, read_sample_request(service, tokenizer, body, prompt, limit, None, top)


def _chat_prompt(tokenizer: Tokenizer, messages: Json) -> list[int]:
    try:
        return tokenizer.encode(render_prompt(messages)) or [tokenizer.eos]
    except TypeError as error:
        raise bad_request(f"messages cannot be read: {error}") from None


def _chat_message(reply: Sampled, prefix: str, *, has_tools: bool) -> dict[str, Json]:
    """Return a reply as a message, with its tool calls where the request has tools."""
    content, calls = split_calls(reply.text, prefix) if has_tools else (reply.text, [])
    message: dict[str, Json] = {"role": "assistant", "content": content, "refusal": None}
    return {**message, "tool_calls": calls} if calls else message


def _delta_piece(
    tools: Sequence[object], prefix: str, choice: int, text: str, reply: Sampled | None
) -> dict[str, Json]:
    """Return a piece of a message. With tools, the text comes whole at its end, where its calls can be told from text."""
    delta: dict[str, Json] = {"role": "assistant", "content": "" if tools and reply is None else text}
    finish: str | None = None if reply is None else reply.stop_reason
    if tools and reply is not None:
        content, calls = split_calls(reply.text, f"{prefix}-{choice}")
        numbered: list[Json] = [
            {"index": number, **call} for number, call in enumerate(calls) if isinstance(call, dict)
        ]
        delta = {"role": "assistant", "content": content, **({"tool_calls": numbered} if calls else {})}
        finish = "tool_calls" if calls else finish
    return {"index": choice, "delta": delta, "logprobs": None, "finish_reason": finish}


ENDPOINTS: Endpoints = {("POST", "/chat/completions"): chat_completions}
