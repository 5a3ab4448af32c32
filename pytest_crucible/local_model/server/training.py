"""Endpoints that train: models, gradients, optimiser steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict

import numpy as np

from pytest_crucible.local_model import BASE_MODEL
from pytest_crucible.local_model.adam import AdamParams
from pytest_crucible.local_model.batches import Datum
from pytest_crucible.local_model.lora import LARGEST_RANK, LoraSpec
from pytest_crucible.local_model.losses import find_loss
from pytest_crucible.local_model.server import request_fields, tinker_messages
from pytest_crucible.local_model.server.base_models import BaseModel
from pytest_crucible.local_model.server.messages import (
    PROTOBUF,
    Json,
    Request,
    Response,
    bad_request,
    json_response,
)
from pytest_crucible.local_model.server.state import Endpoints, Run, Service

# A larger one would take memory without end, and is beyond the width of any matrix here.
# The metric of a step whose model or loss is not the one that was named.
SIMULATED = "simulated:max"


def create_model(service: Service, request: Request) -> Response:
    """Create an adapter on the base model."""
    body = request.object()
    base_model = request_fields.text(body, "base_model")
    base = service.models.find(base_model)
    run = new_run(service, body, _read_lora(request_fields.json_object(body, "lora_config", {})), base, base_model)
    request_id = f"{run.id}:create"

    def create() -> Response:
        run.trainer = base.engine.trainer(run.lora)
        return json_response({"type": "create_model", "model_id": run.id})

    return submit(service, request_id, create, run)


def get_info(service: Service, request: Request) -> Response:
    """Describe a model, by the name that it was created with.

    The name in `model_data` is the long one: the SDK makes sampling clients of it, which load their tokenizer by that name
    (`TrainingClient.save_weights_and_get_sampling_client` and `SamplingClient.get_tokenizer` in 0.38).
    """
    run = service.run(request_fields.text(request.object(), "model_id"))
    return json_response(
        {
            "type": "get_info",
            "model_id": run.id,
            "model_data": {
                "arch": BASE_MODEL,
                "model_name": run.base.sampler_name,
                "tokenizer_id": run.base.directory,
            },
            "is_lora": True,
            "lora_rank": run.lora.rank,
            "model_name": run.base_model,
        }
    )


def unload_model(service: Service, request: Request) -> Response:
    """Unload a model; its checkpoints stay."""
    run = service.run(request_fields.text(request.object(), "model_id"))

    def unload() -> Response:
        run.trainer = None
        return json_response({"type": "unload_model", "model_id": run.id})

    return submit(service, f"{run.id}:unload", unload, run)


def forward_backward(service: Service, request: Request) -> Response:
    """Compute the loss of a batch and, unless forward only, gradients, which add up until the next optimiser step."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != PROTOBUF:
        raise bad_request(f"the body must be {PROTOBUF}, which the tinker SDK sends since 0.25: upgrade it")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise bad_request("the body is compressed, which this server does not accept: send it uncompressed")
    batch = tinker_messages.read_forward_backward(request.body)
    if batch.seq_id < 1:
        raise bad_request(f"seq_id is {batch.seq_id}; expected the number of the model's request, from 1")
    run = service.run(batch.model_id)
    data = [Datum(tokens, inputs) for tokens, inputs in batch.data]

    loss = service.stand_in_losses.get(batch.loss, batch.loss)

    def compute() -> Response:
        config = _numbers(find_loss(loss).name, batch.loss_config)
        result = run.model.forward_backward(data, loss, config, forward_only=batch.forward_only)
        simulated = {} if loss == batch.loss and not run.base.stand_in else {SIMULATED: 1.0}
        metrics = {**result.metrics, **simulated}
        return Response(body=tinker_messages.write_forward_backward(result.outputs, metrics), kind=PROTOBUF)

    return submit(service, f"{run.id}:{batch.seq_id}", compute, run)


def optim_step(service: Service, request: Request) -> Response:
    """Apply the gradients."""
    body = request.object()
    run = service.run(request_fields.text(body, "model_id"))
    if body.get("optimizer_params") is not None:
        raise bad_request("optimizer_params are not supported: models here are trained with AdamW, set adam_params")
    values = request_fields.json_object(body, "adam_params")
    defaults = asdict(AdamParams())
    params = AdamParams(**{name: _adam_number(values, name, default) for name, default in defaults.items()})

    def step() -> Response:
        return json_response({"metrics": _finite(run.model.optim_step(params))})

    return submit(service, request_id_of(run, body), step, run)


def _adam_number(values: request_fields.Body, name: str, default: float) -> float:
    # The SDK writes NaN and infinity as null, where the default would train with another value than was asked for.
    if name in values and values[name] is None:
        raise bad_request(f"{name} must be a finite number, not null, as which the SDK sends NaN and infinity")
    return request_fields.number(values, name, default)


def new_run(service: Service, body: request_fields.Body, lora: LoraSpec, base: BaseModel, base_model: str) -> Run:
    """Return the training run with the id that the SDK derives too; the existing one if it was created before."""
    session = service.session(request_fields.text(body, "session_id"))
    if (
        optimizer := request_fields.text(request_fields.json_object(body, "optimizer_config", {}), "type", "adamw")
    ) != "adamw":
        raise bad_request(f"optimizer {optimizer!r} is not supported here; models are trained with adamw")
    run_id = f"{session.id}:train:{request_fields.whole(body, 'model_seq_id')}"
    metadata = request_fields.texts_by_name(body, "user_metadata")
    # The SDK repeats requests after a broken connection: the second one must find the same run.
    return service.runs.setdefault(run_id, Run(run_id, session.id, lora, service.clock(), base, base_model, metadata))


def _read_lora(values: request_fields.Body) -> LoraSpec:
    parts = {name: request_fields.boolean(values, name, True) for name in ("train_attn", "train_mlp", "train_unembed")}
    return LoraSpec(
        rank=request_fields.whole(values, "rank", 32, least=1, most=LARGEST_RANK),
        seed=request_fields.whole(values, "seed", 0),
        **parts,
    )


def submit(service: Service, request_id: str, compute: Callable[[], Response], run: Run) -> Response:
    """Submit a computation, and return the id under which its result will be."""
    service.submit(request_id, lambda: service.work.call(compute), lambda response: response)
    return json_response({"request_id": request_id, "model_id": run.id})


def request_id_of(run: Run, body: request_fields.Body) -> str:
    """Return the id of a request about a model: the same if the request is repeated."""
    return f"{run.id}:{request_fields.whole(body, 'seq_id')}"


def _numbers(loss: str, config: Mapping[str, float | str]) -> dict[str, float]:
    if texts := [name for name, value in config.items() if isinstance(value, str)]:
        raise ValueError(f"{loss} has a text as {', '.join(texts)}; expected a number")
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
