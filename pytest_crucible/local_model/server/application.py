"""Dispatches requests to endpoints: checks the key, and turns each error into a response in the caller's format."""

from __future__ import annotations

import hmac
import inspect
import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from urllib.parse import unquote

from pytest_crucible.local_model.server import openai, openai_formats, sampling, sessions, training
from pytest_crucible.local_model.server.archive import MissingCheckpoint
from pytest_crucible.local_model.server.state import Endpoint, Service
from pytest_crucible.local_model.server.transport import (
    Refusal,
    Request,
    Response,
    bad_request,
    json_response,
    not_found,
)

# Endpoints by method and path; `{name}` in a path matches one segment, see `request.parameters`.
ENDPOINTS: Mapping[str, Endpoint] = {
    f"{method} {prefix}{path}": handler
    for prefix, modules in (("/api/v1", (sessions, training, sampling)), ("/oai/api/v1", (openai, openai_formats)))
    for module in modules
    for (method, path), handler in module.ENDPOINTS.items()
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
            return refusal_response(not_found(str(missing)), request)
        except ValueError as error:
            return refusal_response(bad_request(str(error)), request)
        except Exception as error:
            # The server's log has the details; the client gets one sentence.
            traceback.print_exception(error, file=sys.stderr)
            return refusal_response(_defect_refusal(error), request)

    def _check_key(self, request: Request) -> None:
        bearer = request.headers.get("authorization", "").partition(" ")
        key = request.headers.get("x-api-key") or (bearer[2].strip() if bearer[0].lower() == "bearer" else "")
        # In constant time, so that the key cannot be guessed byte by byte.
        if not hmac.compare_digest(key.encode("latin-1"), self._key):
            sentence = (
                "the key (header x-api-key, or Authorization: Bearer) is not this server's: use the one it printed"
            )
            raise Refusal(HTTPStatus.UNAUTHORIZED, sentence)

    def _route(self, request: Request) -> tuple[Endpoint, Request]:
        route = f"{request.method} {request.path}"
        if route in ENDPOINTS and "{" not in route:
            return ENDPOINTS[route], request
        for pattern, endpoint in self._patterns:
            if match := pattern.fullmatch(route):
                parameters = {name: unquote(value) for name, value in match.groupdict().items()}
                return endpoint, replace(request, parameters=parameters)
        raise not_found(
            f"this local Tinker server has no {request.method} {request.path[:200]}: "
            "the page reference/tinker-server of the documentation lists what to use instead"
        )


def refusal_response(refusal: Refusal, request: Request | None = None) -> Response:
    """Return a refusal in the format of the caller's SDK: OpenAI's under /oai, else Tinker's."""
    if request is not None and request.path.startswith("/oai/"):
        return json_response(openai_formats.write_error(refusal), refusal.status)
    return json_response({"detail": refusal.sentence}, refusal.status)


def _defect_refusal(error: Exception) -> Refusal:
    """Return a refusal with status 400, not 500: the SDK would repeat the request for minutes before it reports anything."""
    return Refusal(HTTPStatus.BAD_REQUEST, f"a defect of this server: {type(error).__name__}: {error}")


def _pattern(route: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(route)))
