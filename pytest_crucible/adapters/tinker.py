"""Adapters with `backend = "tinker"`: a checkpoint or a base model of a Tinker service."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters.adapter_kind import Weights, check_options
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.records import Adapter, Ancestor, Lineage
from pytest_crucible.records.errors import Refused, SpecError

if TYPE_CHECKING:
    from datetime import datetime

    from pytest_crucible.backends import Backend

MODEL = ("model_path", "base_model")
_PATH = re.compile(r"tinker://[^/]+/[^/]+/[^/]+")


def open_tinker(adapter: Adapter, context: AdapterContext) -> Backend:
    """Open `model_path`, a checkpoint such as `tinker://RUN/sampler_weights/NAME`, or `base_model`.

    With both, the checkpoint has to be one of this base. `base_url`, `api_key_env` and `project` name a service other than the
    session's own. Raises SpecError if the service is missing or lacks the model.
    """
    from pytest_crucible.backends.tinker.backend import TinkerBackend
    from pytest_crucible.backends.tinker.health import watch_queue
    from pytest_crucible.backends.tinker.service import identify_model, key_digest, names_service
    from pytest_crucible.backends.tinker.services import load_local_tokenizer
    from pytest_crucible.backends.tinker.stored import ListedCheckpoint, list_checkpoint

    model_path, base_model = _read_model(adapter)
    tinker, is_own = context.tinker(), not names_service(adapter.options)
    service = tinker.service_of(adapter.name, adapter.options)
    _check_parameters(adapter)
    # Names of models differ between services.
    base_model = tinker.full_name(base_model) if base_model and is_own else base_model
    client = service.sampling_client(model_path=model_path, base_model=None if model_path else base_model)
    queue = context.shared.queues.open()
    watch_queue(client, service.name, queue)
    trained_on = service.within("tell what it samples from", client.get_base_model)
    _check_base(adapter, trained_on, base_model)
    stored = list_checkpoint(service, model_path) if model_path else ListedCheckpoint()
    if not context.is_replay:
        _check_expiry(adapter, stored.expires, context.settings.timeout)
    is_local, listed = is_own and tinker.is_local, service.find_listed(trained_on)
    # The import of transformers, which the SDK's tokenizer needs, would take seconds.
    place = trained_on if is_local else listed.tokenizer
    lineage = find_weights(adapter, context).lineage
    return TinkerBackend(
        client,
        load_local_tokenizer(place) if place else service.within("load the tokenizer", client.get_tokenizer),
        identity=identify_model(service.address, model_path or trained_on, is_own=is_own, is_local=is_local),
        seed=tinker.seed,
        context=listed.context,
        simulated=bool(listed.stand_in),
        server=f"{service.address.url} {key_digest(service.address.key)}",
        model=model_path or trained_on,
        training=None if lineage is None else lineage.result,
        step=None if lineage is None else lineage.step,
        trained_on=None if lineage is None else lineage.training_files,
        ancestry=_ancestry(model_path, lineage),
        bases=(f"tinker:{trained_on}", trained_on),
        renderer=stored.renderer,
        open_trainer=partial(service.resumed_client, stored.state) if stored.state else None,
        check=service.check,
        queue=queue,
        hide=tinker.hide,
    )


def _ancestry(model_path: str | None, lineage: Lineage | None) -> tuple[Ancestor, ...]:
    """Return the trainings behind a checkpoint of a service; of one that no recipe has made, its path alone."""
    if lineage is not None:
        return lineage.ancestry
    return () if model_path is None else (Ancestor(weights=model_path),)


def _check_parameters(adapter: Adapter) -> None:
    from pytest_crucible.backends.tinker.backend import sampling_params

    try:
        sampling_params(adapter.parameters)
    except Refused as error:
        raise SpecError(f"adapter {adapter.name!r}: {error}") from None


def _check_expiry(adapter: Adapter, expires: datetime | None, timeout_s: float) -> None:
    """Raise SpecError for a checkpoint that the service deletes before one sample would have to be finished."""
    if expires is None:
        return
    left_s = expires.timestamp() - time.time()
    if left_s < timeout_s:
        raise SpecError(
            f"adapter {adapter.name!r}: {adapter.options['model_path']} expires in {max(left_s, 0.0):.0f} s, and one sample may "
            f"take {timeout_s:g} s: give it more time with `crucible tinker ttl PATH never`, or gate another checkpoint"
        )


def _check_base(adapter: Adapter, trained_on: str, base_model: str | None) -> None:
    if base_model and not _has_name(trained_on, base_model):
        path = adapter.options["model_path"]
        raise SpecError(
            f"adapter {adapter.name!r} has base_model {base_model!r}, but {path} was trained on {trained_on!r}: "
            "write that, or leave base_model out"
        )


def _read_model(adapter: Adapter) -> tuple[str | None, str | None]:
    """Return (checkpoint, base model); one of the two may be None. Raises SpecError."""
    from pytest_crucible.backends.tinker.service import OPTIONS

    check_options(adapter, (*MODEL, *OPTIONS, "renderer"))
    path, base_model = (adapter.options.get(name) for name in MODEL)
    if not (path or base_model) or not all(value is None or isinstance(value, str) for value in (path, base_model)):
        raise SpecError(
            f'adapter {adapter.name!r} has backend \'tinker\': it needs model_path = "tinker://..." or base_model = "..."'
        )
    if path is not None and not _PATH.fullmatch(path):
        raise SpecError(f"adapter {adapter.name!r} has model_path {path!r}: write tinker://RUN/sampler_weights/NAME")
    return path, base_model


def _has_name(model: str, name: str) -> bool:
    """Return whether a model has this name. A local server's full name is a path that ends with the short name and a hash."""
    return name == model or f"/models/{name}-" in model


def read_uri(uri: str, adapter: str) -> Mapping[str, Any]:
    """Return the checkpoint of a Tinker service that a URI names, or the base model.

    >>> read_uri("tinker://RUN/sampler_weights/v2", "v2"), read_uri("tinker:Qwen/Qwen3-8B", "base")
    ({'model_path': 'tinker://RUN/sampler_weights/v2'}, {'base_model': 'Qwen/Qwen3-8B'})
    """
    name = uri.partition(":")[2]
    # The scheme is part of Tinker's paths.
    return {"model_path": uri} if name.startswith("/") else {"base_model": name}


def find_weights(adapter: Adapter, context: AdapterContext) -> Weights:
    """Return the lineage of a checkpoint that a recipe of this project has made. The service has the weights."""
    path = adapter.options.get("model_path")
    if path is None:
        return Weights()
    # The import loads numpy and the local model, which adapters without a checkpoint do not need.
    from pytest_crucible.backends.lineages import find_lineage

    return Weights(lineage=find_lineage(context.adapters_folder, path))


def find_expiry(adapter: Adapter, context: AdapterContext) -> datetime | None:
    """Return when the service deletes the adapter's checkpoint; None for a base model, or where it keeps it.

    Raises SpecError if the service has no such checkpoint, or cannot be reached.
    """
    path = adapter.options.get("model_path")
    if path is None:
        return None
    service = context.tinker().service_of(adapter.name, adapter.options)
    run, name = path.removeprefix("tinker://").split("/", 1)
    listed = service.within("list checkpoints", lambda: service.rest.list_checkpoints(run))
    remaining = [checkpoint for checkpoint in listed.checkpoints if checkpoint.checkpoint_id == name]
    if not remaining:
        raise SpecError(f"{service.name} has no {path} any more: register a checkpoint that it has")
    expires: datetime | None = remaining[0].expires_at
    return expires


def find_steps(adapter: Adapter, context: AdapterContext) -> int | None:
    """Return the optimiser steps of a checkpoint as its service states them; None for a base model."""
    path = adapter.options.get("model_path")
    if path is None:
        return None
    return context.tinker().service_of(adapter.name, adapter.options).steps_of([path]).get(path)
