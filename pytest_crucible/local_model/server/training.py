"""Endpoints that train, save, load and hand checkpoints out.

An adapter is handed out as files in PEFT's layout, by a URL that is valid for an hour and needs no key: it is the permission to
read these files, like a signed URL of the hosted service.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from pytest_crucible.local_model import BASE_MODEL
from pytest_crucible.local_model.checkpoints import ALPHA, EXTERNAL_FILE, LARGEST_RANK, LoraSpec
from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.losses import AdamParams, find_loss
from pytest_crucible.local_model.server import protobuf
from pytest_crucible.local_model.server.archive import (
    CONFIG_FILE,
    EXTERNAL,
    FILES,
    SAMPLER,
    TRAINING,
    Checkpoint,
    CheckpointInfo,
    CheckpointPath,
    format_time,
)
from pytest_crucible.local_model.server.models import BaseModel, Weights
from pytest_crucible.local_model.server.state import Endpoints, Run, Service
from pytest_crucible.local_model.server.transport import Body, Json, NotFound, Refusal, Request, Response

# The metric of a step whose model or loss is not the one that was named.
SIMULATED = "simulated:max"


def create_model(service: Service, request: Request) -> Response:
    body = request.object()
    base_model = body.text("base_model")
    base = service.models.find(base_model)
    run = new_run(service, body, _read_lora(body.part("lora_config", {})), base, base_model)
    request_id = f"{run.id}:create"

    def create() -> Response:
        run.trainer = base.engine.trainer(run.lora)
        return Response.of_json({"type": "create_model", "model_id": run.id})

    return submit(service, request_id, create, run)


def get_info(service: Service, request: Request) -> Response:
    """Describe a model, by the name that it was created with.

    The name in `model_data` is the long one: the SDK makes sampling clients of it, which load their tokenizer by that name
    (`TrainingClient.save_weights_and_get_sampling_client` and `SamplingClient.get_tokenizer` in 0.38).
    """
    run = service.run(request.object().text("model_id"))
    names = {"arch": BASE_MODEL, "model_name": run.base.sampler_name, "tokenizer_id": run.base.directory}
    described: dict[str, Json] = {"type": "get_info", "model_id": run.id, "model_data": names}
    return Response.of_json({**described, "is_lora": True, "lora_rank": run.lora.rank, "model_name": run.base_model})


def unload_model(service: Service, request: Request) -> Response:
    """Unload a model; its checkpoints stay."""
    run = service.run(request.object().text("model_id"))

    def unload() -> Response:
        run.trainer = None
        return Response.of_json({"type": "unload_model", "model_id": run.id})

    return submit(service, f"{run.id}:unload", unload, run)


def forward_backward(service: Service, request: Request) -> Response:
    """Compute the loss of a batch and, unless forward only, gradients, which add up until the next optimiser step."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != protobuf.PROTOBUF:
        raise Refusal(f"the body must be {protobuf.PROTOBUF}, which the tinker SDK sends since 0.25: upgrade it")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refusal("the body is compressed, which this server does not accept: send it uncompressed")
    batch = protobuf.read_forward_backward(request.body)
    if batch.seq_id < 1:
        raise Refusal(f"seq_id is {batch.seq_id}; expected the number of the model's request, from 1")
    run = service.run(batch.model_id)
    data = [Datum(tokens, inputs) for tokens, inputs in batch.data]

    loss = service.stand_in_losses.get(batch.loss, batch.loss)

    def compute() -> Response:
        config = _numbers(find_loss(loss).name, batch.loss_config)
        result = run.model.forward_backward(data, loss, config, forward_only=batch.forward_only)
        simulated = {} if loss == batch.loss and not run.base.stand_in else {SIMULATED: 1.0}
        output = protobuf.write_forward_backward(result.outputs, {**result.metrics, **simulated})
        return Response(body=output, kind=protobuf.PROTOBUF)

    return submit(service, f"{run.id}:{batch.seq_id}", compute, run)


def optim_step(service: Service, request: Request) -> Response:
    body = request.object()
    run = service.run(body.text("model_id"))
    if body.get("optimizer_params") is not None:
        raise Refusal("optimizer_params are not supported: models here are trained with AdamW, set adam_params")
    values = body.part("adam_params")
    defaults = asdict(AdamParams())
    params = AdamParams(**{name: _adam_number(values, name, default) for name, default in defaults.items()})

    def step() -> Response:
        metrics = run.model.optim_step(params)
        return Response.of_json(
            {"metrics": {name: float(value) for name, value in metrics.items() if np.isfinite(value)}}
        )

    return submit(service, request_id_of(run, body), step, run)


def _adam_number(values: Body, name: str, default: float) -> float:
    # The SDK writes NaN and infinity as null, where the default would train with another value than was asked for.
    if name in values and values[name] is None:
        raise Refusal(f"{name} must be a finite number, not null, as which the SDK sends NaN and infinity")
    return values.number(name, default)


def new_run(service: Service, body: Body, lora: LoraSpec, base: BaseModel, base_model: str) -> Run:
    """Return the training run with the id that the SDK derives too; the existing one if it was created before."""
    session = service.session(body.text("session_id"))
    if (optimizer := body.part("optimizer_config", {}).text("type", "adamw")) != "adamw":
        raise Refusal(f"optimizer {optimizer!r} is not supported here; models are trained with adamw")
    run_id = f"{session.id}:train:{body.whole('model_seq_id')}"
    metadata = body.texts_by_name("user_metadata")
    # The SDK repeats requests after a broken connection: the second one must find the same run.
    return service.runs.setdefault(run_id, Run(run_id, session.id, lora, service.clock(), base, base_model, metadata))


def _read_lora(values: Body) -> LoraSpec:
    parts = {name: values.boolean(name, True) for name in ("train_attn", "train_mlp", "train_unembed")}
    return LoraSpec(
        rank=values.whole("rank", 32, least=1, most=LARGEST_RANK),
        seed=values.whole("seed", 0),
        **parts,
    )


def submit(service: Service, request_id: str, compute: Callable[[], Response], run: Run) -> Response:
    """Submit a computation, and return the id under which its result will be."""
    service.submit(request_id, lambda: service.work.call(compute, run.session), lambda response: response)
    return Response.of_json({"request_id": request_id, "model_id": run.id})


def request_id_of(run: Run, body: Body) -> str:
    """Return the id of a request about a model: the same if the request is repeated."""
    return f"{run.id}:{body.whole('seq_id')}"


def _numbers(loss: str, config: Mapping[str, float | str]) -> dict[str, float]:
    if texts := [name for name, value in config.items() if isinstance(value, str)]:
        raise ValueError(f"{loss} has a text as {', '.join(texts)}; expected a number")
    return {name: value for name, value in config.items() if not isinstance(value, str)}


# Bounds of a checkpoint's time to live.
HOUR_S, TEN_YEARS_S = 3600, 3653 * 24 * 3600


def save_weights(service: Service, request: Request) -> Response:
    """Save a checkpoint from which training can resume: adapter and optimiser."""
    body = request.object()
    run = service.run(body.text("model_id"))
    path = CheckpointPath(run.id, TRAINING, body.text("path", request_id_of(run, body).rpartition(":")[2]))
    overwrite = body.boolean("overwrite", False)
    return _save(
        service, run, body, path, "save_weights", lambda place: run.model.save_state(place), overwrite=overwrite
    )


def save_weights_for_sampler(service: Service, request: Request) -> Response:
    """Save weights to sample from: permanently under a name; without one for the session, which gets a sampler."""
    body = request.object()
    run = service.run(body.text("model_id"))
    if (kind := body.text("kind", "snapshot")) != "snapshot":
        raise Refusal(f"kind {kind!r} is not supported here; sampler weights are snapshots")
    request_id = request_id_of(run, body)
    if body.get("path") is None:
        return submit(service, request_id, _snapshot(service, run, body), run)
    path = CheckpointPath(run.id, SAMPLER, body.text("path"))
    return _save(service, run, body, path, "save_weights_for_sampler", lambda place: run.model.save_sampler(place))


def _save(
    service: Service,
    run: Run,
    body: Body,
    path: CheckpointPath,
    kind: str,
    write: Callable[[Path], None],
    describe: Callable[[], dict[str, Json]] = dict,
    *,
    overwrite: bool = False,
) -> Response:
    """Submit the writing of a checkpoint; `describe` returns further fields of the result."""
    info = _describe_checkpoint(service, run, body)

    def save() -> Response:
        # Known now: requests that were sent before may have made steps since this one came.
        trained = replace(info, steps=run.model.steps, norm=run.model.adapter.norm)
        with service.archive.write_checkpoint(path, trained, overwrite=overwrite) as directory:
            write(directory)
        return Response.of_json({"type": kind, "path": str(path), **describe()})

    return submit(service, request_id_of(run, body), save, run)


def load_weights(service: Service, request: Request) -> Response:
    """Load a checkpoint into an existing model (`model_id`), or into a new one (`session_id` and `model_seq_id`)."""
    body = request.object()
    checkpoint = _training_checkpoint(service, body.text("path"))
    with_optimizer = body.boolean("optimizer", False)
    base_model = body.optional_text("base_model") or service.base_model_of(checkpoint)
    base = service.models.find(base_model)
    if base != service.base_of(checkpoint):
        raise Refusal(f"{checkpoint.path} was trained on {checkpoint.info.base_model}, not on {base_model}")
    new = body.get("model_id") is None
    lora = LoraSpec(**checkpoint.info.lora)
    run = new_run(service, body, lora, base, base_model) if new else service.run(body.text("model_id"))

    def load() -> Response:
        trainer = base.engine.trainer(run.lora) if new else run.model
        trainer.load_state(checkpoint.directory, optimizer=with_optimizer)
        # The optimiser may have been a new one when it was saved.
        trainer.steps = checkpoint.info.steps or trainer.steps
        run.trainer = trainer
        return Response.of_json({"type": "load_weights", "path": str(checkpoint.path), "model_id": run.id})

    return submit(service, f"{run.id}:create" if new else request_id_of(run, body), load, run)


def weights_info(service: Service, request: Request) -> Response:
    checkpoint = service.archive.find(CheckpointPath.parse(request.object().text("tinker_path")))
    lora = LoraSpec(**checkpoint.info.lora)
    parts = {name: getattr(lora, name) for name in ("train_attn", "train_mlp", "train_unembed")}
    return Response.of_json(
        {"base_model": service.base_model_of(checkpoint), "is_lora": True, "lora_rank": lora.rank, **parts}
    )


def _describe_checkpoint(service: Service, run: Run, body: Body) -> CheckpointInfo:
    created = service.clock()
    expires = None if (seconds := read_time_to_live(body)) is None else created + seconds
    metadata = body.texts_by_name("user_metadata")
    return CheckpointInfo(
        run.base_model, run.base.engine.base_sha256, asdict(run.lora), created, expires, user_metadata=metadata
    )


def read_time_to_live(body: Body) -> int | None:
    """Read `ttl_seconds` of a checkpoint; None if it never expires."""
    return body.optional_whole("ttl_seconds", least=HOUR_S, most=TEN_YEARS_S)


def _snapshot(service: Service, run: Run, body: Body) -> Callable[[], Response]:
    number = body.whole("sampling_session_seq_id")
    session = service.session(run.session)
    # Outside the archive: it lasts as long as the session and is never listed.
    directory = service.snapshots / session.id / str(number)
    sampling = service.open_sampling(session, number, Weights(run.base, directory))

    def save() -> Response:
        directory.mkdir(parents=True)
        run.model.save_sampler(directory)
        return Response.of_json({"type": "save_weights_for_sampler", "sampling_session_id": sampling.id})

    return save


def _training_checkpoint(service: Service, text: str) -> Checkpoint:
    path = CheckpointPath.parse(text)
    if path.kind != TRAINING:
        raise Refusal(f"{path} cannot be trained on; training resumes from tinker://RUN/{TRAINING}/NAME")
    return service.archive.find(path)


DOWNLOADS = "/downloads/"
# The SDK signs again five minutes before the end.
URL_S = 3600.0


def save_weights_external(service: Service, request: Request) -> Response:
    """Save an adapter's weights as files to download."""
    body = request.object()
    run = service.run(body.text("model_id"))
    if body.get("age_encryption_recipients"):
        raise Refusal("age_encryption_recipients is not supported by this server: leave it out, nothing is sent")
    path = CheckpointPath(run.id, EXTERNAL, body.text("path"))

    def write(directory: Path) -> None:
        run.model.save_sampler(directory / EXTERNAL_FILE)
        (directory / CONFIG_FILE).write_text(json.dumps(_config(run), indent=1) + "\n", encoding="utf-8")

    def describe() -> dict[str, Json]:
        return {"size_bytes": service.archive.find(path).size}

    return _save(service, run, body, path, "save_weights_external", write, describe)


def external_weights_urls(service: Service, request: Request) -> Response:
    """Return a URL for each file of a checkpoint."""
    checkpoint = service.archive.find(CheckpointPath(request.parameters["run"], EXTERNAL, request.parameters["name"]))
    now = service.clock()
    for expired in [token for token, (_, until) in service.downloads.items() if until <= now]:
        del service.downloads[expired]
    token, until = secrets.token_urlsafe(32), now + URL_S
    service.downloads[token] = checkpoint.directory, until
    start = f"http://{request.headers.get('host', '')}/api/v1{DOWNLOADS}{token}"
    urls: dict[str, Json] = {name: f"{start}/{name}" for name in FILES}
    return Response.of_json({"urls": urls, "expires": format_time(until)})


def download(service: Service, request: Request) -> Response:
    """Return a file. Its URL is the permission."""
    directory, until = service.downloads.get(request.parameters["token"], (Path(), 0.0))
    name = request.parameters["file"]
    if until <= service.clock() or name not in FILES:
        raise NotFound("this URL is unknown or has expired: get a new one from external_weights_urls")
    try:
        return Response(body=(directory / name).read_bytes(), kind="application/octet-stream")
    except FileNotFoundError:
        raise NotFound(f"{name} was deleted with its checkpoint") from None


def _config(run: Run) -> dict[str, Json]:
    """Return the description of the adapter, with PEFT's names."""
    return {
        "peft_type": "LORA",
        "base_model_name_or_path": run.base_model,
        "base_sha256": run.base.engine.base_sha256,
        "r": run.lora.rank,
        "lora_alpha": ALPHA,
        "target_modules": list(run.lora.matrices(run.base.engine.shape)),
    }


ENDPOINTS: Endpoints = {
    ("POST", "/create_model"): create_model,
    ("POST", "/get_info"): get_info,
    ("POST", "/unload_model"): unload_model,
    ("POST", "/forward_backward"): forward_backward,
    ("POST", "/optim_step"): optim_step,
    ("POST", "/save_weights"): save_weights,
    ("POST", "/save_weights_for_sampler"): save_weights_for_sampler,
    ("POST", "/load_weights"): load_weights,
    ("POST", "/weights_info"): weights_info,
    ("POST", "/save_weights_external"): save_weights_external,
    ("GET", "/training_runs/{run}/checkpoints/external_weights/{name}/external_weights_urls"): external_weights_urls,
    ("GET", f"{DOWNLOADS}{{token}}/{{file}}"): download,
}
