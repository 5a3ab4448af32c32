"""Requests to endpoints: checks the key, finds the endpoint, turns every error into an answer in the caller's form."""

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

from pytest_crucible.embedded.server import listing, openai, sampling, saving, sessions, training
from pytest_crucible.embedded.server.archive import Missing
from pytest_crucible.embedded.server.messages import Refusal, Request, Response, bad_request, json_response, not_found
from pytest_crucible.embedded.server.state import Endpoint, Service

_TINKER = (sessions, training, saving, sampling, listing)
ENDPOINTS: Mapping[str, Endpoint] = {
    **{f"{method} /api/v1{path}": one for room in _TINKER for (method, path), one in room.ENDPOINTS.items()},
    **{f"{method} /oai/api/v1{path}": one for (method, path), one in openai.ENDPOINTS.items()},
}
"""By method and path; `{name}` in a path stands for one segment, which the endpoint finds in `request.parameters`."""


class Application:
    """Answers requests for a service; the key must come with each."""

    def __init__(self, service: Service, key: str) -> None:
        self._service = service
        self._key = key.encode()
        self._patterns = [(_pattern(route), endpoint) for route, endpoint in ENDPOINTS.items() if "{" in route]

    async def answer(self, request: Request) -> Response:
        """The response, whatever happens."""
        try:
            self._check_key(request)
            endpoint, request = self._route(request)
            response = endpoint(self._service, request)
            return await response if inspect.isawaitable(response) else response
        except Refusal as refusal:
            return refused(refusal, request)
        except Missing as missing:
            return refused(not_found(str(missing)), request)
        except ValueError as error:
            return refused(bad_request(str(error)), request)
        except Exception as error:
            traceback.print_exception(error, file=sys.stderr)
            return refused(_defect(error), request)

    def _check_key(self, request: Request) -> None:
        bearer = request.headers.get("authorization", "").partition(" ")
        given = request.headers.get("x-api-key") or (bearer[2].strip() if bearer[0].lower() == "bearer" else "")
        if not hmac.compare_digest(given.encode("latin-1"), self._key):
            sentence = "the key (header x-api-key, or Authorization: Bearer) is not this server's"
            raise Refusal(HTTPStatus.UNAUTHORIZED, sentence)

    def _route(self, request: Request) -> tuple[Endpoint, Request]:
        route = f"{request.method} {request.path}"
        if route in ENDPOINTS and "{" not in route:
            return ENDPOINTS[route], request
        for pattern, endpoint in self._patterns:
            if match := pattern.fullmatch(route):
                parameters = {name: unquote(value) for name, value in match.groupdict().items()}
                return endpoint, replace(request, parameters=parameters)
        raise not_found(f"this local Tinker server has no {request.method} {request.path[:200]}")


def refused(refusal: Refusal, request: Request | None = None) -> Response:
    """A refusal as the caller's SDK expects it: OpenAI's form under /oai, else Tinker's."""
    if request is not None and request.path.startswith("/oai/"):
        return json_response(openai.error(refusal), refusal.status)
    return json_response({"detail": refusal.sentence}, refusal.status)


def _defect(error: Exception) -> Refusal:
    """400, not 500: the SDK would repeat the request for minutes, or for ever, before it told anybody."""
    return Refusal(HTTPStatus.BAD_REQUEST, f"a defect of this server: {type(error).__name__}: {error}")


def _pattern(route: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(route)))
