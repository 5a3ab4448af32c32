"""Endpoints that list training runs and checkpoints, and change a checkpoint's description.

Runs of earlier servers in the same directory, of which only checkpoints are left, are listed with the others.
"""

from __future__ import annotations

import re

from pytest_crucible.local_model.server.archive import (
    EXTERNAL,
    SAMPLER,
    TRAINING,
    Checkpoint,
    CheckpointPath,
    format_time,
)
from pytest_crucible.local_model.server.messages import Json, Request, Response, json_response, not_found
from pytest_crucible.local_model.server.saving import read_time_to_live
from pytest_crucible.local_model.server.state import Endpoints, Service

_VERSION = re.compile(r"(\d+)\.(\d+)")
_TYPES = {TRAINING: "training", SAMPLER: "sampler", EXTERNAL: "external"}


def training_runs(service: Service, request: Request) -> Response:
    """Return a page of all runs, or those of a project, those with the latest request first."""
    offset, limit = request.whole_number("offset", 0), request.whole_number("limit", 20)
    runs = _runs(service)
    if project := request.query_text("project_id"):
        runs = [run for run in runs if _project_of(service, str(run["training_run_id"])) == project]
    return json_response(
        {
            "training_runs": runs[offset : offset + limit],
            "cursor": {"offset": offset, "limit": limit, "total_count": len(runs)},
        }
    )


def training_run(service: Service, request: Request) -> Response:
    """Return a run."""
    run_id = request.parameters["run"]
    saved = service.archive.all(run_id)
    if not saved and run_id not in service.runs:
        raise not_found(f"unknown training run {run_id!r}")
    return json_response(_run(service, run_id, saved))


def checkpoints_of_run(service: Service, request: Request) -> Response:
    """Return all checkpoints of a run, the newest first."""
    run_id = request.parameters["run"]
    saved = service.archive.all(run_id)
    if not saved and run_id not in service.runs:
        raise not_found(f"unknown training run {run_id!r}")
    readable = _readable(request, saved)
    return json_response({"checkpoints": [_checkpoint(checkpoint) for checkpoint in readable], "cursor": None})


def checkpoints(service: Service, request: Request) -> Response:
    """Return a page of all checkpoints, the newest first."""
    offset, limit = request.whole_number("offset", 0), request.whole_number("limit", 100)
    saved = _readable(request, service.archive.all())
    return json_response(
        {
            "checkpoints": [_checkpoint(checkpoint) for checkpoint in saved[offset : offset + limit]],
            "cursor": {"offset": offset, "limit": limit, "total_count": len(saved)},
        }
    )


def delete_checkpoint(service: Service, request: Request) -> Response:
    """Delete a checkpoint. A sampler that has its weights in memory continues for a while."""
    service.archive.delete(_path(request))
    return json_response({})


def publish_checkpoint(service: Service, request: Request) -> Response:
    """Mark a checkpoint as public, which has no other effect on this machine."""
    service.archive.change(_path(request), public=True)
    return json_response({})


def unpublish_checkpoint(service: Service, request: Request) -> Response:
    """Remove the public mark."""
    service.archive.change(_path(request), public=False)
    return json_response({})


def set_time_to_live(service: Service, request: Request) -> Response:
    """Set the time to live, in seconds from now; null for ever."""
    seconds = read_time_to_live(request.object())
    service.archive.change(_path(request), expires=None if seconds is None else service.clock() + seconds)
    return json_response({})


def _readable(request: Request, saved: list[Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints that the client can read: an SDK before 0.38 refuses a list with external weights in it."""
    version = _VERSION.match(request.headers.get("x-stainless-package-version", ""))
    if version is None or (int(version[1]), int(version[2])) >= (0, 38):
        return saved
    return [checkpoint for checkpoint in saved if checkpoint.path.kind != EXTERNAL]


def _path(request: Request) -> CheckpointPath:
    return CheckpointPath(*(request.parameters[name] for name in ("run", "kind", "name")))


def _runs(service: Service) -> list[dict[str, Json]]:
    saved: dict[str, list[Checkpoint]] = {}
    for checkpoint in service.archive.all():
        saved.setdefault(checkpoint.path.run, []).append(checkpoint)
    runs = [_run(service, run_id, saved.get(run_id, [])) for run_id in {**service.runs, **saved}]
    return sorted(runs, key=lambda run: str(run["last_request_time"]), reverse=True)


def _run(service: Service, run_id: str, saved: list[Checkpoint]) -> dict[str, Json]:
    run = service.runs.get(run_id)
    metadata = run.user_metadata if run else None
    return {
        "training_run_id": run_id,
        "base_model": run.base_model if run else service.base_model_of(saved[0]),
        "model_owner": "local",
        "is_lora": True,
        "corrupted": False,
        "lora_rank": run.lora.rank if run else int(saved[0].info.lora["rank"]),
        "last_request_time": format_time(run.last_request if run else saved[0].info.created),
        "last_checkpoint": _last(saved, TRAINING),
        "last_sampler_checkpoint": _last(saved, SAMPLER),
        "user_metadata": metadata,
    }


def _project_of(service: Service, run_id: str) -> str | None:
    """Return the project of a run's session; None for runs of earlier servers, whose projects are not known."""
    run = service.runs.get(run_id)
    return service.sessions[run.session].project_id if run else None


def _last(saved: list[Checkpoint], kind: str) -> Json:
    return next((_checkpoint(checkpoint) for checkpoint in saved if checkpoint.path.kind == kind), None)


def _checkpoint(checkpoint: Checkpoint) -> Json:
    return {
        "checkpoint_id": f"{checkpoint.path.kind}/{checkpoint.path.name}",
        "checkpoint_type": _TYPES[checkpoint.path.kind],
        "time": format_time(checkpoint.info.created),
        "tinker_path": str(checkpoint.path),
        "size_bytes": checkpoint.size,
        "public": checkpoint.info.public,
        "user_metadata": checkpoint.info.user_metadata,
        "expires_at": None if checkpoint.info.expires is None else format_time(checkpoint.info.expires),
    }


ENDPOINTS: Endpoints = {
    ("GET", "/training_runs"): training_runs,
    ("GET", "/training_runs/{run}"): training_run,
    ("GET", "/training_runs/{run}/checkpoints"): checkpoints_of_run,
    ("GET", "/checkpoints"): checkpoints,
    ("DELETE", "/training_runs/{run}/checkpoints/{kind}/{name}"): delete_checkpoint,
    ("POST", "/training_runs/{run}/checkpoints/{kind}/{name}/publish"): publish_checkpoint,
    ("DELETE", "/training_runs/{run}/checkpoints/{kind}/{name}/publish"): unpublish_checkpoint,
    ("PUT", "/training_runs/{run}/checkpoints/{kind}/{name}/ttl"): set_time_to_live,
}
