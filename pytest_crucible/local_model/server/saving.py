"""Endpoints that save and load: checkpoints to resume training from, and weights to sample from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from pytest_crucible.local_model.lora import LoraSpec
from pytest_crucible.local_model.server import request_fields
from pytest_crucible.local_model.server.archive import SAMPLER, TRAINING, Checkpoint, CheckpointInfo, CheckpointPath
from pytest_crucible.local_model.server.messages import Request, Response, bad_request, json_response
from pytest_crucible.local_model.server.replies import Weights
from pytest_crucible.local_model.server.state import Endpoints, Run, Service
from pytest_crucible.local_model.server.training import new_run, request_id_of, submit

# Bounds of a checkpoint's time to live.
HOUR_S, TEN_YEARS_S = 3600, 3653 * 24 * 3600


def save_weights(service: Service, request: Request) -> Response:
    """Save a checkpoint from which training can resume: adapter and optimiser."""
    body = request.object()
    run = service.run(request_fields.text(body, "model_id"))
    request_id = request_id_of(run, body)
    path = CheckpointPath(run.id, TRAINING, request_fields.text(body, "path", request_id.rpartition(":")[2]))
    overwrite = request_fields.boolean(body, "overwrite", False)
    info = checkpoint_info(service, run, body)

    def save() -> Response:
        with service.archive.write_checkpoint(path, info, overwrite=overwrite) as directory:
            run.model.save_state(directory)
        return json_response({"type": "save_weights", "path": str(path)})

    return submit(service, request_id, save, run)


def save_weights_for_sampler(service: Service, request: Request) -> Response:
    """Save weights to sample from: permanently under a name; without one for the session, which gets a sampler."""
    body = request.object()
    run = service.run(request_fields.text(body, "model_id"))
    if (kind := request_fields.text(body, "kind", "snapshot")) != "snapshot":
        raise bad_request(f"kind {kind!r} is not supported here; sampler weights are snapshots")
    request_id = request_id_of(run, body)
    if body.get("path") is None:
        return submit(service, request_id, _snapshot(service, run, body), run)
    path = CheckpointPath(run.id, SAMPLER, request_fields.text(body, "path"))
    info = checkpoint_info(service, run, body)

    def save() -> Response:
        with service.archive.write_checkpoint(path, info) as directory:
            run.model.save_sampler(directory)
        return json_response({"type": "save_weights_for_sampler", "path": str(path)})

    return submit(service, request_id, save, run)


def load_weights(service: Service, request: Request) -> Response:
    """Load a checkpoint into an existing model (`model_id`), or into a new one (`session_id` and `model_seq_id`)."""
    body = request.object()
    checkpoint = _training_checkpoint(service, request_fields.text(body, "path"))
    with_optimizer = request_fields.boolean(body, "optimizer", False)
    base_model = request_fields.optional_text(body, "base_model") or service.base_model_of(checkpoint)
    base = service.models.find(base_model)
    if base != service.base_of(checkpoint):
        raise bad_request(f"{checkpoint.path} was trained on {checkpoint.info.base_model}, not on {base_model}")
    new = body.get("model_id") is None
    lora = LoraSpec(**checkpoint.info.lora)
    run = new_run(service, body, lora, base, base_model) if new else service.run(request_fields.text(body, "model_id"))

    def load() -> Response:
        trainer = base.engine.trainer(run.lora) if new else run.model
        trainer.load_state(checkpoint.directory, optimizer=with_optimizer)
        run.trainer = trainer
        return json_response({"type": "load_weights", "path": str(checkpoint.path), "model_id": run.id})

    return submit(service, f"{run.id}:create" if new else request_id_of(run, body), load, run)


def weights_info(service: Service, request: Request) -> Response:
    """Return the base model and the LoRA settings of a checkpoint."""
    checkpoint = service.archive.find(CheckpointPath.parse(request_fields.text(request.object(), "tinker_path")))
    lora = LoraSpec(**checkpoint.info.lora)
    parts = {name: getattr(lora, name) for name in ("train_attn", "train_mlp", "train_unembed")}
    return json_response(
        {"base_model": service.base_model_of(checkpoint), "is_lora": True, "lora_rank": lora.rank, **parts}
    )


def checkpoint_info(service: Service, run: Run, body: request_fields.Body) -> CheckpointInfo:
    """Return the description of a checkpoint that a run saves now."""
    created = service.clock()
    expires = None if (seconds := read_time_to_live(body)) is None else created + seconds
    metadata = request_fields.texts_by_name(body, "user_metadata")
    return CheckpointInfo(
        run.base_model, run.base.engine.base_sha256, asdict(run.lora), created, expires, user_metadata=metadata
    )


def read_time_to_live(body: request_fields.Body) -> int | None:
    """Read `ttl_seconds` of a checkpoint; None if it never expires."""
    return request_fields.optional_whole(body, "ttl_seconds", least=HOUR_S, most=TEN_YEARS_S)


def _snapshot(service: Service, run: Run, body: request_fields.Body) -> Callable[[], Response]:
    number = request_fields.whole(body, "sampling_session_seq_id")
    session = service.session(run.session)
    # Outside the archive: it lasts as long as the session and is never listed.
    directory = service.snapshots / session.id / str(number)
    sampling = service.open_sampling(session, number, Weights(run.base, directory))

    def save() -> Response:
        directory.mkdir(parents=True)
        run.model.save_sampler(directory)
        return json_response({"type": "save_weights_for_sampler", "sampling_session_id": sampling.id})

    return save


def _training_checkpoint(service: Service, text: str) -> Checkpoint:
    path = CheckpointPath.parse(text)
    if path.kind != TRAINING:
        raise bad_request(f"{path} cannot be trained on; training resumes from tinker://RUN/{TRAINING}/NAME")
    return service.archive.find(path)


ENDPOINTS: Endpoints = {
    ("POST", "/save_weights"): save_weights,
    ("POST", "/save_weights_for_sampler"): save_weights_for_sampler,
    ("POST", "/load_weights"): load_weights,
    ("POST", "/weights_info"): weights_info,
}
