"""Endpoints that train: models, gradients, optimiser steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict

import numpy as np

from pytest_crucible.embedded.adam import AdamParams
from pytest_crucible.embedded.batches import Datum
from pytest_crucible.embedded.lora import LoraSpec
from pytest_crucible.embedded.losses import find_loss
from pytest_crucible.embedded.server import fields, tinker_messages
from pytest_crucible.embedded.server.messages import (
    PROTOBUF,
    Json,
    Request,
    Response,
    bad_request,
    json_response,
)
from pytest_crucible.embedded.server.state import BASE_MODEL, Endpoints, Run, Service


def create_model(service: Service, request: Request) -> Response:
    """A new adapter on the base model."""
    body = request.object()
    service.check_base_model(fields.text(body, "base_model"))
    run = new_run(service, body, _lora_in(fields.inner(body, "lora_config", {})))
    request_id = f"{run.id}:create"

    def create() -> Response:
        run.trainer = service.engine.trainer(run.lora)
        return json_response({"type": "create_model", "model_id": run.id})

    return submitted(service, request_id, create, run)


def get_info(service: Service, request: Request) -> Response:
    """What a model is; the tokenizer's id is a directory that transformers can load."""
    run = service.run(fields.text(request.object(), "model_id"))
    return json_response(
        {
            "type": "get_info",
            "model_id": run.id,
            "model_data": {"arch": BASE_MODEL, "model_name": service.model_name, "tokenizer_id": service.model_name},
            "is_lora": True,
            "lora_rank": run.lora.rank,
            "model_name": service.model_name,
        }
    )


def unload_model(service: Service, request: Request) -> Response:
    """Let go of a model; its checkpoints stay."""
    run = service.run(fields.text(request.object(), "model_id"))

    def unload() -> Response:
        run.trainer = None
        return json_response({"type": "unload_model", "model_id": run.id})

    return submitted(service, f"{run.id}:unload", unload, run)


def forward_backward(service: Service, request: Request) -> Response:
    """Loss of a batch, and unless it is forward only the gradients, which add up until the next optimiser step."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != PROTOBUF:
        raise bad_request(f"the body must be {PROTOBUF}; tinker sends it so since 0.25")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise bad_request("a compressed body cannot be read here, and /client/config did not ask for one")
    asked = tinker_messages.read_forward_backward(request.body)
    if asked.seq_id < 1:
        raise bad_request(f"seq_id must count the requests of a model from 1, it is {asked.seq_id}")
    run = service.run(asked.model_id)
    data = [Datum(tokens, inputs) for tokens, inputs in asked.data]

    def compute() -> Response:
        config = _numbers(find_loss(asked.loss).name, asked.loss_config)
        result = run.model.forward_backward(data, asked.loss, config, forward_only=asked.forward_only)
        return Response(body=tinker_messages.write_forward_backward(result.outputs, result.metrics), kind=PROTOBUF)

    return submitted(service, f"{run.id}:{asked.seq_id}", compute, run)


def optim_step(service: Service, request: Request) -> Response:
    """Apply the gradients."""
    body = request.object()
    run = service.run(fields.text(body, "model_id"))
    if body.get("optimizer_params") is not None:
        raise bad_request(
            "optimizer_params belong to another optimiser; models here are trained with AdamW (adam_params)"
        )
    given = fields.inner(body, "adam_params")
    defaults = asdict(AdamParams())
    params = AdamParams(**{name: fields.number(given, name, default) for name, default in defaults.items()})

    def step() -> Response:
        return json_response({"metrics": _finite(run.model.optim_step(params))})

    return submitted(service, id_of(run, body), step, run)


def new_run(service: Service, body: fields.Body, lora: LoraSpec) -> Run:
    """A training run under the id that the SDK derives too; the one that is there when it was made already."""
    session = service.session(fields.text(body, "session_id"))
    if (optimizer := fields.text(fields.inner(body, "optimizer_config", {}), "type", "adamw")) != "adamw":
        raise bad_request(f"optimizer {optimizer!r} is not supported here; models are trained with adamw")
    run_id = f"{session.id}:train:{fields.whole(body, 'model_seq_id')}"
    metadata = fields.texts_by_name(body, "user_metadata")
    return service.runs.setdefault(run_id, Run(run_id, session.id, lora, service.clock(), metadata))


def _lora_in(given: fields.Body) -> LoraSpec:
    trained = {name: fields.truth(given, name, True) for name in ("train_attn", "train_mlp", "train_unembed")}
    return LoraSpec(rank=fields.whole(given, "rank", 32, least=1), seed=fields.whole(given, "seed", 0), **trained)


def submitted(service: Service, request_id: str, compute: Callable[[], Response], run: Run) -> Response:
    """Have it computed, and tell under which id the result will be."""
    service.submit(request_id, lambda: service.work.call(compute), lambda response: response)
    return json_response({"request_id": request_id, "model_id": run.id})


def id_of(run: Run, body: fields.Body) -> str:
    """Id of a request about a model: it is the same when the request is repeated."""
    return f"{run.id}:{fields.whole(body, 'seq_id')}"


def _numbers(loss: str, config: Mapping[str, float | str]) -> dict[str, float]:
    if texts := [name for name, value in config.items() if isinstance(value, str)]:
        raise ValueError(f"{loss} has no setting {', '.join(texts)} that is a text")
    return {name: value for name, value in config.items() if not isinstance(value, str)}


def _finite(metrics: Mapping[str, float]) -> dict[str, Json]:
    return {name: float(value) for name, value in metrics.items() if np.isfinite(value)}


ENDPOINTS: Endpoints = {
    ("POST", "/create_model"): create_model,
    ("POST", "/get_info"): get_info,
    ("POST", "/unload_model"): unload_model,
    ("POST", "/forward_backward"): forward_backward,
    ("POST", "/optim_step"): optim_step,
}
