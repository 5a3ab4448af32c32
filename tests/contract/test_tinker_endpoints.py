"""docs/reference/tinker-server.md is true: every endpoint is in its table, and answers what stands there."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from tinker_http import PROTOBUF, Body, Http, OpenAI, ask, forward_backward_message, save

from pytest_crucible.commands.tinker import server as server_command
from pytest_crucible.local_model.losses import LOSSES
from pytest_crucible.local_model.server.application import CLIENT_CONFIG, ENDPOINTS
from pytest_crucible.local_model.server.futures import Capacity
from pytest_crucible.local_model.server.state import FETCH_S
from pytest_crucible.local_model.server.transport import Limits

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "tinker-server.md").read_text(encoding="utf-8")
ROOTS = {
    "Tinker's endpoints": "/api/v1",
    "Endpoints in OpenAI's format": "/oai/api/v1",
    "Endpoints that are missing": "/api/v1",
}
_CODE = re.compile(r"`([^`]+)`")


def table(heading: str) -> list[list[str]]:
    """Cells of the first table below a heading, row by row, without its head."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def endpoint(cell: str, heading: str) -> str:
    """The server's name of a route: `POST /api/v1/asample`."""
    method, path = cell.strip("`").split(" ")
    return f"{method} {ROOTS[heading]}{path}"


def names(cell: str) -> set[str]:
    return set(_CODE.findall(cell))


ROWS = {
    endpoint(row[0], heading): row
    for heading in ("Tinker's endpoints", "Endpoints in OpenAI's format")
    for row in table(heading)
}
MISSING = [endpoint(row[0], "Endpoints that are missing") for row in table("Endpoints that are missing")]


@dataclass
class Scene:
    """A session with a model, a sampler, and checkpoints."""

    http: Http
    protobuf: Http
    session: str
    model: str
    sampler: str

    def path(self, route: str) -> str:
        """A route with what is there in its gaps."""
        gaps = {"run": self.model, "session": self.session, "sampler": self.sampler}
        gaps |= {"kind": "weights", "name": "ck1", "model": "crucible/tiny"}
        return re.sub(r"\{\*?(\w+)\}", lambda gap: quote(gaps[gap[1]], safe=""), route)


@pytest.fixture
def scene(server, http_client, session, model, sampler) -> Scene:
    save(http_client, model, 1, path="ck1")
    save(http_client, model, 2, "/save_weights_external", path="ck1")
    return Scene(http_client, Http(server, **{"content-type": PROTOBUF}), session, model, sampler)


def body_of(route: str, scene: Scene) -> Body:
    """Return the body of a request to the endpoint."""
    training = {"model_id": scene.model, "seq_id": 9}
    path = f"tinker://{scene.model}/weights/ck1"
    prompt = {"prompt": "a", "model": "crucible/tiny", "max_tokens": 1}
    bodies: dict[str, Body] = {
        "/session_heartbeat": {"session_id": scene.session},
        "/sessions/{session}/finish": {"reason": {"type": "success"}},
        "/sessions/{session}/project": {"project_id": "p"},
        "/create_model": {"session_id": scene.session, "model_seq_id": 5, "base_model": "crucible/tiny"},
        "/get_info": {"model_id": scene.model},
        "/unload_model": {"model_id": scene.model},
        "/save_weights": training,
        "/save_weights_external": {**training, "path": "files"},
        "/save_weights_for_sampler": {**training, "path": "named"},
        "/load_weights": {**training, "path": path},
        "/weights_info": {"tinker_path": path},
        "/create_sampling_session": {
            "session_id": scene.session,
            "sampling_session_seq_id": 5,
            "base_model": "crucible/tiny",
        },
        "/join_sampling_session": {"sampling_session_id": scene.sampler},
        "/retrieve_futures": {"target": {"sampling_session_id": scene.sampler}, "timeout": 0},
        "/cancel_future": {"request_id": "none"},
        "/training_runs/{run}/checkpoints/{kind}/{name}/ttl": {"ttl_seconds": None},
        "/completions": prompt,
        "/responses": {"input": "a", "model": "crucible/tiny", "max_output_tokens": 2},
        "/embeddings": {"input": "a", "model": "crucible/tiny"},
        "/chat/completions": {**prompt, "messages": [{"role": "user", "content": "a"}]},
    }
    return bodies.get(route, {})


def call_route(name: str, scene: Scene) -> tuple[int, Any]:
    method, route = name.split(" ")
    if route == "/api/v1/forward_backward":
        message = forward_backward_message(scene.model, 9)
        status, _, content = scene.protobuf.raw("POST", route, message)
        return status, json.loads(content)
    if route == "/api/v1/optim_step":
        scene.protobuf.raw("POST", "/api/v1/forward_backward", forward_backward_message(scene.model, 9))
        return scene.http.call("POST", route, {"model_id": scene.model, "seq_id": 10, "adam_params": {}})
    if route == "/api/v1/asample":
        return 200, ask(scene.http, 0, scene.sampler)
    if route == "/api/v1/retrieve_future":
        done = scene.http.post("/save_weights", model_id=scene.model, seq_id=9)
        return scene.http.call("POST", route, {"request_id": done["request_id"]})
    if route.startswith("/api/v1/downloads/"):
        urls = scene.http.get(
            f"/training_runs/{quote(scene.model)}/checkpoints/external_weights/ck1/external_weights_urls"
        )
        status, kind, _ = scene.http.raw("GET", urlsplit(urls["urls"]["adapter_model.safetensors"]).path)
        return status, kind
    bare = re.sub("^(/oai)?/api/v1", "", route)
    return scene.http.call(method, scene.path(route), None if method == "GET" else body_of(bare, scene))


def test_the_table_has_every_endpoint_and_no_other():
    assert set(ROWS) == set(ENDPOINTS)


@pytest.mark.parametrize("name", ROWS)
def test_an_endpoint_answers_what_the_table_says(name, scene):
    status, answer = call_route(name, scene)
    named, _, result = ROWS[name][1].partition(" -> ")

    assert status == 200, answer
    if named == "the file":
        assert answer == "application/octet-stream"
    elif named == "the result":
        assert answer == {"type": "save_weights", "path": answer["path"]}
    else:
        assert set(answer) == (set() if named == "nothing" else names(named))
    if not result:
        return
    body = json.dumps({"request_id": answer["request_id"]}).encode()
    status, kind, content = scene.http.raw("POST", "/api/v1/retrieve_future", body)
    assert (status, kind) == (200, PROTOBUF if result == "protobuf" else "application/json"), content
    if kind != PROTOBUF:
        assert set(json.loads(content)) == names(result)


@pytest.mark.parametrize("name", MISSING)
def test_an_unknown_endpoint_is_404_with_a_sentence(name, scene):
    method, route = name.split(" ")
    path = scene.path(route)

    assert name not in ENDPOINTS
    status, answer = scene.http.call(method, path, None if method == "GET" else {})
    assert (status, answer["detail"].partition(":")[0]) == (404, f"this local Tinker server has no {method} {path}")
    assert "reference/tinker-server of the documentation lists what to use instead" in answer["detail"]


def test_sampler_weights_without_a_name_are_a_sampler(scene):
    result = save(scene.http, scene.model, 9, "/save_weights_for_sampler", sampling_session_seq_id=7)

    assert set(result) == names(ROWS["POST /api/v1/save_weights_for_sampler"][2]) - {"path", "kind", "snapshot"}


def test_the_options_are_those_of_the_command():
    options = {param.opts[0]: param for param in server_command.params}

    section = PAGE.split("# The local Tinker server", 1)[1].split("\n## ", 1)[0]
    values = dict(re.findall(r"^\| `(--[\w-]+)` \| ([^|]+) \|", section, re.MULTILINE))
    assert set(values) == set(options)
    assert values["--directory"] == f"`{options['--directory'].default}`"


def test_the_table_lists_every_loss():
    rows = {next(iter(names(row[0]))): row for row in table("Losses")}

    assert set(rows) == set(LOSSES)
    for name, loss in LOSSES.items():
        assert names(rows[name][1]) == set(loss.needs)
        settings = dict(re.findall(r"`(\w+)` ([\d.]+)", rows[name][2]))
        assert {key: float(value) for key, value in settings.items()} == dict(loss.defaults)
        assert names(rows[name][2]) == {*loss.defaults, *loss.required}


# The table of errors


def test_numbers_in_the_text_are_the_servers_own():
    assert f"waits for {FETCH_S:g} s, then 408" in PAGE
    assert f"larger than {Limits().body_bytes // 2**20} MiB" in PAGE
    assert f"more than {Capacity().unfinished:,} requests wait |" in PAGE
    assert f"Beyond {Limits().connections:,} connections" in PAGE
    assert set(CLIENT_CONFIG) == names(ROWS["POST /api/v1/client/config"][1])


def test_errors_have_the_statuses_of_the_table(server, scene):
    http, finished = scene.http, scene.http.post("/create_session")["session_id"]
    http.post(f"/sessions/{finished}/finish")

    assert Http(server, **{"x-api-key": "tml-wrong"}).call("GET", "/api/v1/healthz")[0] == 401
    assert http.refusal("/get_info")[0] == 400
    assert http.refusal("/get_info", model_id="none")[0] == 404
    assert http.refusal("/session_heartbeat", session_id=finished)[0] == 410
    assert http.refusal("/retrieve_future", request_id="none")[0] == 410
    assert http.result(http.post("/optim_step", model_id=scene.model, seq_id=9, adam_params={})["request_id"]) == {
        "error": "no gradients: call forward_backward before each optim_step",
        "category": "user",
    }
    assert OpenAI(server).complete(prompt="a " * 500)[1]["error"]["code"] == "context_length_exceeded"


def test_both_ways_to_bring_the_key(server):
    bearer = Http(server, authorization=f"Bearer {server.key}")
    del bearer.headers["x-api-key"]

    assert bearer.get("/healthz") == Http(server).get("/healthz") == {"status": "ok"}
