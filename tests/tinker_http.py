"""A client of the local Tinker server that speaks plain HTTP, and the bodies that it sends."""

from __future__ import annotations

import contextlib
import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from pytest_crucible.local_model.config import Shape
from pytest_crucible.local_model.server import protobuf
from pytest_crucible.local_model.server.process import LocalServer
from pytest_crucible.local_model.server.protobuf import write_tensor

WAIT_S = 60
PROTOBUF = "application/x-protobuf"
SHAPE = Shape(vocabulary=280, width=64, layers=2, heads=2, mlp=128, context=128)
"""Of the small random model that the tests' servers have."""

Body = dict[str, Any]


class Http:
    """A client that speaks plain HTTP; `call` gives status and JSON."""

    def __init__(self, server: LocalServer, **headers: str) -> None:
        self.address = urlsplit(server.url)
        self.headers = {"x-api-key": server.key, "content-type": "application/json", **headers}

    def raw(self, method: str, path: str, body: bytes | None = None) -> tuple[int, str, bytes]:
        connection = http.client.HTTPConnection(str(self.address.hostname), self.address.port, timeout=WAIT_S)
        with contextlib.closing(connection):
            connection.request(method, path, body, self.headers)
            response = connection.getresponse()
            return response.status, response.headers["content-type"], response.read()

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Body]:
        status, kind, content = self.raw(method, path, None if body is None else json.dumps(body).encode())
        assert kind == "application/json", f"{method} {path} answered {kind}"
        return status, json.loads(content)

    def post(self, path: str, /, **body: object) -> Body:
        status, answer = self.call("POST", f"/api/v1{path}", body)
        assert status == 200, answer
        return answer

    def get(self, path: str) -> Body:
        status, answer = self.call("GET", f"/api/v1{path}")
        assert status == 200, answer
        return answer

    def refusal(self, path: str, /, **body: object) -> tuple[int, str]:
        status, answer = self.call("POST", f"/api/v1{path}", body)
        return status, answer["detail"]

    def result(self, request_id: str) -> Body:
        return self.post("/retrieve_future", request_id=request_id, allow_metadata_only=True)

    def protobuf(self, request_id: str) -> protobuf.Fields:
        body = json.dumps({"request_id": request_id}).encode()
        status, kind, content = self.raw("POST", "/api/v1/retrieve_future", body)
        assert (status, kind) == (200, PROTOBUF), content
        return protobuf.read_fields(content)


class OpenAI(Http):
    def complete(self, path: str = "completions", **body: object) -> tuple[int, Body]:
        return self.call("POST", f"/oai/api/v1/{path}", {"model": "crucible/tiny", "max_tokens": 4, "seed": 1, **body})

    def stream(self, path: str = "completions", **body: object) -> list[Body]:
        """The events of a stream, without the last one."""
        request = {"model": "crucible/tiny", "max_tokens": 4, "seed": 1, "stream": True, **body}
        _, _, content = self.raw("POST", f"/oai/api/v1/{path}", json.dumps(request).encode())
        events = [line.removeprefix("data: ") for line in content.decode().splitlines() if line]
        assert events.pop() == "[DONE]"
        return [json.loads(event) for event in events]


def forward_backward_message(
    model: str, seq_id: int, loss: str = "cross_entropy", **inputs: np.ndarray | None
) -> bytes:
    tokens = np.arange(60, 66)
    options = {"target_tokens": tokens + 1, "weights": np.ones(6, np.float32), **inputs}
    arrays = {name: values for name, values in options.items() if values is not None}
    chunk = protobuf.data(1, protobuf.data(1, protobuf.data(1, tokens.astype("<i4").tobytes())))
    entries = [
        protobuf.data(2, protobuf.text(1, name) + protobuf.data(2, write_tensor(array)))
        for name, array in arrays.items()
    ]
    datum = protobuf.data(3, chunk + b"".join(entries))
    return protobuf.text(1, model) + protobuf.integer(2, seq_id) + datum + protobuf.text(4, loss)


def forward_backward(server: LocalServer, message: bytes, kind: str = PROTOBUF) -> tuple[int, Body]:
    status, _, content = Http(server, **{"content-type": kind}).raw("POST", "/api/v1/forward_backward", message)
    return status, json.loads(content)


def save(http_client: Http, model: str, seq_id: int, endpoint: str = "/save_weights", /, **body: object) -> Body:
    return http_client.result(http_client.post(endpoint, model_id=model, seq_id=seq_id, **body)["request_id"])


def ask(http_client: Http, seq_id: int, sampler: str, **changes: Any) -> Body:
    request: Body = {
        "num_samples": 1,
        "prompt": {"chunks": [{"tokens": [70, 71, 72], "type": "encoded_text"}]},
        "sampling_params": {"max_tokens": 5, "stop": [], **changes.pop("params", {})},
        "sampling_session_id": sampler,
        "seq_id": seq_id,
        **changes,
    }
    return http_client.post("/asample", **request)


def sampled_tokens(response: protobuf.Fields) -> list[list[int]]:
    sequences = map(protobuf.read_fields, protobuf.all_bytes(response, 1))
    return [np.frombuffer(protobuf.last_bytes(sequence, 2), "<i4").tolist() for sequence in sequences]
