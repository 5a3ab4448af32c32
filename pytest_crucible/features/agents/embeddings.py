"""Embeddings over the endpoint, and the estimate of a prompt's tokens."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pytest_crucible.backends.protocol import EMBEDDINGS, Embeds, find_innermost
from pytest_crucible.local_model.server.transport import Refusal
from pytest_crucible.records import Reply

_CHARACTERS_PER_TOKEN = 4


def read_texts(body: Mapping[str, Any], backend: Any, arm: str) -> tuple[Any, dict[str, Any]]:
    """Return the texts and the parameters of a request for embeddings. Raises Refusal, also for an arm that makes none."""
    if not isinstance(find_innermost(backend), Embeds):
        raise Refusal(
            f"the arm {arm} makes no embeddings: ask a role whose adapter is an OpenAI-compatible server",
            HTTPStatus.NOT_FOUND,
        )
    texts = body.get("input")
    if not texts or not isinstance(texts, str | list):
        raise Refusal(f"input must be a text or a list of texts, not {texts!r:.80}")
    parameters = {name: value for name, value in body.items() if name == "dimensions" and value is not None}
    return texts, {**parameters, EMBEDDINGS: True}


def write_vectors(body: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    """Return the answer with the vectors of a reply, as numbers or, if the client wants that, as base64 of 4-byte floats."""
    is_packed = body.get("encoding_format") == "base64"
    vectors: Sequence[Sequence[float]] = reply.value
    data = [
        {"object": "embedding", "index": index, "embedding": _pack(vector) if is_packed else vector}
        for index, vector in enumerate(vectors)
    ]
    number = reply.input_tokens or 0
    usage = {"prompt_tokens": number, "total_tokens": number}
    return {"object": "list", "data": data, "model": body.get("model", ""), "usage": usage}


def _pack(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")


def estimate_tokens(body: Mapping[str, Any]) -> dict[str, int]:
    """Return roughly how many tokens a prompt has, for clients that ask before they send: four characters are one.

    An arm's server counts them only when it answers.
    """
    prompt = {name: body.get(name) for name in ("system", "messages", "tools") if body.get(name)}
    return {"input_tokens": -(-len(json.dumps(prompt, ensure_ascii=False)) // _CHARACTERS_PER_TOKEN)}
