"""Endpoints of the service itself: configuration, sessions, heartbeats, telemetry, and results."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from pytest_crucible.local_model.server import request_fields
from pytest_crucible.local_model.server.base_models import stand_in_sentence
from pytest_crucible.local_model.server.messages import Json, Request, Response, json_response, not_found
from pytest_crucible.local_model.server.state import FETCH_S, Endpoints, Service, Session

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
}
