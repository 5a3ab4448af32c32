"""Endpoints that list: training runs and checkpoints, and what may be changed about a checkpoint.

Runs that are only on disk, from an earlier server in the same directory, are listed with the others.
"""

from __future__ import annotations

from pytest_crucible.embedded.server.archive import SAMPLER, TRAINING, Checkpoint, CheckpointPath, moment
from pytest_crucible.embedded.server.messages import Json, Request, Response, json_response, not_found
from pytest_crucible.embedded.server.saving import time_to_live
from pytest_crucible.embedded.server.state import Endpoints, Service

_TYPES = {TRAINING: "training", SAMPLER: "sampler"}


def training_runs(service: Service, request: Request) -> Response:
    """Page of all runs, those with the latest request first."""
    offset, limit = request.whole_number("offset", 0), request.whole_number("limit", 20)
    runs = _runs(service)
    return json_response(
        {
            "training_runs": runs[offset : offset + limit],
            "cursor": {"offset": offset, "limit": limit, "total_count": len(runs)},
        }
    )


def training_run(service: Service, request: Request) -> Response:
    """One run."""
    run_id = request.parameters["run"]
    saved = service.archive.all(run_id)
    if not saved and run_id not in service.runs:
        raise not_found(f"there is no training run {run_id!r}")
    return json_response(_run(service, run_id, saved))


def checkpoints_of_run(service: Service, request: Request) -> Response:
    """All checkpoints of a run, the newest first."""
    run_id = request.parameters["run"]
    found = service.archive.all(run_id)
    if not found and run_id not in service.runs:
        raise not_found(f"there is no training run {run_id!r}")
    return json_response({"checkpoints": [_checkpoint(one) for one in found], "cursor": None})


def checkpoints(service: Service, request: Request) -> Response:
    """Page of all checkpoints, the newest first."""
    offset, limit = request.whole_number("offset", 0), request.whole_number("limit", 100)
    found = service.archive.all()
    return json_response(
        {
            "checkpoints": [_checkpoint(one) for one in found[offset : offset + limit]],
            "cursor": {"offset": offset, "limit": limit, "total_count": len(found)},
        }
    )


def delete(service: Service, request: Request) -> Response:
    """Remove a checkpoint. A sampler that has its weights in memory goes on for a while."""
    service.archive.delete(_path(request))
    return json_response({})


def publish(service: Service, request: Request) -> Response:
    """Mark a checkpoint as public; on this machine that changes nothing else."""
    service.archive.change(_path(request), public=True)
    return json_response({})


def unpublish(service: Service, request: Request) -> Response:
    """Take the mark away."""
    service.archive.change(_path(request), public=False)
    return json_response({})


def set_time_to_live(service: Service, request: Request) -> Response:
    """From now on so many seconds; null is for ever."""
    seconds = time_to_live(request.object())
    service.archive.change(_path(request), expires=None if seconds is None else service.clock() + seconds)
    return json_response({})


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
        "base_model": service.model_name,
        "model_owner": "local",
        "is_lora": True,
        "corrupted": False,
        "lora_rank": run.lora.rank if run else int(saved[0].about.lora["rank"]),
        "last_request_time": moment(run.last_request if run else saved[0].about.created),
        "last_checkpoint": _last(saved, TRAINING),
        "last_sampler_checkpoint": _last(saved, SAMPLER),
        "user_metadata": metadata,
    }


def _last(saved: list[Checkpoint], kind: str) -> Json:
    return next((_checkpoint(one) for one in saved if one.path.kind == kind), None)


def _checkpoint(one: Checkpoint) -> Json:
    return {
        "checkpoint_id": f"{one.path.kind}/{one.path.name}",
        "checkpoint_type": _TYPES[one.path.kind],
        "time": moment(one.about.created),
        "tinker_path": str(one.path),
        "size_bytes": one.size,
        "public": one.about.public,
        "user_metadata": one.about.user_metadata,
        "expires_at": None if one.about.expires is None else moment(one.about.expires),
    }


ENDPOINTS: Endpoints = {
    ("GET", "/training_runs"): training_runs,
    ("GET", "/training_runs/{run}"): training_run,
    ("GET", "/training_runs/{run}/checkpoints"): checkpoints_of_run,
    ("GET", "/checkpoints"): checkpoints,
    ("DELETE", "/training_runs/{run}/checkpoints/{kind}/{name}"): delete,
    ("POST", "/training_runs/{run}/checkpoints/{kind}/{name}/publish"): publish,
    ("DELETE", "/training_runs/{run}/checkpoints/{kind}/{name}/publish"): unpublish,
    ("PUT", "/training_runs/{run}/checkpoints/{kind}/{name}/ttl"): set_time_to_live,
}
