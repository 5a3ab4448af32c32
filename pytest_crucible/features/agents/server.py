"""The server of the endpoint: on the loopback interface and the sampling loop, one for all samples of a session.

A request's path begins with the token of one unit, which is valid while the unit's function runs: `/TOKEN/v1/chat/completions`.
"""

from __future__ import annotations

import asyncio
import contextvars
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from dataclasses import field, replace
from http import HTTPStatus
from typing import Any

from pytest_crucible.features.agents.dialects import CHAT, MESSAGES, RESPONSES
from pytest_crucible.features.agents.dialects.dialect import ClientRequest, Dialect
from pytest_crucible.features.agents.embeddings import estimate_tokens, read_texts, write_vectors
from pytest_crucible.features.agents.unit_calls import Ended, UnitCalls
from pytest_crucible.local_model.server.transport import LOOPBACK, Limits, Refusal, Request, Response, Server, listen
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply
from pytest_crucible.records.errors import BackendError
from pytest_crucible.sample.loop import BackgroundLoop
from pytest_crucible.sample.sampler import ReplyStream, Sampler

PATHS: Mapping[str, Dialect] = {"/v1/chat/completions": CHAT, "/v1/responses": RESPONSES, "/v1/messages": MESSAGES}
SERVED = "this endpoint serves chat completions, responses, messages, embeddings, models"
# The status after which none of the clients sends a request again: some do so ten times after 403, 429 or 500.
FINAL = HTTPStatus.UNAUTHORIZED
_NEVER_AGAIN = "x-should-retry: false\r\n"
# An agent may think for hours between two calls.
_LIMITS = Limits(idle_s=86_400.0, connections=10_000)


@dataclass(frozen=True, eq=False)
class Seat:
    """The place that a client's requests go to: a unit, and its arm or a role in it."""

    calls: UnitCalls
    sampler: Sampler
    model: str
    """The name under which the arm is listed: one for each arm, because clients keep replies by the name of a model."""
    role: str = ""

    def begin(self, path: str, model: str) -> dict[str, Any]:
        """Count a call, and return what is stored of it beside the conversation. Raises Ended, and Refused for a recorded arm."""
        number = self.calls.begin(self.sampler.arm, self.role)
        return {"number": number, "path": path, "model": model, "role": self.role}


@dataclass(eq=False)
class EndpointServer:
    """Answers the requests of all units that run."""

    seats: dict[str, Seat] = field(default_factory=dict)
    """By token."""
    _is_closed: bool = False
    late: int = 0
    """The number of requests for a unit that had ended, or never was."""
    left_out: set[str] = field(default_factory=set)
    """Types of tools that clients offered and arms did not get."""

    def open(self, loop: BackgroundLoop) -> None:
        """Listen from now on; requests are answered as soon as the loop runs. Raises OSError."""
        self._listening = listen()
        self.url = f"http://{LOOPBACK}:{self._listening.getsockname()[1]}"
        self._server = Server(self._answer, _refuse, _LIMITS, context_of=self._context_of)
        self.loop = loop.loop
        loop.submit(self._server.serve(self._listening))
        loop.on_close.append(self.close)

    def add(self, seat: Seat) -> str:
        """Return the token of requests to a seat, until its unit ends."""
        token = secrets.token_urlsafe(18)
        self.seats[token] = seat
        seat.calls.tokens.append(token)
        return token

    async def close(self) -> None:
        """Accept no more requests, and close all connections. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            await self._server.close()

    def interrupt(self) -> None:
        """Close from another thread, while the loop is blocked: the client that waits for it gets an error, and frees it."""
        self._listening.shutdown(socket.SHUT_RDWR)
        asyncio.run_coroutine_threadsafe(self.close(), self.loop)

    def _context_of(self, request: Request) -> contextvars.Context | None:
        """Return the context of the unit that a request belongs to: its deadline, and the reply that is recorded."""
        seat = self.seats.get(request.path[1:].partition("/")[0])
        return None if seat is None else seat.calls.context()

    async def _answer(self, request: Request) -> Response:
        token, _, rest = request.path.removeprefix("/").partition("/")
        path, seat = f"/{rest}", self.seats.get(token)
        dialect = PATHS.get(path, CHAT)
        try:
            if seat is None:
                self.late += 1
                raise Refusal("this address belongs to a sample that has ended, or to none", FINAL)
            if request.method == "GET" and path.startswith("/v1/models"):
                return Response.of_json(_list_models(seat.model))
            if request.method == "POST" and path == "/v1/messages/count_tokens":
                return Response.of_json(estimate_tokens(request.object()))
            if request.method == "POST" and path == "/v1/embeddings":
                return await _embed(seat, path, request.object())
            if request.method != "POST" or path not in PATHS:
                raise Refusal(f"{request.method} {path}: not served here; {SERVED}", HTTPStatus.NOT_FOUND)
            call = _read_call(seat, path, request.object())
            self.left_out.update(call.request.left_out)
            return await call.answer()
        except Refusal as refusal:
            return _error(dialect, refusal.sentence, refusal.status, refusal.code)
        except Ended as error:
            return _error(dialect, str(error), FINAL)
        except BackendError as error:
            return _error(dialect, f"no reply: {error}", FINAL)


def _refuse(refusal: Refusal) -> Response:
    return _error(CHAT, refusal.sentence, refusal.status, refusal.code)


def _error(dialect: Dialect, sentence: str, status: HTTPStatus, code: str | None = None) -> Response:
    body = dialect.error(sentence, status.value, code)
    return replace(Response.of_json(body, status), headers=_NEVER_AGAIN)


def _list_models(name: str) -> dict[str, Any]:
    model = {"id": name, "object": "model", "created": 0, "owned_by": "pytest-crucible", "type": "model"}
    return {"object": "list", "data": [{**model, "display_name": name}], "has_more": False}


async def _embed(seat: Seat, path: str, body: Mapping[str, Any]) -> Response:
    """Return the vectors of a client's texts. Raises Refusal, Ended and BackendError."""
    texts, parameters = read_texts(body, seat.sampler.backend, seat.sampler.arm.name)
    facts = seat.begin(path, str(body.get("model", "")))
    reply = await _reply(seat.calls, lambda: seat.sampler.generate(texts, **parameters), facts)
    return Response.of_json(write_vectors(body, reply))


@dataclass(frozen=True, eq=False)
class _Call:
    """One request of a client, on its way to the arm and back."""

    seat: Seat
    dialect: Dialect
    path: str
    request: ClientRequest
    body: Mapping[str, Any]
    answer_id: str = field(default_factory=lambda: secrets.token_hex(16))
    """Unique also for a reply from the cache: clients replace a message by another one with its id."""
    created: int = field(default_factory=lambda: int(time.time()))

    async def answer(self) -> Response:
        """Return the reply in the client's form. Raises Ended and BackendError."""
        calls, facts = self.seat.calls, self.seat.begin(self.path, self.request.model)
        if self.request.stream:
            stream = self.seat.sampler.stream(self.request.messages, **self.request.parameters)
            pieces = _Pieces(stream)
            calls.start(calls.send(pieces.pump, facts))
            return await self._stream(pieces)
        generate = self.seat.sampler.generate
        reply = await _reply(calls, lambda: generate(self.request.messages, **self.request.parameters), facts)
        return Response.of_json(self._write(reply))

    async def _stream(self, pieces: _Pieces) -> Response:
        """Return a response that comes in pieces. Raises what the request raises before the first of them."""
        first = await pieces.next()
        return Response(body=b"", kind="text/event-stream", events=self._write_events(first, pieces))

    def _write(self, reply: Reply) -> dict[str, Any]:
        """Return the reply in the client's form, and keep it where a later request may name it."""
        answer = self.dialect.answer(self.request, reply, self.answer_id, self.created)
        if self.dialect is RESPONSES:
            self.seat.calls.responses.keep(self.body, answer)
        return answer

    async def _write_events(self, item: str | Reply, pieces: _Pieces) -> AsyncGenerator[bytes, None]:
        writer = self.dialect.stream(self.request, self.answer_id, self.created)
        try:
            yield writer.begin()
            while isinstance(item, str):
                yield writer.piece(item)
                item = await pieces.next()
            self._write(item)
            yield writer.end(item)
        except (BackendError, Ended) as error:
            yield writer.fail(str(error))
        finally:
            pieces.close()


def _read_call(seat: Seat, path: str, body: Mapping[str, Any]) -> _Call:
    """Return a client's call. Raises Refusal."""
    dialect = PATHS[path]
    if dialect is RESPONSES:
        body = seat.calls.responses.complete(body)
    return _Call(seat, dialect, path, dialect.read(body), body)


async def _reply(calls: UnitCalls, generate: Callable[[], Coroutine[Any, Any, Reply]], facts: dict[str, Any]) -> Reply:
    """Await a request's reply; a client that leaves cancels it. Raises BackendError, and Ended if the unit ends first."""
    try:
        return await calls.send(generate, facts)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or not calls.is_closed:
            raise
        task.uncancel()
        raise Ended("the sample has ended") from None


class _Pieces:
    """The pieces of a streamed reply, from the context of the function to that of the connection."""

    def __init__(self, stream: ReplyStream) -> None:
        self._stream = stream
        self._queue: asyncio.Queue[str | Reply | BaseException] = asyncio.Queue()

    async def pump(self) -> Reply:
        """Read the stream to its end, and return the reply. Raises what the request raises."""
        try:
            async for piece in self._stream:
                self._queue.put_nowait(piece)
            reply = self._stream.reply
        except BaseException as error:
            self._queue.put_nowait(error)
            raise
        self._queue.put_nowait(reply)
        return reply

    async def next(self) -> str | Reply:
        """Return the next piece, and at the end the reply. Raises Ended and BackendError."""
        item = await self._queue.get()
        if isinstance(item, BackendError):
            raise item
        if isinstance(item, BaseException):
            raise Ended(f"the sample has ended: {item}") from None
        return item

    def close(self) -> None:
        """Cancel the request, if it is in flight."""
        self._stream.close()
