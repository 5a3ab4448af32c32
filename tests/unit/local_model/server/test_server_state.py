"""Sessions, runs and samplers: who has what, and for how long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from base_model.gradients import initial_weights
from base_model.tokenizer import train_tokenizer
from pytest_crucible.local_model.config import Shape
from pytest_crucible.local_model.engine import Engine
from pytest_crucible.local_model.server.application import Application
from pytest_crucible.local_model.server.models import MAX_SAMPLERS, BaseModel, Samplers, Weights
from pytest_crucible.local_model.server.state import GONE_S, SILENT_S, Service, derive_seed
from pytest_crucible.local_model.server.transport import Request

SHAPE = Shape(vocabulary=262, width=8, layers=1, heads=2, mlp=8, context=32)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Local:
    """An application without a socket."""

    def __init__(self, engine, directory) -> None:
        self.clock = Clock()
        self.service = Service(engine, directory, self.clock)
        self.application = Application(self.service, "tml-x")

    async def call(self, method: str, path: str, /, **body: object) -> tuple[int, dict[str, object]]:
        path, _, query = path.partition("?")
        sent = Request(method, f"/api/v1{path}", query, {"x-api-key": "tml-x"}, json.dumps(body).encode())
        response = await self.application.answer(sent)
        return int(response.status), json.loads(response.body)

    async def post(self, path: str, /, **body: object) -> dict[str, object]:
        status, answer = await self.call("POST", path, **body)
        assert status == 200, answer
        return answer

    async def result(self, path: str, /, **body: object) -> dict[str, object]:
        return await self.post("/retrieve_future", request_id=(await self.post(path, **body))["request_id"])

    async def model(self) -> tuple[str, str]:
        session = (await self.post("/create_session"))["session_id"]
        body = {"session_id": session, "model_seq_id": 0, "base_model": "crucible/tiny", "lora_config": {"rank": 1}}
        return session, (await self.result("/create_model", **body))["model_id"]


@pytest.fixture(scope="module")
def engine() -> Engine:
    tokenizer = train_tokenizer(["claim of a document"], SHAPE.vocabulary)
    return Engine(tokenizer, SHAPE, initial_weights(SHAPE, seed=0), "0123456789abcdef")


@pytest_asyncio.fixture
async def local(engine, tmp_path) -> AsyncIterator[Local]:
    local = Local(engine, tmp_path)
    yield local
    local.service.stop("over")
    local.service.close()


@pytest.mark.asyncio
async def test_a_session_without_a_sign_of_life_is_finished_when_the_next_one_comes(local):
    silent, model = await local.model()
    alive, _ = await local.model()
    local.clock.now += SILENT_S - 1
    await local.post("/session_heartbeat", session_id=alive)
    local.clock.now += 2
    await local.post("/create_session")

    assert (await local.call("POST", "/session_heartbeat", session_id=silent))[0] == 410
    assert (await local.call("POST", "/session_heartbeat", session_id=alive))[0] == 200
    assert local.service.runs[model].trainer is None


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("sign_of_life", "is_waited_for"),
    [(None, False), ("/session_heartbeat", True), ("/retrieve_future", True)],
)
async def test_replies_to_a_killed_client_end_when_another_one_samples(local, sign_of_life, is_waited_for):
    session, _ = await local.model()
    reply = asyncio.get_running_loop().create_future()
    local.service.futures.add(f"{session}:sample:0:0", reply)
    local.clock.now += GONE_S - 1
    if sign_of_life:
        waiting = asyncio.create_task(
            local.call("POST", sign_of_life, session_id=session, request_id=f"{session}:sample:0:0")
        )
        await asyncio.sleep(0)
    local.clock.now += 2
    prompt = {"chunks": [{"tokens": [70], "type": "encoded_text"}]}
    await local.post("/asample", prompt=prompt, sampling_params={"max_tokens": 1}, base_model="crucible/tiny")

    assert reply.done() != is_waited_for
    if sign_of_life:
        local.service.futures.cancel_all(session)
        assert (await waiting)[0] == 200


@pytest.mark.asyncio
async def test_a_client_that_comes_back_and_falls_silent_again_is_noticed_again(local):
    session, _ = await local.model()
    for number in range(2):
        await local.post("/session_heartbeat", session_id=session)
        reply = asyncio.get_running_loop().create_future()
        local.service.futures.add(f"{session}:sample:0:{number}", reply)
        local.clock.now += GONE_S + 1
        local.service.cancel_replies_of_gone_clients()

        assert reply.done()


@pytest.mark.asyncio
async def test_finishing_takes_models_and_snapshots_and_leaves_checkpoints(local):
    session, model = await local.model()
    saved = await local.result("/save_weights", model_id=model, seq_id=1, path="kept")
    snapshot = {"model_id": model, "seq_id": 2, "sampling_session_seq_id": 0}
    opened = await local.result("/save_weights_for_sampler", **snapshot)
    await local.post(f"/sessions/{session}/finish")

    assert opened["sampling_session_id"] == f"{session}:sample:0"
    assert list(local.service.snapshots.iterdir()) == []
    assert [str(item.path) for item in local.service.archive.all()] == [saved["path"]]


@pytest.mark.asyncio
async def test_a_checkpoint_is_gone_when_its_time_is_over(local):
    session, model = await local.model()
    saved = await local.result("/save_weights_for_sampler", model_id=model, seq_id=1, path="x", ttl_seconds=3600)
    local.clock.now += 3600
    body = {"session_id": session, "sampling_session_seq_id": 0, "model_path": saved["path"]}
    session, _ = await local.model()
    status, answer = await local.call("POST", "/create_sampling_session", **{**body, "session_id": session})

    assert status == 404
    assert "expired at 1970-01-12T14:46:40+00:00" in answer["detail"]
    assert (await local.call("GET", "/checkpoints"))[1]["checkpoints"] == []


@pytest.mark.parametrize("seconds", [0, 3599, 400_000_000, "x", 3600.5])
@pytest.mark.asyncio
async def test_a_time_to_live_has_bounds(local, seconds):
    _, model = await local.model()
    body = {"model_id": model, "seq_id": 1, "path": "x", "ttl_seconds": seconds}

    assert (await local.call("POST", "/save_weights", **body))[0] == 400


@pytest.mark.asyncio
async def test_a_defect_is_a_400_which_the_sdk_does_not_repeat(local, monkeypatch, capsys):
    monkeypatch.setattr(local.service, "archive", None)
    status, answer = await local.call("GET", "/checkpoints")

    assert status == 400
    assert answer["detail"].startswith("a defect of this server: AttributeError")

    assert "Traceback" in capsys.readouterr().err


@pytest.mark.asyncio
async def test_a_defect_in_the_work_is_the_servers_failure(local, monkeypatch, capsys):
    _, model = await local.model()
    monkeypatch.setattr(local.service.runs[model].trainer, "save_state", lambda path: {}[path])
    result = await local.result("/save_weights", model_id=model, seq_id=1, path="x")

    assert result["category"] == "server"
    assert result["error"].startswith("KeyError")


@pytest.mark.asyncio
async def test_another_base_has_another_home_for_its_tokenizer(engine, tmp_path):
    services = [Service(item, tmp_path) for item in (engine, engine, replace(engine, base_sha256="f" * 64))]
    for service in services:
        service.stop("over")
        service.close()
    first, second, third = (service.models.own.directory for service in services)

    assert first == second
    assert first != third
    assert len(list((tmp_path / "models" / "crucible").iterdir())) == 2


class Counted:
    """An engine that writes down for what it made samplers."""

    def __init__(self) -> None:
        self.made: list[Path | None] = []

    def sampler(self, directory):
        self.made.append(directory)
        return self


def test_only_the_samplers_used_last_are_kept():
    engine = Counted()
    base, samplers = BaseModel("crucible/tiny", engine, "tokenizer"), Samplers()
    for number in (*range(MAX_SAMPLERS), 0, MAX_SAMPLERS, 0, 1):
        samplers.open(Weights(base, Path(str(number))))

    assert [str(item) for item in engine.made] == [*map(str, range(MAX_SAMPLERS + 1)), "1"]


def test_a_seed_depends_on_the_place_and_on_nothing_else():
    places = [(session, sampler, number) for session in range(3) for sampler in range(3) for number in range(30)]

    assert len({derive_seed(*place) for place in places}) == len(places)
    assert derive_seed(0, 1, 2) == derive_seed(0, 1, 2) == 5458876493991123480
