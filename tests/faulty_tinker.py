"""A service that stands in for the hosted one: a relay before a local Tinker server, which can be told to go wrong.

with Faulty(server.url) as hosted:
hosted.fault = Fault("status", status=503, paths=("/asample",))
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Fault:
    """A fault, the requests that it hits (all of them, if no paths are named), and from which request on."""

    kind: Literal["hang", "status", "garbage", "cut", "paused"]
    status: int = 503
    paths: tuple[str, ...] = ()
    after: int = 0
    times: int = 10**9

    def hits(self, path: str) -> bool:
        return not self.paths or any(path.endswith(entry) for entry in self.paths)


class Faulty:
    """The relay. `fault` may be set at any time; `seen` counts the requests by path."""

    def __init__(self, target: str, **config: object) -> None:
        """What /client/config says is changed by `config`: settings that the hosted service may have."""
        self.target = urlsplit(target)
        self.config = config
        self.fault: Fault | None = None
        self.seen: dict[str, int] = {}
        self.hits = 0
        self.keys: set[str] = set()
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Faulty:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.cut_all()
        self._server.server_close()
        self._thread.join()

    def note(self, path: str, key: str) -> Fault | None:
        """The fault that hits this request."""
        with self._lock:
            self.seen[path] = self.seen.get(path, 0) + 1
            self.keys.add(key)
            fault = self.fault
            if fault is None or not fault.hits(path):
                return None
            self.hits += 1
            return fault if fault.after < self.hits <= fault.after + fault.times else None


class _Server(ThreadingHTTPServer):
    """Waits for its threads when it is closed, after it has cut their connections."""

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no news."""

    def cut_all(self) -> None:
        for item in tuple(self._open):
            with suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)


def _handler(owner: Faulty) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def relay(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            fault = owner.note(self.path.partition("?")[0], self.headers.get("x-api-key", ""))
            if fault is None:
                self._answer(*self._forward_request(body))
            elif fault.kind == "hang":
                owner.released.wait(60)
                self.close_connection = True
            elif fault.kind == "cut":
                self.close_connection = True
            elif fault.kind == "paused":
                time.sleep(0.1)  # the SDK asks again at once
                waiting = {"type": "try_again", "request_id": "any", "queue_state": "paused_rate_limit"}
                self._answer(408, "application/json", json.dumps(waiting).encode())
            elif fault.kind == "garbage":
                self._answer(200, "text/html", b"<html>Please log in</html>")
            else:
                self._answer(fault.status, "application/json", b'{"detail":"try later"}')

        do_GET = do_POST = do_PUT = do_DELETE = relay  # noqa: N815

        def _forward_request(self, body: bytes) -> tuple[int, str, bytes]:
            connection = http.client.HTTPConnection(str(owner.target.hostname), owner.target.port, timeout=60)
            forwarded = ("x-api-key", "content-type", "accept", "authorization")
            headers = {name: self.headers[name] for name in forwarded if self.headers[name]}
            try:
                connection.request(self.command, self.path, body, headers)
                response = connection.getresponse()
                content = response.read()
                if owner.config and self.path.endswith("/client/config"):
                    content = json.dumps(json.loads(content) | owner.config).encode()
                return response.status, response.headers["content-type"], content
            except OSError:  # what stands behind is gone
                return 502, "application/json", b'{"detail":"bad gateway"}'
            finally:
                connection.close()

        def _answer(self, status: int, kind: str, content: bytes) -> None:
            close = self.path.endswith("/client/config")
            with suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                if close:
                    self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Silent."""

    return Handler


@contextmanager
def in_time(seconds: float) -> Iterator[None]:
    """The block has to end in time."""
    started = time.monotonic()
    yield
    elapsed = time.monotonic() - started
    assert elapsed < seconds, f"it took {elapsed:.1f} s, wanted less than {seconds} s"
