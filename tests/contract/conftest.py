"""One local Tinker server for all contract tests, with a small random model: what is tested is not what it says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tinker_http import SHAPE, Http

from base_model.gradients import initial_weights
from base_model.tokenizer import train_tokenizer
from pytest_crucible.backends.tinker.service import close_holder
from pytest_crucible.local_model.checkpoints import save_base
from pytest_crucible.local_model.server.process import LocalServer
from pytest_crucible.local_model.tokens import Tokenizer

TEXT = " ".join(f"claim {number} of document {number * 7} is supported by evidence" for number in range(300))


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return train_tokenizer([TEXT], SHAPE.vocabulary)


@pytest.fixture(scope="session")
def base(tokenizer, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("base")
    tokenizer.save(directory / "tokenizer.json")
    save_base(directory / "model.safetensors", initial_weights(SHAPE, seed=0), SHAPE)
    return directory


@pytest.fixture(scope="session")
def server(base, tmp_path_factory) -> Iterator[LocalServer]:
    # Whether CI is set or not, which `test_tinker_rules` tries.
    options = ("--rules", "local")
    with LocalServer.start(tmp_path_factory.mktemp("tinker"), base=base, options=options) as server:
        yield server
        _close_rest_clients()


def _close_rest_clients() -> None:
    """Close the connections of all RestClients, which the SDK keeps to the end of the process, where closing fails aloud."""
    holders = getattr(sys.modules.get("tinker.lib.internal_client_holder"), "sessionless_holder_cache", None)
    for holder in getattr(holders, "_holders", {}).values():
        close_holder(holder)


@pytest.fixture
def http_client(server) -> Http:
    return Http(server)


@pytest.fixture
def session(http_client) -> str:
    return http_client.post("/create_session", user_metadata={"suite": "claims"}, display_name="a run")["session_id"]


@pytest.fixture
def model(http_client, session) -> str:
    created = http_client.post(
        "/create_model", session_id=session, model_seq_id=0, base_model="crucible/tiny", lora_config={"rank": 4}
    )
    assert http_client.result(created["request_id"]) == {"type": "create_model", "model_id": f"{session}:train:0"}
    return created["model_id"]


@pytest.fixture
def sampler(http_client, session) -> str:
    opened = http_client.post(
        "/create_sampling_session", session_id=session, sampling_session_seq_id=0, base_model="crucible/tiny"
    )
    return opened["sampling_session_id"]


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The location of an empty run store: a file that is missing yet, and a database of a server."""
    return str(tmp_path / "runs.db") if request.param == "sqlite" else str(request.getfixturevalue("postgresql_store"))
