"""The handle of tests and benchmarks: the server's process, and its control endpoint."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

WAIT_S = 60
CERTIFICATE = Path(__file__).parent / "localhost.pem"
"""Key and certificate of localhost and 127.0.0.1, for these tests alone."""


@dataclass(frozen=True)
class OpenAIServer:
    """A running server."""

    url: str
    """The base URL, which ends in /v1."""
    process: subprocess.Popen[bytes]

    @staticmethod
    @contextlib.contextmanager
    def start(*, port: int = 0, tls: bool = False, **behaviour: Any) -> Iterator[OpenAIServer]:
        """Start it on 127.0.0.1, on a free port unless one is given, over TLS with `CERTIFICATE` if wanted; stop it at the end."""
        command = [sys.executable, "-S", "-m", __package__.split(".")[-1], "--port", str(port)]
        command += ["--behaviour", json.dumps(behaviour)]
        command += ["--certificate", str(CERTIFICATE)] if tls else []
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "PYTHONWARNINGS": ""}
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                port = int(process.stdout.readline())
                yield OpenAIServer(f"http{'s' if tls else ''}://127.0.0.1:{port}/v1", process)
            finally:
                process.kill()

    def behave(self, model: str | None = None, **behaviour: Any) -> None:
        """Set how a model answers from now on; without a name, all models without a behaviour of their own."""
        self._control("POST", {**({"model": model} if model else {}), **behaviour})

    def counts(self) -> dict[str, Any]:
        """Return the counts of requests: the fields of `counts.Counts`."""
        counts: dict[str, Any] = self._control("GET")
        return counts

    def requests(self) -> list[dict[str, Any]]:
        """The last requests, oldest first: `path`, `headers` (names in small letters) and `body`."""
        requests: list[dict[str, Any]] = self._control("GET", path="/control/requests")
        return requests

    def reset(self) -> None:
        """Forget all that was counted, and how models behave; the default stays."""
        self._control("DELETE")

    def _control(self, method: str, body: object = None, path: str = "/control") -> Any:
        import http.client
        import ssl

        address = urlsplit(self.url)
        if address.scheme == "https":
            trusting = ssl._create_unverified_context()
            connection = http.client.HTTPSConnection("127.0.0.1", address.port, timeout=WAIT_S, context=trusting)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=WAIT_S)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            answer = json.loads(response.read())
        if response.status != 200:
            raise ValueError(answer["error"]["message"])
        return answer
