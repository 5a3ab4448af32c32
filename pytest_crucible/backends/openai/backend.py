"""The backend: one attempt at one reply from an OpenAI-compatible server."""

from __future__ import annotations

import contextvars
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_crucible.backends.choices import CHOICES, score_choices
from pytest_crucible.backends.http.connection import Response, is_event_stream
from pytest_crucible.backends.http.transports import TRANSPORTS
from pytest_crucible.backends.openai.bodies import is_streamed, request_body
from pytest_crucible.backends.openai.echo import echo_body, parse_echo
from pytest_crucible.backends.openai.failures import reply_or_error, status_within
from pytest_crucible.backends.openai.limits import ReportedLimits, read_headers
from pytest_crucible.backends.openai.parameters import check_parameters
from pytest_crucible.backends.openai.replies import check_choices, parse_reply
from pytest_crucible.backends.openai.settings import Settings, read_settings
from pytest_crucible.backends.openai.stand_ins import is_stand_in
from pytest_crucible.backends.openai.streams import Stream
from pytest_crucible.backends.reply_limit import longest_body
from pytest_crucible.backends.sample_clock import note_answer
from pytest_crucible.records import Adapter, Reply, Request
from pytest_crucible.records.errors import BackendError, Retryable, SpecError


class OpenAIBackend:
    """Queries one model of one server.

    A text or a list of messages goes to chat completions, a list of token ids to completions, unless `mode` is set. Each call
    is one request on the wire; see `failures` for when it raises Retryable, Refused or BackendError.
    """

    def __init__(self, settings: Settings, *, simulated: bool = False) -> None:
        """`simulated` is True where a local server lets another model answer under this name.

        Raises SpecError for unreadable certificates and for an invalid proxy.
        """
        self.identity = settings.identity
        self.server = settings.server
        self.simulated = simulated
        self.model = settings.model
        self.system = settings.system or ""
        self._settings = settings
        self._where = settings.address.origin
        self._client = TRANSPORTS[settings.transport](
            settings.address,
            settings.headers,
            max_body=longest_body(settings.max_reply_bytes, stream=settings.stream),
            verify=settings.verify,
            ca_file=settings.ca_file,
            client=settings.client,
        )
        self._headers: Mapping[str, str] = {}

    @property
    def reported_limits(self) -> ReportedLimits | None:
        """Rate limits in the headers of the last response; None if there were none."""
        return read_headers(self._headers)

    async def generate(self, request: Request) -> Reply:
        if CHOICES in request.parameters:
            return await score_choices(self, request)
        path, body = request_body(self._settings, request)
        choices = self._settings.extra_body.get("n", request.parameters.get("n"))
        stream = _open_stream(self._settings, request, choices)
        response = await self._client.post(path, body, stream)
        self._headers = response.headers
        if not 200 <= response.status < 300:
            return self._handle_error(response, request)
        where = self._where
        is_stream = is_event_stream(response.status, response.headers)
        answer = stream.answer(where) if stream and is_stream else _decode(response, where)
        # Even with choices: what a stream has delivered until then is half an answer.
        if answer.get("error"):
            return self._handle_error(replace(response, status=status_within(answer)), request, answer)
        first = stream.first_token_at - response.sent_at if stream and stream.first_token_at else None
        reply = parse_reply(answer, seconds=response.seconds, first_token_s=first, where=where)
        check_choices(reply, choices, where)
        return reply

    async def score_prompt(self, text: str) -> Sequence[float]:
        """Return the log-probability of each token but the first, by completions with `echo`, as vLLM and SGLang have it.

        Raises BackendError for a server that returns none.
        """
        path, body = echo_body(self._settings, text)
        response = await self._client.post(path, body, None)
        if not 200 <= response.status < 300:
            raise BackendError(f"{self._where} cannot score a prompt: it responded with status {response.status}")
        return parse_echo(_decode(response, self._where), self._where)

    async def close(self) -> None:
        """Close the connections of the running loop."""
        await self._client.close()

    def _handle_error(self, response: Response, request: Request, body: Mapping[str, Any] | None = None) -> Reply:
        settings = self._settings
        sent = {
            *request.parameters,
            *settings.extra_body,
            *(("stream", "stream_options") if is_streamed(settings, request) else ()),
        }
        outcome = reply_or_error(response, settings, sent, body)
        if isinstance(outcome, Reply):
            return outcome
        raise outcome


def open_openai(adapter: Adapter, root: Path) -> OpenAIBackend:
    """Open the backend of an adapter. Raises SpecError for invalid settings and parameters."""
    settings = read_settings(adapter, root)
    try:
        check_parameters(adapter.parameters)
    except ValueError as error:
        raise SpecError(f"adapter {adapter.name!r} has invalid parameters: {error}") from None
    return OpenAIBackend(settings, simulated=is_stand_in(settings))


def _open_stream(settings: Settings, request: Request, choices: Any) -> Stream | None:
    if not is_streamed(settings, request):
        return None
    receive = request.open_stream() if request.open_stream else None
    # Bound here: the pieces arrive outside of the sample's own context.
    begin = contextvars.copy_context()
    choices = choices if isinstance(choices, int) else 1
    return Stream(settings.max_reply_bytes, choices, receive, lambda: begin.run(note_answer))


def _decode(response: Response, where: str) -> dict[str, Any]:
    # httptools does not decompress, and replies are small: asking for identity is cheaper.
    if (encoding := response.headers.get("content-encoding", "identity")) != "identity":
        raise Retryable(f"{where} responded with content-encoding {encoding!r}; expected none", kind="garbage")
    try:
        answer = json.loads(response.body)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        return answer
    raise Retryable(f"{where} did not respond with a JSON object", kind="garbage")
