"""Dispatches requests to endpoints: checks the key, and turns each error into a response in the caller's format.

Its own endpoints are those of the service itself: configuration, sessions, results, and lists of training runs and checkpoints.
Runs of earlier servers in the same directory, of which only checkpoints are left, are listed with the others.
"""

from __future__ import annotations

import hmac
import inspect
import re
import sys
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import unquote

from pytest_crucible.local_model.server import openai, openai_formats, sampling, training
from pytest_crucible.local_model.server.archive import (
    EXTERNAL,
    SAMPLER,
    TRAINING,
    Checkpoint,
    CheckpointPath,
    MissingCheckpoint,
    format_time,
)
from pytest_crucible.local_model.server.models import stand_in_sentence
from pytest_crucible.local_model.server.openai_wire import write_error
from pytest_crucible.local_model.server.state import FETCH_S, Endpoint, Endpoints, Service, Session
from pytest_crucible.local_model.server.transport import Json, NotFound, Refusal, Request, Response

T = TypeVar("T")

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
    return Response.of_json(CLIENT_CONFIG, close=True)


def dynamic_config(service: Service, request: Request) -> Response:
    """Return settings that the SDK requests again from time to time."""
    request.object()
    return Response.of_json(DYNAMIC_CONFIG)


def health(service: Service, request: Request) -> Response:
    return Response.of_json({"status": "ok"})


def capabilities(service: Service, request: Request) -> Response:
    """Return the model, under its long and its short name, and the names that it stands in for."""
    return Response.of_json({"supported_models": service.models.describe()})


def create(service: Service, request: Request) -> Response:
    body = request.object()
    # Done here, when a new client comes, instead of by a timer.
    service.finish_silent_sessions()
    session = Session(
        id=str(uuid.uuid4()),
        number=len(service.sessions),
        last_seen=service.clock(),
        user_metadata=body.texts_by_name("user_metadata"),
        display_name=body.optional_text("display_name"),
        project_id=body.optional_text("project_id"),
    )
    service.sessions[session.id] = session
    created: dict[str, Json] = {"type": "create_session", "session_id": session.id}
    if service.models.stand_ins:
        # The SDK logs it, so that these models are not mistaken for real ones.
        created["warning_message"] = stand_in_sentence(service.models.stand_ins)
    return Response.of_json(created)


def heartbeat(service: Service, request: Request) -> Response:
    """Keep a session alive; status 410 tells the client to stop sending heartbeats."""
    service.session(request.object().text("session_id"))
    return Response.of_json({"type": "session_heartbeat"})


def telemetry(service: Service, request: Request) -> Response:
    """Accept telemetry and discard it: nothing leaves this machine."""
    request.object()
    return Response.of_json({"status": "accepted"})


def finish(service: Service, request: Request) -> Response:
    """Finish a session: its models and snapshots are dropped. A second time has no effect."""
    session = _find_session(service, request)
    if not session.finished:
        service.finish(session)
    return Response.of_json({})


def list_sessions(service: Service, request: Request) -> Response:
    """Return the ids of all sessions, the newest first."""
    offset, limit = request.whole_number("offset", 0), request.whole_number("limit", 20)
    newest_first = list(reversed(service.sessions))
    return Response.of_json({"sessions": newest_first[offset : offset + limit]})


def get_session(service: Service, request: Request) -> Response:
    """Return the ids of a session's training runs and samplers, with its metadata."""
    session = _find_session(service, request)
    return Response.of_json(
        {
            "training_run_ids": [run.id for run in service.runs.values() if run.session == session.id],
            "sampler_ids": [sampling.id for sampling in service.samplings.values() if sampling.session == session.id],
            "user_metadata": session.user_metadata,
            "display_name": session.display_name,
        }
    )


def assign_project(service: Service, request: Request) -> Response:
    session = _find_session(service, request)
    session.project_id = request.object().text("project_id")
    return Response.of_json({})


async def retrieve(service: Service, request: Request) -> Response:
    """Wait for a result; a failure is reported in its body, with status 200."""
    request_id = request.object().text("request_id")
    service.note_fetch(request_id)
    return await service.futures.fetch(request_id, FETCH_S)


def cancel(service: Service, request: Request) -> Response:
    service.futures.cancel(request.object().text("request_id"))
    return Response.of_json({})


def _find_session(service: Service, request: Request) -> Session:
    session = service.sessions.get(request.parameters["session"])
    if session is None:
        raise NotFound(f"unknown session {request.parameters['session']!r}")
    return session


_VERSION = re.compile(r"(\d+)\.(\d+)")
_TYPES = {TRAINING: "training", SAMPLER: "sampler", EXTERNAL: "external"}


def training_runs(service: Service, request: Request) -> Response:
    """Return a page of all runs, or those of a project, those with the latest request first."""
    saved: dict[str, list[Checkpoint]] = {}
    for checkpoint in service.archive.all():
        saved.setdefault(checkpoint.path.run, []).append(checkpoint)
    project = request.query_text("project_id")
    runs = [
        _describe_run(service, run_id, saved.get(run_id, []))
        for run_id in {**service.runs, **saved}
        if not project or _project_of(service, run_id) == project
    ]
    runs.sort(key=lambda run: str(run["last_request_time"]), reverse=True)
    return _page(request, "training_runs", runs, 20, lambda run: run)


def training_run(service: Service, request: Request) -> Response:
    return Response.of_json(_describe_run(service, request.parameters["run"], _find_saved(service, request)))


def checkpoints_of_run(service: Service, request: Request) -> Response:
    """Return all checkpoints of a run, the newest first."""
    readable = _readable(request, _find_saved(service, request))
    return Response.of_json({"checkpoints": list(map(_describe_checkpoint, readable)), "cursor": None})


def checkpoints(service: Service, request: Request) -> Response:
    """Return a page of all checkpoints, the newest first."""
    return _page(request, "checkpoints", _readable(request, service.archive.all()), 100, _describe_checkpoint)


def delete_checkpoint(service: Service, request: Request) -> Response:
    """Delete a checkpoint. A sampler that has its weights in memory continues for a while."""
    service.archive.delete(_path(request))
    return Response.of_json({})


def publish_checkpoint(service: Service, request: Request) -> Response:
    """Mark a checkpoint as public, or with DELETE remove the mark, which has no other effect on this machine."""
    service.archive.change(_path(request), public=request.method == "POST")
    return Response.of_json({})


def set_time_to_live(service: Service, request: Request) -> Response:
    """Set the time to live, in seconds from now; null for ever."""
    seconds = training.read_time_to_live(request.object())
    service.archive.change(_path(request), expires=None if seconds is None else service.clock() + seconds)
    return Response.of_json({})


def _page(request: Request, name: str, rows: Sequence[T], size: int, describe: Callable[[T], Json]) -> Response:
    """Return the rows that the query string requests, by default the first `size`."""
    offset, limit = request.whole_number("offset", 0), request.whole_number("limit", size)
    page = list(map(describe, rows[offset : offset + limit]))
    return Response.of_json({name: page, "cursor": {"offset": offset, "limit": limit, "total_count": len(rows)}})


def _find_saved(service: Service, request: Request) -> list[Checkpoint]:
    run_id = request.parameters["run"]
    saved = service.archive.all(run_id)
    if not saved and run_id not in service.runs:
        raise NotFound(f"unknown training run {run_id!r}")
    return saved


def _readable(request: Request, saved: list[Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints that the client can read: an SDK before 0.38 refuses a list with external weights in it."""
    version = _VERSION.match(request.headers.get("x-stainless-package-version", ""))
    if version is None or (int(version[1]), int(version[2])) >= (0, 38):
        return saved
    return [checkpoint for checkpoint in saved if checkpoint.path.kind != EXTERNAL]


def _path(request: Request) -> CheckpointPath:
    return CheckpointPath(*(request.parameters[name] for name in ("run", "kind", "name")))


def _describe_run(service: Service, run_id: str, saved: list[Checkpoint]) -> dict[str, Json]:
    run = service.runs.get(run_id)
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
        "user_metadata": run.user_metadata if run else None,
    }


def _project_of(service: Service, run_id: str) -> str | None:
    """Return the project of a run's session; None for runs of earlier servers, whose projects are not known."""
    run = service.runs.get(run_id)
    return service.sessions[run.session].project_id if run else None


def _last(saved: list[Checkpoint], kind: str) -> Json:
    return next((_describe_checkpoint(checkpoint) for checkpoint in saved if checkpoint.path.kind == kind), None)


def _describe_checkpoint(checkpoint: Checkpoint) -> Json:
    return {
        "checkpoint_id": f"{checkpoint.path.kind}/{checkpoint.path.name}",
        "checkpoint_type": _TYPES[checkpoint.path.kind],
        "time": format_time(checkpoint.info.created),
        "tinker_path": str(checkpoint.path),
        "size_bytes": checkpoint.size,
        "public": checkpoint.info.public,
        "user_metadata": checkpoint.info.user_metadata,
        "steps": checkpoint.info.steps,
        "norm": checkpoint.info.norm,
        "expires_at": None if checkpoint.info.expires is None else format_time(checkpoint.info.expires),
    }


_OF_SERVICE: Endpoints = {
    ("POST", "/client/config"): client_config,
    ("POST", "/client/dynamic_config"): dynamic_config,
    ("GET", "/healthz"): health,
    ("GET", "/get_server_capabilities"): capabilities,
    ("POST", "/create_session"): create,
    ("POST", "/session_heartbeat"): heartbeat,
    ("POST", "/telemetry"): telemetry,
    ("GET", "/sessions"): list_sessions,
    ("GET", "/sessions/{session}"): get_session,
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
    ("DELETE", "/training_runs/{run}/checkpoints/{kind}/{name}/publish"): publish_checkpoint,
    ("PUT", "/training_runs/{run}/checkpoints/{kind}/{name}/ttl"): set_time_to_live,
}
_OF_TINKER: Endpoints = {**_OF_SERVICE, **training.ENDPOINTS, **sampling.ENDPOINTS}
_OF_OPENAI: Endpoints = {**openai.ENDPOINTS, **openai_formats.ENDPOINTS}
# Endpoints by method and path; `{name}` in a path matches one segment and `{*name}` the rest, see `request.parameters`.
ENDPOINTS: Mapping[str, Endpoint] = {
    f"{method} {prefix}{path}": handler
    for prefix, endpoints in (("/api/v1", _OF_TINKER), ("/oai/api/v1", _OF_OPENAI))
    for (method, path), handler in endpoints.items()
}


class Application:
    """Answers requests for a service. Each request but a download must carry the key."""

    def __init__(self, service: Service, key: str) -> None:
        self._service = service
        self._key = key.encode()
        self._patterns = [(_pattern(route), endpoint) for route, endpoint in ENDPOINTS.items() if "{" in route]

    async def answer(self, request: Request) -> Response:
        """Return the response, whatever happens."""
        try:
            # A URL to download from is its own key, as it is with the hosted service.
            if not request.path.startswith(f"/api/v1{training.DOWNLOADS}"):
                self._check_key(request)
            endpoint, request = self._route(request)
            response = endpoint(self._service, request)
            return await response if inspect.isawaitable(response) else response
        except Refusal as refusal:
            return refusal_response(refusal, request)
        except MissingCheckpoint as missing:
            return refusal_response(NotFound(str(missing)), request)
        except ValueError as error:
            return refusal_response(Refusal(str(error)), request)
        except Exception as error:
            # The server's log has the details; the client gets one sentence.
            traceback.print_exception(error, file=sys.stderr)
            # Status 400, not 500: the SDK would repeat the request for minutes before it reports anything.
            return refusal_response(Refusal(f"a defect of this server: {type(error).__name__}: {error}"), request)

    def _check_key(self, request: Request) -> None:
        bearer = request.headers.get("authorization", "").partition(" ")
        key = request.headers.get("x-api-key") or (bearer[2].strip() if bearer[0].lower() == "bearer" else "")
        # In constant time, so that the key cannot be guessed byte by byte.
        if not hmac.compare_digest(key.encode("latin-1"), self._key):
            sentence = (
                "the key (header x-api-key, or Authorization: Bearer) is not this server's: use the one it printed"
            )
            raise Refusal(sentence, HTTPStatus.UNAUTHORIZED)

    def _route(self, request: Request) -> tuple[Endpoint, Request]:
        route = f"{request.method} {request.path}"
        if route in ENDPOINTS and "{" not in route:
            return ENDPOINTS[route], request
        for pattern, endpoint in self._patterns:
            if match := pattern.fullmatch(route):
                parameters = {name: unquote(value) for name, value in match.groupdict().items()}
                return endpoint, replace(request, parameters=parameters)
        raise NotFound(
            f"this local Tinker server has no {request.method} {request.path[:200]}: "
            "the page reference/tinker-server of the documentation lists what to use instead"
        )


def refusal_response(refusal: Refusal, request: Request | None = None) -> Response:
    """Return a refusal in the format of the caller's SDK: OpenAI's under /oai, else Tinker's."""
    if request is not None and request.path.startswith("/oai/"):
        return Response.of_json(write_error(refusal.sentence, refusal.status, refusal.code), refusal.status)
    return Response.of_json({"detail": refusal.sentence}, refusal.status)


def _pattern(route: str) -> re.Pattern[str]:
    rest = re.sub(r"\\\{\\\*(\w+)\\\}", r"(?P<\1>.+)", re.escape(route))
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", rest))
