"""The models that requests in OpenAI's format may name, and the weights behind a name."""

from __future__ import annotations

from pytest_crucible.local_model import BASE_MODEL
from pytest_crucible.local_model.server.archive import SAMPLER, SCHEME
from pytest_crucible.local_model.server.messages import Json, Request, Response, json_response, not_found
from pytest_crucible.local_model.server.replies import Weights
from pytest_crucible.local_model.server.state import Endpoints, Service

LOCAL = "local:"
STAND_IN = f"stand-in:{BASE_MODEL}"
"""The system fingerprint of replies that a stand-in gives under another model's name."""


def models(service: Service, request: Request) -> Response:
    """Return the base model and all sampler weights."""
    saved = [checkpoint for checkpoint in service.archive.all() if checkpoint.path.kind == SAMPLER]
    rows: list[Json] = [{"id": BASE_MODEL, "object": "model", "created": 0, "owned_by": "local"}]
    rows += [
        {"id": name, "object": "model", "created": 0, "owned_by": "local", "stand_in": BASE_MODEL}
        for name in service.models.stand_ins
    ]
    for checkpoint in saved:
        row: dict[str, Json] = {
            "id": str(checkpoint.path),
            "object": "model",
            "created": int(checkpoint.info.created),
            "owned_by": "local",
        }
        is_own = checkpoint.info.base_sha256 == service.engine.base_sha256
        rows.append(row if is_own else {**row, "stand_in": BASE_MODEL})
    return json_response({"object": "list", "data": rows})


def find_weights(service: Service, model: str) -> Weights:
    """Return the weights that a request names; 404 for an unknown name."""
    if base := service.models.get(model):
        return Weights(base)
    if model.startswith(SCHEME):
        return service.weights_at(model)
    name = model.removeprefix(LOCAL)
    for checkpoint in service.archive.all():
        if (checkpoint.path.kind, checkpoint.path.name) == (SAMPLER, name):
            return service.weights_at(str(checkpoint.path))
    names = ", ".join((BASE_MODEL, *service.models.stand_ins))
    raise not_found(f"unknown model {model!r}; expected {names}, a tinker:// path, or a name of sampler weights")


def fingerprint(weights: Weights) -> dict[str, Json]:
    """Return the mark of a stand-in's reply; nothing for the server's own model."""
    return {"system_fingerprint": STAND_IN} if weights.base.stand_in else {}


ENDPOINTS: Endpoints = {("GET", "/models"): models}
