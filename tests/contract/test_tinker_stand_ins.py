"""A server that answers under other models' names: it works as for its own model, and says in every place that it stands in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tinker_http import Http, OpenAI, forward_backward, forward_backward_message

from pytest_crucible.backends.tinker.service import fetch_models
from pytest_crucible.local_model.engine import RESERVED
from pytest_crucible.local_model.server import protobuf
from pytest_crucible.local_model.server.process import LocalServer, ServerFailed
from pytest_crucible.local_model.tokens import Tokenizer

QWEN, LLAMA = "Qwen/Qwen3-8B", "meta-llama/Llama-3.2-1B"
OPTIONS = ("--as", QWEN, "--as", LLAMA, "--stand-in", "stable_reinforce=importance_sampling")


@pytest.fixture(scope="module")
def stand_in(base, tmp_path_factory) -> Iterator[LocalServer]:
    with LocalServer.start(tmp_path_factory.mktemp("stand-in"), base=base, options=OPTIONS) as server:
        yield server


@pytest.fixture
def client(stand_in) -> Http:
    return Http(stand_in)


def create(client: Http, base_model: str) -> tuple[str, str]:
    session = client.post("/create_session")["session_id"]
    created = client.post(
        "/create_model", session_id=session, model_seq_id=0, base_model=base_model, lora_config={"rank": 2}
    )
    return session, client.result(created["request_id"])["model_id"]


def save(client: Http, model: str, endpoint: str, seq_id: int) -> str:
    saved = client.post(endpoint, model_id=model, path=f"named-{seq_id}", seq_id=seq_id)
    return client.result(saved["request_id"])["path"]


def test_the_names_are_listed_and_marked(client, stand_in):
    own, _, *others = client.get("/get_server_capabilities")["supported_models"]

    assert "stand_in" not in own
    assert [(other["model_name"], other["stand_in"]) for other in others] == [
        (QWEN, "crucible/tiny"),
        (LLAMA, "crucible/tiny"),
    ]
    warning = client.post("/create_session")["warning_message"]
    assert warning == f"{QWEN}, {LLAMA}: crucible/tiny stands in here. All replies, losses and weights are simulated"
    listed = fetch_models(stand_in.url, stand_in.key)
    assert (listed[QWEN].stand_in, listed["crucible/tiny"].stand_in) == ("crucible/tiny", "")
    tokenizer = Tokenizer.load(Path(listed[QWEN].tokenizer) / "tokenizer.json")
    assert tokenizer.reserved == RESERVED


def test_a_server_without_stand_ins_warns_of_nothing(http_client):
    assert "warning_message" not in http_client.post("/create_session")
    status, detail = http_client.refusal(
        "/create_model", session_id=http_client.post("/create_session")["session_id"], model_seq_id=0, base_model=QWEN
    )
    assert status == 400
    assert detail.endswith(f"To let it stand in for another model: crucible tinker server --as {QWEN}")


@pytest.mark.parametrize(
    ("model", "loss", "is_marked"),
    [
        (QWEN, "importance_sampling", True),
        ("crucible/tiny", "importance_sampling", False),
        ("crucible/tiny", "stable_reinforce", True),
    ],
)
def test_a_step_is_marked_where_model_or_loss_stands_in(client, stand_in, model, loss, is_marked):
    policy = {"advantages": np.ones(6, np.float32), "logprobs": np.full(6, -5.0, np.float32)}
    message = forward_backward_message(create(client, model)[1], 1, loss, weights=None, **policy)
    status, answer = forward_backward(stand_in, message)
    content = client.protobuf(answer["request_id"])

    assert status == 200
    names = [bytes(protobuf.last_bytes(protobuf.read_fields(entry), 1)) for entry in protobuf.all_bytes(content, 3)]
    assert (b"simulated:max" in names) == is_marked
    assert b"loss:sum" in names


def test_checkpoints_keep_the_name_and_are_of_a_base_of_their_own(client, http_client, stand_in, base, tmp_path):
    session, model = create(client, QWEN)
    info = client.post("/get_info", model_id=model)
    assert info["model_name"] == info["model_data"]["model_name"] == QWEN
    state, weights = save(client, model, "/save_weights", 1), save(client, model, "/save_weights_for_sampler", 2)
    assert client.post("/weights_info", tinker_path=weights)["base_model"] == QWEN

    opened = client.post("/create_sampling_session", session_id=session, sampling_session_seq_id=0, model_path=weights)
    assert client.get(f"/samplers/{opened['sampling_session_id']}")["base_model"] == QWEN
    status, detail = client.refusal(
        "/load_weights", session_id=session, model_seq_id=1, path=state, base_model="crucible/tiny"
    )
    assert (status, detail) == (400, f"{state} was trained on {QWEN}, not on crucible/tiny")
    # A server that does not stand in for this model has another base.
    arguments = [str(argument) for argument in stand_in.process.args]
    directory = Path(arguments[arguments.index("--directory") + 1])
    with LocalServer.start(directory, base=base, options=("--as", LLAMA)) as other:
        elsewhere = Http(other)
        started = elsewhere.post("/create_session")["session_id"]
        status, detail = elsewhere.refusal("/load_weights", session_id=started, model_seq_id=0, path=state)
    assert status == 400
    assert detail.endswith(f"To let it stand in for another model: crucible tinker server --as {QWEN}")


def test_replies_in_openais_format_are_marked(stand_in, client):
    openai = OpenAI(stand_in)
    replies = [openai.complete(prompt="claim", model=name)[1] for name in (QWEN, "crucible/tiny")]
    assert replies[0]["system_fingerprint"] == "stand-in:crucible/tiny"
    assert "system_fingerprint" not in replies[1]
    _, model = create(client, QWEN)
    weights = save(client, model, "/save_weights_for_sampler", 1)
    _, listed = openai.call("GET", "/oai/api/v1/models")
    assert {row["id"] for row in listed["data"] if "stand_in" in row} >= {QWEN, LLAMA, weights}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--as", "tiny"), "--as 'tiny' is not another model's name"),
        (("--as", "crucible/tiny"), "--as 'crucible/tiny' is not another model's name"),
        (("--stand-in", "stable_reinforce"), "expected LOSS=OTHER with LOSS one of stable_reinforce"),
        (("--stand-in", "stable_reinforce=best"), "and OTHER one of cross_entropy, importance_sampling"),
        (("--stand-in", "ppo=dro"), "expected LOSS=OTHER with LOSS one of stable_reinforce"),
    ],
)
def test_invalid_options_are_refused_in_one_sentence(base, tmp_path, options, words):
    with pytest.raises(ServerFailed) as caught:
        LocalServer.start(tmp_path, base=base, options=options)

    assert words in str(caught.value)
    assert "Traceback" not in str(caught.value)
