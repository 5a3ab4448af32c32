"""The backend: one attempt at one answer from an OpenAI-shaped server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_crucible.backends.http.client import Client
from pytest_crucible.backends.http.connection import Response
from pytest_crucible.backends.http.tls import context_of
from pytest_crucible.backends.openai.bodies import body_of
from pytest_crucible.backends.openai.failures import reply_or_error, status_within
from pytest_crucible.backends.openai.limits import Limits, limits_of
from pytest_crucible.backends.openai.parameters import check_parameters
from pytest_crucible.backends.openai.replies import check_choices, reply_of
from pytest_crucible.backends.openai.settings import Settings, read_settings
from pytest_crucible.backends.openai.streams import Stream
from pytest_crucible.errors import Retryable, SpecError
from pytest_crucible.records import Adapter, Reply, Request


class OpenAIBackend:
    """Asks one model of one server.

    A text or a list of messages is asked through chat completions, a list of token ids through completions, unless `mode` says
    otherwise. Raises Retryable, Refused and BackendError as `failures` says; each call is one request on the wire.
    """

    simulated = False

    def __init__(self, settings: Settings) -> None:
        """Raises SpecError for certificates that cannot be read, and for a proxy that cannot be spoken to."""
        self.identity = settings.identity
        self.server = settings.server
        self.model = settings.model
        self._settings = settings
        self._where = settings.address.origin
        secure = settings.address.scheme == "https"
        tls = context_of(verify=settings.verify, ca_file=settings.ca_file) if secure else None
        self._client = Client(settings.address, settings.headers, tls)
        self._headers: Mapping[str, str] = {}

    @property
    def limits_seen(self) -> Limits | None:
        """What the last answer said of the server's limits; None where it said nothing."""
        return limits_of(self._headers)

    async def generate(self, request: Request) -> Reply:
        path, body = body_of(self._settings, request)
        stream = Stream() if self._settings.stream else None
        response = await self._client.post(path, body, stream.feed if stream else None)
        self._headers = response.headers
        if not 200 <= response.status < 300:
            return self._failed(response, request)
        where = self._where
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        answer = stream.answer(where) if stream and is_stream else _decoded(response, where)
        if answer.get("error"):  # with choices, too: what a stream had brought until then is half an answer
            return self._failed(replace(response, status=status_within(answer)), request, answer)
        first = stream.first_token_at - response.sent_at if stream and stream.first_token_at else None
        reply = reply_of(answer, seconds=response.seconds, first_token_s=first, where=where)
        check_choices(reply, self._settings.extra_body.get("n", request.parameters.get("n")), where)
        return reply

    async def close(self) -> None:
        """Close the connections of the running loop."""
        await self._client.close()

    def _failed(self, response: Response, request: Request, told: Mapping[str, Any] | None = None) -> Reply:
        settings = self._settings
        sent = {*request.parameters, *settings.extra_body, *(("stream", "stream_options") if settings.stream else ())}
        found = reply_or_error(response, settings, sent, told)
        if isinstance(found, Reply):
            return found
        raise found


def open_openai(adapter: Adapter, root: Path) -> OpenAIBackend:
    """The backend of an adapter. Raises SpecError for settings and parameters that cannot be meant."""
    settings = read_settings(adapter, root)
    try:
        check_parameters(adapter.parameters)
    except ValueError as error:
        raise SpecError(f"adapter {adapter.name!r} has parameters that mean nothing: {error}") from None
    return OpenAIBackend(settings)


def _decoded(response: Response, where: str) -> dict[str, Any]:
    if (encoding := response.headers.get("content-encoding", "identity")) != "identity":
        raise Retryable(f"{where} answered in {encoding!r}, and was asked for an answer as it is", kind="garbage")
    try:
        answer = json.loads(response.body)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        return answer
    raise Retryable(f"{where} answered with what is no JSON object", kind="garbage")
