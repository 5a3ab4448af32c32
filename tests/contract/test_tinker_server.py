"""The local Tinker server over plain HTTP: every endpoint, and what each makes of bad input."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
import pytest
from tinker_http import SHAPE, WAIT_S, Http, ask, forward_backward, forward_backward_message, sampled_tokens, save

from pytest_crucible.local_model.server import protobuf

# The service itself


def test_the_configuration_closes_its_connection(server):
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=WAIT_S)
    with contextlib.closing(connection):
        connection.request("POST", "/api/v1/client/config", b'{"sdk_version":"0.38.0"}', {"X-API-Key": server.key})
        response = connection.getresponse()

        assert response.headers["connection"] == "close"
        assert json.loads(response.read())["parallel_fwdbwd_chunks"] is False


def test_small_endpoints_answer(http_client, session):
    assert http_client.post("/client/dynamic_config", sdk_version="0.38.0")["refresh_interval_sec"] == 300
    assert http_client.get("/healthz") == {"status": "ok"}
    assert http_client.post("/session_heartbeat", session_id=session) == {"type": "session_heartbeat"}
    assert http_client.post("/telemetry", session_id=session, events=[]) == {"status": "accepted"}


def test_capabilities_name_the_model_by_its_directory_and_its_short_name(http_client):
    long, short = http_client.get("/get_server_capabilities")["supported_models"]

    assert short == {**long, "model_name": "crucible/tiny"}
    assert long["max_context_length"] == SHAPE.context
    assert (Path(long["model_name"]) / "tokenizer.json").is_file()
    assert long["model_name"].count("/") > 2


def test_a_session_lists_its_models_long_after_its_end(http_client, session, model, sampler):
    got = http_client.get(f"/sessions/{session}")

    assert got["training_run_ids"] == [model]
    assert got["sampler_ids"] == [sampler]
    assert (got["user_metadata"], got["display_name"]) == ({"suite": "claims"}, "a run")
    assert http_client.get("/sessions?limit=1")["sessions"] == [session]

    for _ in range(2):
        assert http_client.post(f"/sessions/{session}/finish", reason={"type": "success"}) == {}

    assert http_client.refusal("/session_heartbeat", session_id=session)[0] == 410
    assert http_client.refusal("/get_info", model_id=model)[0] == 410
    assert http_client.get(f"/sessions/{session}")["training_run_ids"] == [model]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/v1/sessions/none"), ("POST", "/api/v1/sessions/none/finish"), ("GET", "/api/v1/samplers/none")],
)
def test_an_unknown_object_is_404(http_client, method, path):
    status, answer = http_client.call(method, path)

    assert status == 404
    assert "'none'" in answer["detail"]


# Keys, and requests that cannot be read


@pytest.mark.parametrize("key", ["", "tml-wrong", "tml-\xe9"])
def test_a_wrong_key_is_401(server, key):
    status, answer = Http(server, **{"x-api-key": key}).call("GET", "/api/v1/healthz")

    assert status == 401
    assert "is not this server's" in answer["detail"]
    assert server.key not in answer["detail"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"a":1}x'])
def test_a_body_that_is_not_a_json_object_is_400(http_client, body):
    status, kind, content = http_client.raw("POST", "/api/v1/create_session", body)

    assert (status, kind) == (400, "application/json")
    assert json.loads(content)["detail"]


def test_an_oversized_body_is_413_and_the_server_goes_on(server, http_client):
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=WAIT_S) as connection:
        connection.sendall(b"POST /api/v1/asample HTTP/1.1\r\nContent-Length: 10000000000\r\n\r\nx")

        assert b" 413 " in connection.recv(4096)
    assert http_client.get("/healthz") == {"status": "ok"}


@pytest.mark.parametrize("message", [b"", b"garbage", b"\x1a\xff\xff\xff\xff\x0f", b"\x0a\x01x" * 1000])
def test_garbage_instead_of_protobuf_is_refused(server, message):
    status, answer = forward_backward(server, message)

    assert status in (400, 404)
    assert answer["detail"]


def test_json_instead_of_protobuf_is_refused(server):
    assert forward_backward(server, b"{}", "application/json")[0] == 400


CREATE = {"session_id": "{session}", "model_seq_id": 7, "base_model": "crucible/tiny"}
STEP = {"model_id": "{model}", "seq_id": 3}
SAMPLER = {"session_id": "{session}", "sampling_session_seq_id": 9}
NO_TRAINING = {"train_attn": False, "train_mlp": False, "train_unembed": False}
WATCH = {"target": {"sampling_session_id": "{sampler}"}}


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("/create_model", {"session_id": 3}, 400, "base_model is missing"),
        (
            "/create_model",
            {"base_model": "Qwen/Q"},
            400,
            "base model 'Qwen/Q' is not here; this server has crucible/tiny",
        ),
        ("/asample", {"sampling_session_id": 3}, 400, "sampling_session_id must be a string, not '3'"),
        ("/retrieve_future", {}, 400, "request_id is missing"),
        ("/weights_info", {"tinker_path": "x"}, 400, "'x' is not a checkpoint path"),
        ("/create_model", {**CREATE, "lora_config": {"rank": 0}}, 400, "rank must be between 1"),
        ("/create_model", {**CREATE, "lora_config": {"rank": 513}}, 400, "rank must be between 1 and 512"),
        (
            "/create_model",
            {**CREATE, "lora_config": NO_TRAINING},
            400,
            "nothing to train: attention, MLP and unembedding",
        ),
        (
            "/create_model",
            {**CREATE, "optimizer_config": {"type": "dimuon"}},
            400,
            "optimizer 'dimuon' is not supported",
        ),
        ("/create_model", {**CREATE, "model_seq_id": -1}, 400, "model_seq_id must be between 0"),
        # The SDK writes NaN and infinity as null.
        *[
            ("/optim_step", {**STEP, "adam_params": {"learning_rate": rate}}, 400, "finite number")
            for rate in (None, math.nan, math.inf, "fast")
        ],
        *[
            ("/save_weights", {**STEP, "path": name}, 400, "is not a valid checkpoint name")
            for name in ("../x", "a/b", "", ".hidden", "a" * 200)
        ],
        ("/create_sampling_session", SAMPLER, 400, "neither base_model nor model_path is given"),
        (
            "/create_sampling_session",
            {**SAMPLER, "model_path": "tinker://r/sampler_weights/x"},
            404,
            "unknown checkpoint",
        ),
        ("/create_sampling_session", {**SAMPLER, "base_model": "gpt"}, 400, "base model 'gpt' is not here"),
        ("/join_sampling_session", {"sampling_session_id": "none"}, 404, "unknown sampling session 'none'"),
        ("/join_sampling_session", {}, 400, "sampling_session_id is missing"),
        ("/retrieve_futures", {}, 400, "target is missing"),
        ("/retrieve_futures", {"target": {"sampling_session_id": "none"}}, 404, "unknown sampling session 'none'"),
        ("/retrieve_futures", {"target": 3}, 400, "target must be an object"),
        ("/retrieve_futures", {**WATCH, "retrieved_request_ids": [3]}, 400, "must be a list of strings"),
        ("/retrieve_futures", {**WATCH, "timeout": -1}, 400, "timeout must be at least"),
    ],
)
def test_invalid_requests_are_refused(http_client, session, model, sampler, path, body, status, sentence):
    text = json.dumps(body)
    for name, value in (("session", session), ("model", model), ("sampler", sampler)):
        text = text.replace(f"{{{name}}}", value)
    refused, message = http_client.refusal(path, **json.loads(text))

    assert refused == status
    assert sentence in message


# Training


def test_get_info_describes_the_model(http_client, model):
    message = http_client.post("/get_info", model_id=model)

    assert (message["model_id"], message["is_lora"], message["lora_rank"]) == (model, True, 4)
    assert Path(message["model_data"]["tokenizer_id"], "tokenizer_config.json").is_file()


def test_a_step_of_training(server, http_client, model):
    status, submitted = forward_backward(server, forward_backward_message(model, 1))
    output = http_client.protobuf(submitted["request_id"])
    loss = dict(protobuf.read_mapping(output, 3))["loss:sum"]
    stepped = http_client.post("/optim_step", model_id=model, seq_id=2, adam_params={"learning_rate": 0.01})

    assert status == 200
    assert protobuf.last_double(loss, 2) == pytest.approx(6 * np.log(280), rel=0.1)
    assert http_client.result(stepped["request_id"])["metrics"]["grad_norm:mean"] > 0


def test_a_request_that_is_sent_twice_is_done_once(server, http_client, model):
    for _ in range(3):
        first = forward_backward(server, forward_backward_message(model, 1))[1]
    step = {"model_id": model, "seq_id": 2, "adam_params": {"learning_rate": 0.01}}
    ids = {http_client.post("/optim_step", **step)["request_id"] for _ in range(3)}

    assert first["request_id"] == f"{model}:1"
    assert ids == {f"{model}:2"}
    assert "metrics" in http_client.result(ids.pop())
    assert http_client.refusal("/optim_step", model_id=model, adam_params={})[1] == "seq_id is missing"


@pytest.mark.parametrize(
    ("loss", "inputs", "sentence"),
    [
        ("grpo", {}, "unknown loss 'grpo'; use one of cross_entropy, importance_sampling"),
        ("cross_entropy", {"target_tokens": np.full(6, 280)}, "target_tokens must be 0 to 279"),
        ("cross_entropy", {"weights": np.ones(5, np.float32)}, "weights has 5 entries for 6 tokens"),
        ("cross_entropy", {"weights": np.full(6, np.nan, np.float32)}, "weights is not finite"),
        ("ppo", {}, "ppo needs logprobs and advantages"),
        ("gspo", {}, "gspo needs logprobs and advantages and sequence_ratio_mask"),
        ("stable_reinforce", {}, "loss 'stable_reinforce' needs what only the hosted service records"),
    ],
)
def test_data_that_cannot_be_trained_on_fail_in_the_result(server, http_client, model, loss, inputs, sentence):
    submitted = forward_backward(server, forward_backward_message(model, 1, loss, **inputs))[1]
    result = http_client.result(submitted["request_id"])

    assert result["category"] == "user"
    assert sentence in result["error"]


def test_a_step_without_gradients_fails_in_the_result(http_client, model):
    submitted = http_client.post("/optim_step", model_id=model, seq_id=1, adam_params={})

    assert http_client.result(submitted["request_id"]) == {
        "error": "no gradients: call forward_backward before each optim_step",
        "category": "user",
    }


def test_a_model_can_be_unloaded(http_client, model):
    unloaded = http_client.post("/unload_model", model_id=model)

    assert http_client.result(unloaded["request_id"]) == {"type": "unload_model", "model_id": model}
    assert "is not loaded: create it, or load a checkpoint" in save(http_client, model, 1, path="late")["error"]


# Checkpoints


def test_checkpoints_are_listed_changed_and_deleted(http_client, model):
    run = quote(model, safe="")
    saved = save(http_client, model, 1, path="ck1", user_metadata={"a": "b"}, ttl_seconds=7200)
    named = save(http_client, model, 2, "/save_weights_for_sampler", path="step1")

    assert saved["path"] == f"tinker://{model}/weights/ck1"
    assert named["path"] == f"tinker://{model}/sampler_weights/step1"

    listed = {
        checkpoint["checkpoint_id"]: checkpoint
        for checkpoint in http_client.get(f"/training_runs/{run}/checkpoints")["checkpoints"]
    }

    assert listed["weights/ck1"]["checkpoint_type"] == "training"
    assert (listed["weights/ck1"]["user_metadata"], listed["weights/ck1"]["public"]) == ({"a": "b"}, False)
    assert listed["weights/ck1"]["expires_at"] > listed["weights/ck1"]["time"]
    assert listed["sampler_weights/step1"]["expires_at"] is None
    assert listed["sampler_weights/step1"]["size_bytes"] > 1000

    about = http_client.get(f"/training_runs/{model}")

    assert about["last_checkpoint"]["checkpoint_id"] == "weights/ck1"
    assert about["last_sampler_checkpoint"]["tinker_path"] == named["path"]

    place = f"/api/v1/training_runs/{run}/checkpoints/weights/ck1"

    assert http_client.call("POST", f"{place}/publish") == (200, {})
    assert http_client.call("PUT", f"{place}/ttl", {"ttl_seconds": None}) == (200, {})
    assert http_client.call("PUT", f"{place}/ttl", {"ttl_seconds": 5})[0] == 400

    changed = http_client.get(f"/training_runs/{run}")["last_checkpoint"]

    assert (changed["public"], changed["expires_at"]) == (True, None)
    assert http_client.call("DELETE", f"{place}/publish") == (200, {})
    assert http_client.call("DELETE", place) == (200, {})
    assert http_client.call("DELETE", place)[0] == 404
    assert saved["path"] not in {
        checkpoint["tinker_path"] for checkpoint in http_client.get("/checkpoints?limit=500")["checkpoints"]
    }
    assert http_client.refusal("/weights_info", tinker_path=saved["path"]) == (
        404,
        f"unknown checkpoint {saved['path']}",
    )


def test_runs_of_a_project(http_client, session, model):
    http_client.call("PUT", f"/api/v1/sessions/{session}/project", {"project_id": f"p {session}"})

    listed = http_client.get(f"/training_runs?project_id={quote(f'p {session}')}")
    assert [run["training_run_id"] for run in listed["training_runs"]] == [model]
    assert listed["cursor"]["total_count"] == 1
    assert http_client.get("/training_runs?project_id=none")["training_runs"] == []


def test_pages_of_runs(http_client, model):
    first = http_client.get("/training_runs?limit=1&offset=0&access_scope=owned")

    assert [run["training_run_id"] for run in first["training_runs"]] == [model]
    assert first["cursor"]["total_count"] >= 1
    assert http_client.get("/training_runs?limit=5&offset=100000")["training_runs"] == []
    assert http_client.call("GET", "/api/v1/training_runs?limit=many")[0] == 400
    assert http_client.call("GET", "/api/v1/training_runs/none")[0] == 404
    assert http_client.call("GET", "/api/v1/training_runs/none/checkpoints")[0] == 404


def test_a_checkpoint_name_is_unique_unless_overwriting_is_allowed(http_client, model):
    save(http_client, model, 1, path="ck1")

    assert "exists already" in save(http_client, model, 2, path="ck1")["error"]
    assert save(http_client, model, 3, path="ck1", overwrite=True)["path"].endswith("/weights/ck1")

    save(http_client, model, 4, "/save_weights_for_sampler", path="step1")

    assert "exists already" in save(http_client, model, 5, "/save_weights_for_sampler", path="step1")["error"]


def test_training_goes_on_from_a_checkpoint_in_both_ways(http_client, session, model):
    path = save(http_client, model, 1, path="ck1")["path"]
    info = http_client.post("/weights_info", tinker_path=path)
    new = http_client.post("/load_weights", session_id=session, model_seq_id=1, path=path, optimizer=True)
    old = http_client.post("/load_weights", model_id=model, seq_id=2, path=path, optimizer=False)

    assert (info["is_lora"], info["lora_rank"], info["train_mlp"]) == (True, 4, True)
    assert http_client.result(new["request_id"]) == {
        "type": "load_weights",
        "path": path,
        "model_id": f"{session}:train:1",
    }
    assert http_client.result(old["request_id"])["model_id"] == model
    assert http_client.post("/get_info", model_id=f"{session}:train:1")["lora_rank"] == 4


def test_a_checkpoint_of_another_shape_is_refused(http_client, session, model):
    path = save(http_client, model, 1, path="ck1")["path"]
    other = http_client.post(
        "/create_model", session_id=session, model_seq_id=5, base_model="crucible/tiny", lora_config={"rank": 8}
    )["model_id"]
    loaded = http_client.post("/load_weights", model_id=other, seq_id=1, path=path, optimizer=True)
    sampler = save(http_client, model, 2, "/save_weights_for_sampler", path="s")["path"]

    assert "rank" in http_client.result(loaded["request_id"])["error"]
    assert http_client.refusal("/load_weights", model_id=model, seq_id=3, path=sampler)[0] == 400
    assert http_client.refusal("/load_weights", model_id=model, seq_id=3, path=f"{path}x")[0] == 404


# Sampling


def test_a_sampling_session_names_its_model(http_client, session, model):
    path = save(http_client, model, 1, "/save_weights_for_sampler", path="step1")["path"]
    opened = http_client.post(
        "/create_sampling_session", session_id=session, sampling_session_seq_id=3, model_path=path
    )
    message = http_client.get(f"/samplers/{quote(opened['sampling_session_id'])}")

    assert opened["sampling_session_id"] == f"{session}:sample:3"
    assert (message["sampler_id"], message["model_path"]) == (f"{session}:sample:3", path)


def test_sampling_from_a_training_checkpoint_follows_its_overwriting(server, http_client, session, model):
    replies = []
    for number in range(2):
        path = save(http_client, model, 10 * number + 1, path="latest", overwrite=True)["path"]
        opened = http_client.post(
            "/create_sampling_session", session_id=session, sampling_session_seq_id=number, model_path=path
        )
        response = ask(http_client, 0, opened["sampling_session_id"], params={"temperature": 0})
        replies.append(sampled_tokens(http_client.protobuf(response["request_id"])))
        forward_backward(server, forward_backward_message(model, 10 * number + 2))
        http_client.post("/optim_step", model_id=model, seq_id=10 * number + 3, adam_params={"learning_rate": 0.1})

    assert replies[0] != replies[1]


def test_every_sequence_has_its_id_at_once(http_client, sampler):
    response = ask(http_client, 0, sampler, num_samples=3)

    assert response["sample_sequence_ids"] == [f"{sampler}:0:{number}" for number in range(3)]
    assert [len(tokens) for tokens in sampled_tokens(http_client.protobuf(response["request_id"]))] == [5, 5, 5]


def test_replies_do_not_depend_on_concurrent_requests(http_client, session, sampler):
    prompts = [[70 + number, 71, 80 + number] for number in range(24)]

    def reply(number: int, place: int) -> list[list[int]]:
        chunk = {"tokens": prompts[number], "type": "encoded_text"}
        params = {"seed": number, "max_tokens": 3 + number % 5}
        response = ask(
            http_client, place, sampler, prompt={"chunks": [chunk]}, params=params, num_samples=1 + number % 3
        )
        return sampled_tokens(http_client.protobuf(response["request_id"]))

    alone = [reply(number, 100 + number) for number in range(24)]
    with ThreadPoolExecutor(24) as threads:
        together = list(threads.map(reply, range(24), range(200, 224)))

    assert together == alone


def test_without_a_seed_replies_differ_from_request_to_request(http_client, sampler):
    replies = [sampled_tokens(http_client.protobuf(ask(http_client, n, sampler)["request_id"])) for n in range(4)]

    assert len({str(reply) for reply in replies}) == 4


@pytest.mark.parametrize(
    ("stop", "count"), [(None, 6), ([], 6), ("x", 6), (["x", "y"], 6), ([5, 6], 6), (list(range(280)), 1)]
)
def test_stops_come_in_every_form(http_client, sampler, stop, count):
    response = ask(http_client, 0, sampler, params={"stop": stop, "max_tokens": 6, "seed": 1, "temperature": 0.0})
    (tokens,) = sampled_tokens(http_client.protobuf(response["request_id"]))

    assert len(tokens) == count


def test_a_prompt_is_scored_in_every_way(http_client, sampler):
    targets = {"data": [1, -1, 2, 3], "dtype": "int64", "shape": [2, 2]}
    future = ask(
        http_client,
        0,
        sampler,
        prompt_logprobs=True,
        topk_prompt_logprobs=2,
        topk_sample_logprobs=3,
        prompt_alt_tokens_k=4,
        target_prompt_logprobs=targets,
        prompt_logprobs_last_n=1,
    )
    response = http_client.protobuf(future["request_id"])
    logprobs = np.frombuffer(protobuf.last_bytes(response, 2), "<f4")
    top = protobuf.read_fields(protobuf.last_bytes(response, 3))
    scored = np.frombuffer(protobuf.last_bytes(protobuf.read_fields(protobuf.last_bytes(response, 5)), 1), "<f4")

    assert np.isnan(logprobs).tolist() == [True, True, False]
    assert (protobuf.last_int(top, 3), protobuf.last_int(top, 4)) == (2, 3)
    assert np.frombuffer(protobuf.last_bytes(top, 2), "<f4")[:4].tolist() == [-99999.0] * 4
    assert np.isnan(scored).tolist() == [False, True, False, False]
    assert 6 in response


@pytest.mark.parametrize(("tokens", "seed"), [([70], 1), ([70, 71], -5)])
def test_alternatives_are_drawn_for_every_position_but_the_first(http_client, sampler, tokens, seed):
    prompt = {"chunks": [{"tokens": tokens, "type": "encoded_text"}]}
    response = ask(http_client, 0, sampler, prompt=prompt, prompt_alt_tokens_k=50, params={"seed": seed})
    drawn = protobuf.read_fields(protobuf.last_bytes(http_client.protobuf(response["request_id"]), 6))
    ids = protobuf.read_fields(protobuf.last_bytes(drawn, 1))

    assert protobuf.all_ints(ids, 4) == [len(tokens) - 1, 50]
    assert len(set(np.frombuffer(protobuf.last_bytes(ids, 1), "<i8").tolist())) > 20 * (len(tokens) - 1) - 1


def test_targets_that_come_sparse_go_back_sparse(http_client, sampler):
    dense = {"data": [5, -1, -1, 7], "dtype": "int64", "shape": [2, 2]}
    places = {"sparse_crow_indices": [0, 1, 2], "sparse_col_indices": [0, 1]}
    sparse = {"data": [5, 7], "dtype": "int64", "shape": [2, 2], **places}
    answers = []
    for number, targets in enumerate((dense, sparse)):
        response = ask(http_client, number, sampler, target_prompt_logprobs=targets)
        answers.append(protobuf.read_fields(protobuf.last_bytes(http_client.protobuf(response["request_id"]), 5)))
    logprobs = np.frombuffer(protobuf.last_bytes(answers[0], 1), "<f4")
    compressed = protobuf.read_fields(protobuf.last_bytes(answers[1], 2))

    assert np.frombuffer(protobuf.last_bytes(compressed, 1), "<f4").tolist() == logprobs[[0, 3]].tolist()
    assert np.frombuffer(protobuf.last_bytes(compressed, 2), "<i8").tolist() == places["sparse_crow_indices"]
    assert np.frombuffer(protobuf.last_bytes(compressed, 3), "<i8").tolist() == places["sparse_col_indices"]


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        ([], "the prompt is empty"),
        ([1] * 200, "leaves no room in a context of 128"),
        ([280], "token 280 of the prompt"),
    ],
)
def test_a_prompt_that_cannot_be_read_fails_in_the_result(http_client, sampler, tokens, sentence):
    response = ask(http_client, 0, sampler, prompt={"chunks": [{"tokens": tokens, "type": "encoded_text"}]})
    result = http_client.result(response["request_id"])

    assert result["category"] == "user"
    assert sentence in result["error"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"params": {"temperature": -1}}, "the temperature must be 0 or more"),
        ({"params": {"top_p": 2}}, "top_p must be above 0 and at most 1"),
        ({"params": {"max_tokens": 0}}, "max_tokens must be at least 1"),
        ({"params": {"stop": [""]}}, "cannot be a stop: it is empty"),
        ({"params": {"stop": 3}}, "stop must be a text"),
        ({"num_samples": 0}, "num_samples must be between 1"),
        ({"prompt": {"chunks": [{"type": "image"}]}}, "this model reads only text"),
        ({"prompt": {"chunks": [{"tokens": [1.5]}]}}, "tokens must be a list of whole numbers"),
        ({"prompt": {"chunks": [{"tokens": [2**70]}]}}, "a number is too large"),
    ],
)
def test_an_invalid_sample_request_is_refused(http_client, sampler, changes, sentence):
    with pytest.raises(AssertionError, match="detail") as refused:
        ask(http_client, 0, sampler, **changes)

    assert sentence in str(refused.value)


def test_sampling_needs_no_session(http_client):
    response = http_client.post(
        "/asample",
        prompt={"chunks": [{"tokens": [70], "type": "encoded_text"}]},
        sampling_params={"max_tokens": 2},
        base_model="crucible/tiny",
    )

    assert len(sampled_tokens(http_client.protobuf(response["request_id"]))[0]) == 2


def test_an_unknown_result_is_410(http_client):
    status, message = http_client.refusal("/retrieve_future", request_id="req-1")

    assert (status, message) == (410, "request 'req-1' is unknown, or its result is no longer kept: send it again")


def test_a_request_can_be_cancelled(http_client, sampler):
    responses = [
        ask(http_client, number, sampler, params={"max_tokens": 100, "stop": []}, num_samples=64) for number in range(6)
    ]
    last = responses[-1]["request_id"]

    assert http_client.post("/cancel_future", request_id=last) == {}
    assert http_client.result(last) == {"error": "the request was cancelled", "category": "user"}
    assert http_client.post("/cancel_future", request_id="unknown") == {}


# Many results at once, and copies of a sampler


def watch(http_client, sampler, *, cursor_from=0, timeout=5.0, clone=0, retrieved=()):
    target = {"type": "sampling_session", "sampling_session_id": sampler, "cloned_sampler_id": clone}
    body = {"target": target, "prev_cursor": cursor_from, "timeout": timeout, "retrieved_request_ids": list(retrieved)}
    return http_client.post("/retrieve_futures", **body)


def test_a_client_is_notified_of_its_completed_requests(http_client, sampler):
    ids = [ask(http_client, number, sampler)["request_id"] for number in range(3)]
    heard, cursor = {}, 0
    while len(heard) < 3:
        message = watch(http_client, sampler, cursor_from=cursor)
        cursor = message["cursor"]
        heard |= {completion["request_id"]: completion for completion in message["completions"]}

    assert set(heard) == set(ids)
    assert {entry["state"] for entry in heard.values()} == {"finished"}
    size = heard[ids[0]]["response_payload_uncompressed_size"]
    body = json.dumps({"request_id": ids[0]}).encode()
    assert len(http_client.raw("POST", "/api/v1/retrieve_future", body)[2]) == size
    assert watch(http_client, sampler, cursor_from=cursor, timeout=0.0) == {"completions": [], "cursor": cursor}


def test_a_failed_request_is_reported_as_failed(http_client, sampler):
    chunk = {"tokens": [1] * 200, "type": "encoded_text"}
    response = ask(http_client, 0, sampler, prompt={"chunks": [chunk]})

    assert watch(http_client, sampler)["completions"] == [{"state": "failed", "request_id": response["request_id"]}]


def test_a_client_can_release_a_result_that_it_has(http_client, sampler):
    (request_id, remaining) = (ask(http_client, number, sampler)["request_id"] for number in range(2))
    for item in (request_id, remaining):
        http_client.protobuf(item)
    watch(http_client, sampler, timeout=0.0, retrieved=[request_id, "of-somebody-else:0"])

    assert http_client.refusal("/retrieve_future", request_id=request_id)[0] == 410
    assert http_client.protobuf(remaining)


def test_a_watch_without_requests_ends_in_time(http_client, sampler):
    started = time.monotonic()

    assert watch(http_client, sampler, cursor_from=7, timeout=0.2) == {"completions": [], "cursor": 7}
    assert time.monotonic() - started < 30


def test_a_copied_sampler_is_notified_of_its_own_requests_only(http_client, sampler):
    counters = [
        http_client.post("/join_sampling_session", sampling_session_id=sampler)["client_counter"] for _ in range(2)
    ]
    own = ask(http_client, 2_000_000_000, sampler)["request_id"]
    ask(http_client, 0, sampler)

    assert counters == [1, 2]
    assert [completion["request_id"] for completion in watch(http_client, sampler, clone=2)["completions"]] == [own]
