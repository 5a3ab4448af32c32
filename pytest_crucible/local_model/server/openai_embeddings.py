"""Embeddings in OpenAI's format: the mean of the model's last hidden states, of length 1."""

from __future__ import annotations

import base64

from pytest_crucible.local_model.config import Floats
from pytest_crucible.local_model.server import request_fields
from pytest_crucible.local_model.server.messages import Json, Request, Response, bad_request, json_response
from pytest_crucible.local_model.server.openai_models import find_weights
from pytest_crucible.local_model.server.openai_requests import encode_prompt, read_prompts
from pytest_crucible.local_model.server.state import Endpoints, Service


async def embeddings(service: Service, request: Request) -> Response:
    """Return a vector for each input: a text, a list of token ids, or a list of either."""
    body = request.object()
    weights = find_weights(service, request_fields.text(body, "model"))
    if body.get("dimensions") not in (None, weights.base.engine.shape.width):
        raise bad_request(
            f"dimensions must be {weights.base.engine.shape.width}, the width of this model: leave it out"
        )
    if (form := request_fields.text(body, "encoding_format", "float")) not in ("float", "base64"):
        raise bad_request(f"encoding_format is {form!r}; expected float or base64")
    prompts = [
        encode_prompt(weights.base.engine.tokenizer, prompt, "input") for prompt in read_prompts(body.get("input"))
    ]
    vectors = await service.work.call(lambda: service.samplers.embed(weights, prompts))
    rows: list[Json] = [
        {"object": "embedding", "index": index, "embedding": _write(vector, form)}
        for index, vector in enumerate(vectors)
    ]
    count = sum(map(len, prompts))
    usage: Json = {"prompt_tokens": count, "total_tokens": count}
    return json_response({"object": "list", "data": rows, "model": request_fields.text(body, "model"), "usage": usage})


def _write(vector: Floats, form: str) -> Json:
    if form == "float":
        return [float(value) for value in vector]
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")


ENDPOINTS: Endpoints = {("POST", "/embeddings"): embeddings}
