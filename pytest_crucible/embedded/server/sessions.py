"""Endpoints of the service itself: configuration, sessions, heartbeats, telemetry, and fetching results."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from pytest_crucible.embedded.server import fields
from pytest_crucible.embedded.server.messages import Json, Request, Response, json_response, not_found
from pytest_crucible.embedded.server.state import BASE_MODEL, FETCH_S, Endpoints, Service, Session

CLIENT_CONFIG: Mapping[str, Json] = {
    "sample_max_concurrent_requests": 32,
    "parallel_fwdbwd_chunks": False,
    "fwdbwd_max_chunk_len": 100_000,
    "fwdbwd_max_chunk_bytes_count": 50_000_000,
    "sample_no_retries": True,
}
"""What the SDK is told at its start: few connections (as many requests as are sampled together), training data in the order in
which they come, and no hidden hours of retries."""
DYNAMIC_CONFIG: Mapping[str, Json] = {
    "refresh_interval_sec": 300,
    "sample_cancel_enabled": True,
    "sample_cancel_max_batch_size": 64,
}


def client_config(service: Service, request: Request) -> Response:
    """The connection is closed: the SDK opens one for this alone and never closes it (a ResourceWarning)."""
    request.object()
    return json_response(CLIENT_CONFIG, close=True)


def dynamic_config(service: Service, request: Request) -> Response:
    """Settings that the SDK asks for again from time to time."""
    request.object()
    return json_response(DYNAMIC_CONFIG)


def health(service: Service, request: Request) -> Response:
    """The server answers."""
    return json_response({"status": "ok"})


def capabilities(service: Service, request: Request) -> Response:
    """The one model, under its long and its short name."""
    return json_response(
        {
            "supported_models": [
                {
                    "model_name": name,
                    "max_context_length": service.engine.shape.context,
                    "trainable": True,
                    "sampleable": True,
                }
                for name in (service.model_name, BASE_MODEL)
            ]
        }
    )


def create(service: Service, request: Request) -> Response:
    """A new session with an id of its own."""
    body = request.object()
    service.finish_silent_sessions()
    session = Session(
        id=str(uuid.uuid4()),
        number=len(service.sessions),
        last_seen=service.clock(),
        user_metadata=fields.texts_by_name(body, "user_metadata"),
        display_name=fields.optional_text(body, "display_name"),
        project_id=fields.optional_text(body, "project_id"),
    )
    service.sessions[session.id] = session
    return json_response({"type": "create_session", "session_id": session.id})


def heartbeat(service: Service, request: Request) -> Response:
    """The session lives on; 410 tells the client to stop asking."""
    service.session(fields.text(request.object(), "session_id"))
    return json_response({"type": "session_heartbeat"})


def telemetry(service: Service, request: Request) -> Response:
    """Taken, and not kept: nothing leaves this machine."""
    request.object()
    return json_response({"status": "accepted"})


def finish(service: Service, request: Request) -> Response:
    """Models and snapshots of the session go; a second time changes nothing."""
    session = _known(service, request)
    if not session.finished:
        service.finish(session)
    return json_response({})


def list_all(service: Service, request: Request) -> Response:
    """Ids of all sessions, the newest first."""
    offset, limit = request.whole_number("offset", 0), request.whole_number("limit", 20)
    newest_first = list(reversed(service.sessions))
    return json_response({"sessions": newest_first[offset : offset + limit]})


def get(service: Service, request: Request) -> Response:
    """What a session made."""
    session = _known(service, request)
    return json_response(
        {
            "training_run_ids": [run.id for run in service.runs.values() if run.session == session.id],
            "sampler_ids": [one.id for one in service.samplings.values() if one.session == session.id],
            "user_metadata": session.user_metadata,
            "display_name": session.display_name,
        }
    )


def assign_project(service: Service, request: Request) -> Response:
    """The session belongs to a project from now on."""
    session = _known(service, request)
    session.project_id = fields.text(request.object(), "project_id")
    return json_response({})


async def retrieve(service: Service, request: Request) -> Response:
    """Wait for a result; what failed is told in it, with status 200."""
    return await service.futures.fetch(fields.text(request.object(), "request_id"), FETCH_S)


def cancel(service: Service, request: Request) -> Response:
    """Give up a request that nobody waits for."""
    service.futures.cancel(fields.text(request.object(), "request_id"))
    return json_response({})


def _known(service: Service, request: Request) -> Session:
    session = service.sessions.get(request.parameters["session"])
    if session is None:
        raise not_found(f"there is no session {request.parameters['session']!r}")
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
