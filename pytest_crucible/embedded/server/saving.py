"""Endpoints that save and load: checkpoints to train on from, and weights to sample from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from pytest_crucible.embedded.lora import LoraSpec
from pytest_crucible.embedded.server import fields
from pytest_crucible.embedded.server.archive import SAMPLER, TRAINING, About, Checkpoint, CheckpointPath
from pytest_crucible.embedded.server.messages import Request, Response, bad_request, json_response
from pytest_crucible.embedded.server.replies import Weights
from pytest_crucible.embedded.server.state import BASE_MODEL, Endpoints, Run, Service
from pytest_crucible.embedded.server.training import id_of, new_run, submitted

HOUR_S, TEN_YEARS_S = 3600, 3653 * 24 * 3600
"""Bounds of a checkpoint's time to live."""


def save_weights(service: Service, request: Request) -> Response:
    """A checkpoint from which training goes on: adapter and optimiser."""
    body = request.object()
    run = service.run(fields.text(body, "model_id"))
    request_id = id_of(run, body)
    path = CheckpointPath(run.id, TRAINING, fields.text(body, "path", request_id.rpartition(":")[2]))
    overwrite = fields.truth(body, "overwrite", False)
    about = _about(service, run, body)

    def save() -> Response:
        with service.archive.writing(path, about, overwrite=overwrite) as directory:
            run.model.save_state(directory)
        return json_response({"type": "save_weights", "path": str(path)})

    return submitted(service, request_id, save, run)


def save_weights_for_sampler(service: Service, request: Request) -> Response:
    """Weights to sample from: under a name they stay; without one they last as long as the session, which gets a sampler."""
    body = request.object()
    run = service.run(fields.text(body, "model_id"))
    if (kind := fields.text(body, "kind", "snapshot")) != "snapshot":
        raise bad_request(f"kind {kind!r} is not supported here; sampler weights are snapshots")
    request_id = id_of(run, body)
    if body.get("path") is None:
        return submitted(service, request_id, _snapshot(service, run, body), run)
    path = CheckpointPath(run.id, SAMPLER, fields.text(body, "path"))
    about = _about(service, run, body)

    def save() -> Response:
        with service.archive.writing(path, about) as directory:
            run.model.save_sampler(directory)
        return json_response({"type": "save_weights_for_sampler", "path": str(path)})

    return submitted(service, request_id, save, run)


def load_weights(service: Service, request: Request) -> Response:
    """Put a checkpoint into a model that is there (`model_id`), or into a new one (`session_id` and `model_seq_id`)."""
    body = request.object()
    checkpoint = _training_checkpoint(service, fields.text(body, "path"))
    with_optimizer = fields.truth(body, "optimizer", False)
    if body.get("base_model") is not None:
        service.check_base_model(fields.text(body, "base_model"))
    new = body.get("model_id") is None
    lora = LoraSpec(**checkpoint.about.lora)
    run = new_run(service, body, lora) if new else service.run(fields.text(body, "model_id"))

    def load() -> Response:
        trainer = service.engine.trainer(run.lora) if new else run.model
        trainer.load_state(checkpoint.directory, optimizer=with_optimizer)
        run.trainer = trainer
        return json_response({"type": "load_weights", "path": str(checkpoint.path), "model_id": run.id})

    return submitted(service, f"{run.id}:create" if new else id_of(run, body), load, run)


def weights_info(service: Service, request: Request) -> Response:
    """From which base model and with which LoRA a checkpoint was trained."""
    about = service.archive.find(CheckpointPath.parse(fields.text(request.object(), "tinker_path"))).about
    lora = LoraSpec(**about.lora)
    trained = {name: getattr(lora, name) for name in ("train_attn", "train_mlp", "train_unembed")}
    base_model = service.model_name if about.base_sha256 == service.engine.base_sha256 else about.base_model
    return json_response({"base_model": base_model, "is_lora": True, "lora_rank": lora.rank, **trained})


def _about(service: Service, run: Run, body: fields.Body) -> About:
    created = service.clock()
    expires = None if (seconds := time_to_live(body)) is None else created + seconds
    metadata = fields.texts_by_name(body, "user_metadata")
    return About(BASE_MODEL, service.engine.base_sha256, asdict(run.lora), created, expires, user_metadata=metadata)


def time_to_live(body: fields.Body) -> int | None:
    """`ttl_seconds` of a checkpoint, None when it never expires."""
    return fields.optional_whole(body, "ttl_seconds", least=HOUR_S, most=TEN_YEARS_S)


def _snapshot(service: Service, run: Run, body: fields.Body) -> Callable[[], Response]:
    number = fields.whole(body, "sampling_session_seq_id")
    session = service.session(run.session)
    directory = service.snapshots / session.id / str(number)
    sampling = service.open_sampling(session, number, Weights(directory))

    def save() -> Response:
        directory.mkdir(parents=True)
        run.model.save_sampler(directory)
        return json_response({"type": "save_weights_for_sampler", "sampling_session_id": sampling.id})

    return save


def _training_checkpoint(service: Service, text: str) -> Checkpoint:
    path = CheckpointPath.parse(text)
    if path.kind != TRAINING:
        raise bad_request(f"{path} are weights to sample from; training goes on from tinker://RUN/{TRAINING}/NAME")
    checkpoint = service.archive.find(path)
    if checkpoint.about.base_sha256 != service.engine.base_sha256:
        raise bad_request(f"{path} belongs to another base model than the one here, {BASE_MODEL}")
    return checkpoint


ENDPOINTS: Endpoints = {
    ("POST", "/save_weights"): save_weights,
    ("POST", "/save_weights_for_sampler"): save_weights_for_sampler,
    ("POST", "/load_weights"): load_weights,
    ("POST", "/weights_info"): weights_info,
}
