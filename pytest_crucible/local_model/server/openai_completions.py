"""Completions in OpenAI's format: of one prompt or several, as texts or lists of token ids.

    POST /oai/api/v1/completions         {"model": "tinker://RUN/sampler_weights/NAME", "prompt": "...", "max_tokens": 60}

A model is the base (`crucible/tiny`), a `tinker://` path, or the bare name of sampler weights (the newest with that name).
"""

from __future__ import annotations

from pytest_crucible.local_model.sampling import Sampled
from pytest_crucible.local_model.server import request_fields
from pytest_crucible.local_model.server.messages import Json, Request, Response
from pytest_crucible.local_model.server.openai_logprobs import completion_logprobs
from pytest_crucible.local_model.server.openai_models import find_weights
from pytest_crucible.local_model.server.openai_replies import compute_replies, count_usage, make_response
from pytest_crucible.local_model.server.openai_requests import (
    MAX_TOP_LOGPROBS,
    encode_prompt,
    read_body,
    read_prompts,
    read_sample_request,
)
from pytest_crucible.local_model.server.openai_streams import open_stream
from pytest_crucible.local_model.server.state import Endpoints, Service

# The default of OpenAI's completions endpoint.
_DEFAULT_MAX_TOKENS = 16


async def completions(service: Service, request: Request) -> Response:
    """Complete one prompt or several: texts or lists of token ids."""
    body = read_body(request, "tools", "response_format")
    weights = find_weights(service, request_fields.text(body, "model"))
    tokenizer = weights.base.engine.tokenizer
    prompts = [encode_prompt(tokenizer, prompt, "prompt") for prompt in read_prompts(body.get("prompt"))]
    top = request_fields.optional_whole(body, "logprobs", most=MAX_TOP_LOGPROBS)
    sample_requests = [
        read_sample_request(service, tokenizer, body, prompt, "max_tokens", _DEFAULT_MAX_TOKENS, top or 0)
        for prompt in prompts
    ]
    if request_fields.boolean(body, "stream", False):
        return await open_stream(service, weights, body, sample_requests, "text_completion", "cmpl", _text_piece)
    replies = await compute_replies(service, weights, sample_requests)
    choices: list[Json] = [
        {
            "index": index,
            "text": reply.text,
            "logprobs": None if top is None else completion_logprobs(tokenizer, reply),
            "finish_reason": reply.stop_reason,
        }
        for index, reply in enumerate(replies)
    ]
    return make_response(
        service, weights, "text_completion", "cmpl", body, choices, count_usage(sample_requests, replies)
    )


def _text_piece(choice: int, text: str, reply: Sampled | None) -> dict[str, Json]:
    finish = None if reply is None else reply.stop_reason
    return {"index": choice, "text": text, "logprobs": None, "finish_reason": finish}


ENDPOINTS: Endpoints = {("POST", "/completions"): completions}
