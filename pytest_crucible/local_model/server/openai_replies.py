"""Computes the replies to a request in OpenAI's format, and writes what all its responses have."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from pytest_crucible.local_model.sampling import PromptTooLong, Sampled
from pytest_crucible.local_model.server import request_fields
from pytest_crucible.local_model.server.messages import Json, Refusal, Response, json_response
from pytest_crucible.local_model.server.openai_models import fingerprint
from pytest_crucible.local_model.server.replies import SampleRequest, Weights
from pytest_crucible.local_model.server.request_fields import Body
from pytest_crucible.local_model.server.sampling import sample
from pytest_crucible.local_model.server.state import Service

_ERROR_TYPES = {
    HTTPStatus.UNAUTHORIZED: ("authentication_error", "invalid_api_key"),
    HTTPStatus.NOT_FOUND: ("invalid_request_error", "not_found"),
    HTTPStatus.TOO_MANY_REQUESTS: ("rate_limit_error", "rate_limit_exceeded"),
}


async def compute_replies(
    service: Service, weights: Weights, sample_requests: Sequence[SampleRequest]
) -> list[Sampled]:
    """Return the replies to all requests, in order. Refuses a prompt that fills the context."""
    tasks = [sample(service, weights, sample_request) for sample_request in sample_requests]
    try:
        return [reply for answer in await asyncio.gather(*tasks) for reply in answer.replies]
    except PromptTooLong as error:
        raise long_prompt_refusal(weights, error) from None
    # If one request fails or the client leaves, the others need not be computed.
    finally:
        for task in tasks:
            task.cancel()


def make_response(
    service: Service, weights: Weights, kind: str, prefix: str, body: Body, choices: list[Json], usage: Json
) -> Response:
    """Return the response with all choices; the id starts with `prefix`."""
    return json_response(
        {
            "id": f"{prefix}-{next(service.numbers)}",
            "object": kind,
            "created": int(service.clock()),
            "model": request_fields.text(body, "model"),
            "choices": choices,
            "usage": usage,
            **fingerprint(weights),
        }
    )


def count_usage(sample_requests: Sequence[SampleRequest], replies: Sequence[Sampled]) -> dict[str, int]:
    """Return the numbers of tokens read and written."""
    read, written = (
        sum(len(sample_request.prompt) for sample_request in sample_requests),
        sum(len(reply.tokens) for reply in replies),
    )
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def long_prompt_refusal(weights: Weights, error: PromptTooLong) -> Refusal:
    """Return the refusal of a prompt that fills the context, with the code that clients know."""
    most = f"this model's maximum context length is {weights.base.engine.shape.context} tokens"
    return Refusal(HTTPStatus.BAD_REQUEST, f"{most}: {error}", "context_length_exceeded")


def error(refusal: Refusal) -> Json:
    """Return a refusal in OpenAI's format."""
    kind, code = _ERROR_TYPES.get(refusal.status, ("invalid_request_error", None))
    return {"error": {"message": refusal.sentence, "type": kind, "param": None, "code": refusal.code or code}}
