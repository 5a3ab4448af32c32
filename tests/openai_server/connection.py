"""One connection: requests in, answers out, one at a time, and what goes wrong on purpose."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import Any

from . import answers
from .behaviour import Behaviour, Fate, fate, vary
from .service import Service, failure, when

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}
PATHS = ("/v1/chat/completions", "/v1/completions")
PIECES = 20
"""Of a slow body."""


class Connection(asyncio.Protocol):
    """Reads one request after another; what comes while one is answered waits."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._buffer = b""
        self._exchange: Exchange | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.service.counts.connections += 1
        self.service.counts.open_connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.service.counts.open_connections -= 1
        if self._exchange is not None:
            self._exchange.hung_up()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._buffer[:1].isalpha():  # TLS, where none is spoken
            self.transport.write(_head(400, 0))
            self.transport.close()
            return
        self._read()

    def ready(self) -> None:
        """The answer is out: go on."""
        self._exchange = None
        if self._buffer:
            self._read()

    def answer(self, status: int, answer: Any, headers: dict[str, str] | None = None) -> None:
        content = answers.encode(answer)
        self.transport.write(_head(status, len(content), headers) + content)

    def _read(self) -> None:
        while self._exchange is None and (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].decode("latin-1")
            line, *rest = head.split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
            last = end + 4 + int(headers.get("content-length", 0))
            if len(self._buffer) < last:
                return
            body, self._buffer = self._buffer[end + 4 : last], self._buffer[last:]
            method, target, _ = line.split(" ", 2)
            path = target if target[0] == "/" else f"/{target.split('/', 3)[3]}"  # through a proxy it is a whole URL
            self._take(method, path, headers, body)

    def _take(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        if path.startswith("/control"):
            return self.answer(*self.service.control(method, path, body))
        if path == "/v1/models":
            return self.answer(200, answers.models(["m"]))
        if method != "POST" or path.partition("?")[0] not in PATHS:
            return self.answer(404, answers.error(f"there is no {method} {path}", kind="invalid_request_error"))
        try:
            request = json.loads(body.decode())
            behaviour = self.service.behaviour(str(request.get("model")), headers.get("x-behaviour", ""))
        except ValueError as error:
            return self.answer(400, answers.error(str(error), kind="invalid_request_error"))
        self.service.counts.last.append((path, headers, request))
        self._exchange = Exchange(self, behaviour, request, body)
        return self._exchange.begin(headers)


class Exchange:
    """One request that is being answered."""

    __slots__ = (
        "_asked",
        "_behaviour",
        "_body",
        "_connection",
        "_fate",
        "_left",
        "_over",
        "_queue",
        "_ready",
        "_service",
        "_slot",
        "_timer",
    )

    def __init__(self, connection: Connection, behaviour: Behaviour, request: dict[str, Any], body: bytes) -> None:
        self._connection, self._service = connection, connection.service
        self._behaviour, self._asked, self._body = behaviour, request, body
        self._timer: asyncio.TimerHandle | None = None
        self._queue = self._service.queues[str(request.get("model"))]
        self._slot = self._over = False
        self._fate = Fate(0.0)
        self._left: list[bytes] = []
        self._ready = b""

    def begin(self, headers: dict[str, str]) -> None:
        attempt = self._service.counts.come(self._body, str(self._asked.get("model")))
        refused = self._service.refusal(self._behaviour, self._asked, headers)
        if refused is not None:
            return self._answer(*refused)
        self._fate = fate(self._behaviour, self._body, attempt)
        if self._behaviour.varies:
            text, concurrent = answers.text_of(self._behaviour, self._asked), self._service.counts.concurrent
            self._behaviour = vary(self._behaviour, self._asked, text, attempt, concurrent)
        if self._behaviour.slots and self._queue.occupied >= self._behaviour.slots:
            return self._queue.waiting.append(self)
        return self.work()

    def work(self) -> None:
        """A slot is free: compute, that is, wait."""
        self._queue.occupied += 1
        self._slot = True
        if self._fate.fault == "hang":
            self._service.counts.faults["hang"] += 1
            return
        due = self._service.now() + self._fate.delay_s
        if not self._fate.fault and not self._asked.get("stream"):
            self._ready = self._whole()  # made while the client waits, so that at its time it is only sent
        self._timer = self._service.loop.call_at(due, self._service.let_finish, self)

    def hung_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self in self._queue.waiting:
            self._queue.waiting.remove(self)
        if not self._over:
            self._over = True
            self._service.counts.hung_up()
            self._leave()

    def _whole(self) -> bytes:
        content = answers.encode(answers.whole(self._behaviour, self._asked))
        return _head(200, len(content), self._service.limits(self._behaviour, self._asked)) + content

    def finish(self) -> None:
        """It is time to answer."""
        if self._over:
            return None
        if self._ready:
            return self._send(200, self._ready)
        kind, service = self._fate.fault, self._service
        limits = service.limits(self._behaviour, self._asked)
        if kind.isdigit():
            status = int(kind)
            more = when(self._behaviour) if status in (429, 503) else {}
            return self._answer(status, failure(self._behaviour, status), limits | more)
        if kind in ("reset", "close"):
            return self._cut(reset=kind == "reset")
        if self._asked.get("stream") and kind in ("", "half", "stall", "slow"):
            return self._stream(limits)
        answer = answers.whole(self._behaviour, self._asked)
        if kind in ("half", "stall", "slow"):
            content = answers.encode(answer)
            size = -(-len(content) // PIECES)
            pieces = [content[place : place + size] for place in range(0, len(content), size)]
            return self._start(_head(200, len(content), limits), pieces)
        if kind == "error_200":
            answer = failure(self._behaviour, 500)
        elif kind == "no_choices":
            answer["choices"] = []
        elif kind == "garbage":
            return self._send(200, _head(200, 14, limits) + b'<html>{"choice')
        return self._answer(200, answer, limits)

    def _answer(self, status: int, answer: Any, headers: dict[str, str] | None = None) -> None:
        content = answers.encode(answer)
        self._send(status, _head(status, len(content), headers) + content)

    def _send(self, status: int, content: bytes) -> None:
        self._connection.transport.write(content)
        self._finish(status)

    def _finish(self, status: int) -> None:
        self._over = True
        self._service.counts.count_done(self._body, status, self._fate.fault)
        self._leave()
        self._connection.ready()

    def _cut(self, *, reset: bool) -> None:
        transport = self._connection.transport
        self._over = True
        self._service.counts.count_failure(self._fate.fault)
        self._leave()
        if reset:
            linger = struct.pack("ii", 1, 0)  # no goodbye: the kernel sends a reset
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            transport.abort()
        else:
            transport.close()

    def _stream(self, headers: dict[str, str]) -> None:
        events = [f"data: {json.dumps(piece)}\n\n" for piece in answers.pieces(self._behaviour, self._asked)]
        chunks = [f"{len(event.encode()):x}\r\n{event}\r\n".encode() for event in [*events, "data: [DONE]\n\n"]]
        chunks[-1] += b"0\r\n\r\n"
        self._start(_head(200, None, headers), chunks, self._behaviour.first_token_s)

    def _start(self, head: bytes, pieces: list[bytes], wait_s: float = 0.0) -> None:
        """An answer in pieces: all of them, or half of them and then the end, or nothing more."""
        self._connection.transport.write(head)
        if self._fate.fault in ("half", "stall"):
            pieces = pieces[: len(pieces) // 2]
        self._left = pieces[::-1]
        self._later(wait_s, self._next)

    def _next(self) -> None:
        """The next piece, and later the one after it."""
        while self._left:
            self._connection.transport.write(self._left.pop())
            if self._behaviour.chunk_s and self._left:
                return self._later(self._behaviour.chunk_s, self._next)
        if self._fate.fault == "stall":
            self._service.counts.faults["stall"] += 1
            return None
        return self._cut(reset=False) if self._fate.fault == "half" else self._finish(200)

    def _later(self, delay_s: float, then: Any) -> None:
        self._timer = self._service.loop.call_later(delay_s, then)

    def _leave(self) -> None:
        """Give the slot to who waits."""
        if self._slot:
            self._slot = False
            self._queue.occupied -= 1
            if self._queue.waiting:
                self._queue.waiting.popleft().work()


def _head(status: int, length: int | None, headers: dict[str, str] | None = None) -> bytes:
    kind = "text/event-stream" if length is None else "application/json"
    size = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    more = "".join([f"{name}: {value}\r\n" for name, value in headers.items()]) if headers else ""
    return f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}\r\ncontent-type: {kind}\r\n{size}\r\n{more}\r\n".encode()
