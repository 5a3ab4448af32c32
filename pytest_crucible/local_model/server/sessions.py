"""Endpoints of the service itself: configuration, sessions, results, and lists of training runs and checkpoints.

Runs of earlier servers in the same directory, of which only checkpoints are left, are listed with the others.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping

from pytest_crucible.local_model.server import request_fields
from pytest_crucible.local_model.server.archive import (
    EXTERNAL,
    SAMPLER,
    TRAINING,
    Checkpoint,
    CheckpointPath,
    format_time,
)
from pytest_crucible.local_model.server.models import stand_in_sentence
from pytest_crucible.local_model.server.state import FETCH_S, Endpoints, Service, Session
from pytest_crucible.local_model.server.training import read_time_to_live
from pytest_crucible.local_model.server.transport import Json, Request, Response, json_response, not_found

# Configuration that the SDK receives at its start: few connections (as many requests as are sampled together),
# training data in order of arrival, and no hidden hours of retries.
CLIENT_CONFIG: Mapping[str, Json] = {
    "sample_max_concurrent_requests": 32,
    "parallel_fwdbwd_chunks": False,
    "fwdbwd_max_chunk_len": 100_000,
    "fwdbwd_max_chunk_bytes_count": 50_000_000,
    "sample_no_retries": True,
}
DYNAMIC_CONFIG: Mapping[str, Json] = {
    "refresh_interval_sec": 300,
    "sample_cancel_enabled": True,
    "sample_cancel_max_batch_size": 64,
}


def client_config(service: Service, request: Request) -> Response:
    """Return the configuration and close the connection: the SDK opens one for this alone and never closes it."""
    request.object()
    return json_response(CLIENT_CONFIG, close=True)


def dynamic_config(service: Service, request: Request) -> Response:
    """Return settings that the SDK requests again from time to time."""
    request.object()
    return json_response(DYNAMIC_CONFIG)


def health(service: Service, request: Request) -> Response:
    """Report that the server answers."""
    return json_response({"status": "ok"})


def capabilities(service: Service, request: Request) -> Response:
    """Return the model, under its long and its short name, and the names that it stands in for."""
    return json_response({"supported_models": service.models.describe()})


def create(service: Service, request: Request) -> Response:
    """Create a session."""
    body = request.object()
    # Done here, when a new client comes, instead of by a timer.
    service.finish_silent_sessions()
    session = Session(
        id=str(uuid.uuid4()),
        number=len(service.sessions),
        last_seen=service.clock(),
        user_metadata=request_fields.texts_by_name(body, "user_metadata"),
        display_name=request_fields.optional_text(body, "display_name"),
        project_id=request_fields.optional_text(body, "project_id"),
    )
    service.sessions[session.id] = session
    created: dict[str, Json] = {"type": "create_session", "session_id": session.id}
    if service.models.stand_ins:
        # The SDK logs it, so that these models are not mistaken for real ones.
        created["warning_message"] = stand_in_sentence(service.models.stand_ins)
    return json_response(created)


def heartbeat(service: Service, request: Request) -> Response:
    """Keep a session alive; status 410 tells the client to stop sending heartbeats."""
    service.session(request_fields.text(request.object(), "session_id"))
    return json_response({"type": "session_heartbeat"})


def telemetry(service: Service, request: Request) -> Response:
    """Accept telemetry and discard it: nothing leaves this machine."""
    request.object()
    return json_response({"status": "accepted"})


def finish(service: Service, request: Request) -> Response:
    """Finish a session: its models and snapshots are dropped. A second time has no effect."""
    session = _find_session(service, request)
    if not session.finished:
        service.finish(session)
    return json_response({})


def list_all(service: Service, request: Request) -> Response:
    """Return the ids of all sessions, the newest first."""
    offset, limit = request.whole_number("offset", 0), request.whole_number("limit", 20)
    newest_first = list(reversed(service.sessions))
    return json_response({"sessions": newest_first[offset : offset + limit]})


def get(service: Service, request: Request) -> Response:
    """Return the ids of a session's training runs and samplers, with its metadata."""
    session = _find_session(service, request)
    return json_response(
        {
            "training_run_ids": [run.id for run in service.runs.values() if run.session == session.id],
            "sampler_ids": [sampling.id for sampling in service.samplings.values() if sampling.session == session.id],
            "user_metadata": session.user_metadata,
            "display_name": session.display_name,
        }
    )


def assign_project(service: Service, request: Request) -> Response:
    """Assign a session to a project."""
    session = _find_session(service, request)
    session.project_id = request_fields.text(request.object(), "project_id")
    return json_response({})


async def retrieve(service: Service, request: Request) -> Response:
    """Wait for a result; a failure is reported in its body, with status 200."""
    return await service.futures.fetch(request_fields.text(request.object(), "request_id"), FETCH_S)


def cancel(service: Service, request: Request) -> Response:
    """Cancel a request that its client no longer needs."""
    service.futures.cancel(request_fields.text(request.object(), "request_id"))
    return json_response({})


def _find_session(service: Service, request: Request) -> Session:
    session = service.sessions.get(request.parameters["session"])
    if session is None:
        raise not_found(f"unknown session {request.parameters['session']!r}")
    return session


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
    ("POST", "/client/config"): client_config,
    ("POST", "/client/dynamic_config"): dynamic_config,
    ("GET", "/healthz"): health,
    ("GET", "/get_server_capabilities"): capabilities,
    ("POST", "/create_session"): create,
    ("POST", "/session_heartbeat"): heartbeat,
    ("POST", "/telemetry"): telemetry,
    ("GET", "/sessions"): list_all,
    ("GET", "/sessions/{session}"): get,
    ("POST", "/sessions/{session}/finish"): finish,
    ("PUT", "/sessions/{session}/project"): assign_project,
    ("POST", "/retrieve_future"): retrieve,
    ("POST", "/cancel_future"): cancel,
    ("GET", "/training_runs"): training_runs,
    ("GET", "/training_runs/{run}"): training_run,
    ("GET", "/training_runs/{run}/checkpoints"): checkpoints_of_run,
    ("GET", "/checkpoints"): checkpoints,
    ("DELETE", "/training_runs/{run}/checkpoints/{kind}/{name}"): delete_checkpoint,
    ("POST", "/training_runs/{run}/checkpoints/{kind}/{name}/publish"): publish_checkpoint,
    ("DELETE", "/training_runs/{run}/checkpoints/{kind}/{name}/publish"): unpublish_checkpoint,
    ("PUT", "/training_runs/{run}/checkpoints/{kind}/{name}/ttl"): set_time_to_live,
}
