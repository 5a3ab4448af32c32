"""The local Tinker server under the unmodified `tinker` SDK: its whole flow, from the oldest to the newest version supported.

Skipped where the SDK is not installed.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from faulty_tinker import Faulty
from tinker_http import WAIT_S

from pytest_crucible.backends.tinker.backend import TinkerBackend
from pytest_crucible.backends.tinker.service import Service, ServiceAddress, close_holder
from pytest_crucible.backends.tinker.stored import list_checkpoint
from pytest_crucible.local_model.server.hub_cache import write_hub_cache


@pytest.fixture(scope="module")
def tinker() -> Any:
    return pytest.importorskip("tinker")


@pytest.fixture
def service(tinker, server, monkeypatch) -> Iterator[Any]:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    service = tinker.ServiceClient(base_url=server.url, api_key=server.key, user_metadata={"suite": "claims"})
    yield service
    if hasattr(service, "close"):
        got(service.close("success"))


def got(future: Any) -> Any:
    """Return the result of a call: since 0.38 clients come as futures too."""
    return future.result(timeout=WAIT_S) if hasattr(future, "result") else future


def train(tinker: Any, client: Any, tokens: list[int], steps: int) -> list[float]:
    """Loss per token at each step on one text."""
    datum = tinker.Datum(
        model_input=tinker.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={"target_tokens": tokens[1:], "weights": [1.0] * (len(tokens) - 1)},
    )
    losses = []
    for _ in range(steps):
        gradients = client.forward_backward([datum], "cross_entropy")
        step = client.optim_step(tinker.AdamParams(learning_rate=0.01))
        losses.append(got(gradients).metrics["loss:sum"] / (len(tokens) - 1))
        got(step)
    return losses


def test_the_whole_flow_of_the_sdk(tinker, service, tokenizer):
    tokens = tokenizer.encode("claim 7 of document 49 is supported by evidence")
    client = got(service.create_lora_training_client(base_model="crucible/tiny", rank=16, seed=1))
    losses = train(tinker, client, tokens, steps=20)

    assert losses[-1] < 0.2 * losses[0]

    sampler = got(client.save_weights_and_get_sampling_client())
    prompt = tinker.ModelInput.from_ints(tokens[:4])
    params = tinker.SamplingParams(max_tokens=len(tokens) - 4, temperature=0.0, seed=1)
    response = got(sampler.sample(prompt, 2, params, include_prompt_logprobs=True, topk_prompt_logprobs=3))

    assert [list(sequence.tokens) for sequence in response.sequences] == [tokens[4:]] * 2
    assert all(logprob > -3 for logprob in response.sequences[0].logprobs)
    assert response.prompt_logprobs[0] is None
    assert len(response.prompt_logprobs) == 4
    assert response.topk_prompt_logprobs[0] is None
    assert [len(row) for row in response.topk_prompt_logprobs[1:]] == [3, 3, 3]

    state = got(client.save_state("ck1")).path
    named = got(client.save_weights_for_sampler("step20")).path
    again = got(service.create_sampling_client(model_path=named))

    assert [list(sequence.tokens) for sequence in got(again.sample(prompt, 2, params)).sequences] == [tokens[4:]] * 2
    assert got(again.compute_logprobs(prompt))[1:] == pytest.approx(response.prompt_logprobs[1:], abs=1e-5)

    resumed = got(service.create_training_client_from_state_with_optimizer(state))
    fresh = got(service.create_training_client_from_state(state))
    going_on, from_resumed, from_fresh = (train(tinker, entry, tokens, steps=2) for entry in (client, resumed, fresh))

    assert from_resumed == pytest.approx(going_on, rel=1e-5)
    assert from_fresh[0] == pytest.approx(going_on[0], rel=1e-5)
    assert from_fresh[1] != pytest.approx(going_on[1], rel=1e-5)


def test_the_sdk_reads_every_kind_of_logprob(tinker, service, tokenizer):
    sampler = got(service.create_sampling_client(base_model="crucible/tiny"))
    tokens = tokenizer.encode("claim 7 of document 49")
    if "prompt_logprobs_last_n" not in inspect.signature(sampler.sample).parameters:
        pytest.skip("this version of tinker does not ask for them")
    targets = tinker.types.TensorData(data=tokens[1:], dtype="int64", shape=[len(tokens) - 1, 1])
    response = got(
        sampler.sample(
            tinker.ModelInput.from_ints(tokens),
            1,
            tinker.SamplingParams(max_tokens=3, temperature=0.0, stop=[]),
            include_prompt_logprobs=True,
            topk_prompt_logprobs=2,
            topk_sample_logprobs=2,
            target_prompt_logprobs=targets,
            prompt_alt_tokens_k=3,
            prompt_logprobs_last_n=2,
        )
    )
    (sequence,) = response.sequences

    assert sequence.stop_reason == "length"
    assert sequence.sequence_id.endswith(":0")
    assert [row[0][0] for row in sequence.topk_logprobs] == list(sequence.tokens)
    assert [prompt_logprob is None for prompt_logprob in response.prompt_logprobs] == [True] * (len(tokens) - 2) + [
        False
    ] * 2
    assert response.target_prompt_logprobs.data[-2:] == pytest.approx(response.prompt_logprobs[-2:], abs=1e-5)
    assert response.prompt_alt_tokens.tokens.shape == [len(tokens) - 1, 3]
    drawn = np.reshape(response.prompt_alt_tokens.tokens.data, (-1, 3))

    assert (drawn == drawn[:, :1]).all()  # at temperature 0 always the same


def test_the_sdk_raises_what_failed_with_its_sentence(tinker, service):
    sampler = got(service.create_sampling_client(base_model="crucible/tiny"))

    with pytest.raises(tinker.RequestFailedError, match="leaves no room in a context of 128"):
        got(sampler.sample(tinker.ModelInput.from_ints([70] * 200), 1, tinker.SamplingParams(max_tokens=2)))
    with pytest.raises(tinker.NotFoundError, match="unknown checkpoint"):
        got(service.create_sampling_client(model_path="tinker://none/sampler_weights/x"))
    with pytest.raises(tinker.BadRequestError, match="is not here; this server has crucible/tiny"):
        got(service.create_lora_training_client(base_model="Qwen/Qwen3-8B"))


def test_the_sdks_losses_for_reinforcement(tinker, service, tokenizer):
    tokens = tokenizer.encode("claim 7 of document 49")
    client = got(service.create_lora_training_client(base_model="crucible/tiny", rank=4))
    count = len(tokens) - 1
    targets = {"target_tokens": tokens[1:]}
    prompt = tinker.ModelInput.from_ints(tokens[:-1])
    first = tinker.Datum(model_input=prompt, loss_fn_inputs={**targets, "weights": [1.0] * count})
    logprobs = got(client.forward([first], "cross_entropy")).loss_fn_outputs[0]["logprobs"]
    inputs = {**targets, "logprobs": logprobs, "advantages": [1.0] * count}
    datum = tinker.Datum(model_input=prompt, loss_fn_inputs=inputs)

    for loss, expected in {"importance_sampling": -count, "ppo": -count, "cispo": sum(logprobs.data) * -1}.items():
        assert got(client.forward_backward([datum], loss)).metrics["loss:sum"] == pytest.approx(expected, rel=1e-4)
    clipped = got(client.forward_backward([datum], "ppo", {"clip_low_threshold": 0.1, "clip_high_threshold": 0.5}))

    assert clipped.metrics["loss:sum"] == pytest.approx(-0.5 * count, rel=1e-4)
    if "gspo" in tinker.types.loss_fn_type.LossFnType.__args__:
        whole = tinker.Datum(model_input=prompt, loss_fn_inputs={**inputs, "sequence_ratio_mask": [1.0] * count})
        config = {"clip_low_threshold": 0.1, "clip_high_threshold": 0.5}
        of_sequence = got(client.forward_backward([whole], "gspo", config)).metrics["loss:sum"]

        assert of_sequence == pytest.approx(-0.5 * count, rel=1e-4)


def test_the_sdks_custom_loss(tinker, service, tokenizer):
    torch = pytest.importorskip("torch")
    tokens = tokenizer.encode("claim 7 of document 49")
    client = got(service.create_lora_training_client(base_model="crucible/tiny", rank=4))
    datum = tinker.Datum(
        model_input=tinker.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={"target_tokens": tokens[1:], "weights": [1.0] * (len(tokens) - 1)},
    )

    def squared_loss(data: Any, logprobs: list[Any]) -> tuple[Any, Mapping[str, float]]:
        loss = torch.stack([(logprob**2).sum() for logprob in logprobs]).sum()
        return loss, {"squares": loss.item()}

    losses = []
    for _ in range(6):
        losses.append(got(client.forward_backward_custom([datum], squared_loss)).metrics["squares"])
        got(client.optim_step(tinker.AdamParams(learning_rate=0.01)))

    assert losses[-1] < losses[0]


def test_the_sdks_rest_client(tinker, service, server):
    is_new = hasattr(tinker, "RestClient")
    rest = tinker.RestClient(base_url=server.url, api_key=server.key) if is_new else service.create_rest_client()
    client = got(service.create_lora_training_client(base_model="crucible/tiny", rank=4, user_metadata={"a": "b"}))
    named = got(client.save_weights_for_sampler("rest", ttl_seconds=3600)).path
    run = client.model_id

    assert got(rest.get_training_run(run)).lora_rank == 4
    assert got(rest.get_training_run_by_tinker_path(named)).user_metadata == {"a": "b"}
    assert run in [training_run.training_run_id for training_run in got(rest.list_training_runs()).training_runs]
    assert [checkpoint.tinker_path for checkpoint in got(rest.list_checkpoints(run)).checkpoints] == [named]
    assert named in [checkpoint.tinker_path for checkpoint in got(rest.list_user_checkpoints(limit=1000)).checkpoints]
    assert got(rest.get_weights_info_by_tinker_path(named)).lora_rank == 4
    got(rest.set_checkpoint_ttl_from_tinker_path(named, None))
    got(rest.publish_checkpoint_from_tinker_path(named))
    (checkpoint,) = got(rest.list_checkpoints(run)).checkpoints
    assert (checkpoint.expires_at, checkpoint.public) == (None, True)
    got(rest.unpublish_checkpoint_from_tinker_path(named))
    session = run.partition(":")[0]
    assert session in got(rest.list_sessions()).sessions
    assert run in got(rest.get_session(session)).training_run_ids
    assert (
        got(rest.get_sampler(got(service.create_sampling_client(model_path=named))._sampling_session_id)).model_path
        == named
    )
    got(rest.delete_checkpoint_from_tinker_path(named))
    assert got(rest.list_checkpoints(run)).checkpoints == []
    assert got((rest if is_new else service).get_server_capabilities()).supported_models


def test_the_sdk_loads_the_tokenizer_of_every_client(tinker, service, tokenizer):
    text = "claim 7 of document 49 ü"
    client = got(service.create_lora_training_client(base_model="crucible/tiny", rank=4))
    samplers = [got(client.save_weights_and_get_sampling_client())]
    samplers.append(got(service.create_sampling_client(model_path=got(client.save_weights_for_sampler("t")).path)))

    for item in (client, *samplers):
        assert item.get_tokenizer().encode(text) == tokenizer.encode(text)


@pytest.mark.parametrize("is_short", [True, False], ids=["short", "long"])
def test_a_model_keeps_the_name_that_it_was_created_with(tinker, service, server, is_short):
    is_new = hasattr(tinker, "RestClient")
    rest = tinker.RestClient(base_url=server.url, api_key=server.key) if is_new else service.create_rest_client()
    models = got((rest if is_new else service).get_server_capabilities()).supported_models
    long, short = (model.model_name for model in models)
    name = short if is_short else long
    client = got(service.create_lora_training_client(base_model=name, rank=4))
    state, weights = got(client.save_state("s")).path, got(client.save_weights_for_sampler("w")).path
    again = got(service.create_training_client_from_state(state))

    assert [got(entry.get_info()).model_name for entry in (client, again)] == [name, name]
    assert {got(rest.get_weights_info_by_tinker_path(path)).base_model for path in (state, weights)} == {name}
    assert got(rest.get_training_run_by_tinker_path(weights)).base_model == name


@pytest.mark.slow
def test_many_clients_at_once(tinker, server, service, tokenizer):
    """Several services, models and samplers, all in one server and none in the way of another."""
    tokens = tokenizer.encode("claim 7 of document 49")

    def story(number: int) -> tuple[list[float], list[int]]:
        own = tinker.ServiceClient(base_url=server.url, api_key=server.key)
        client = got(own.create_lora_training_client(base_model="crucible/tiny", rank=2 + number, seed=3))
        losses = train(tinker, client, tokens, steps=4)
        sampler = got(client.save_weights_and_get_sampling_client())
        params = tinker.SamplingParams(max_tokens=8, seed=5, stop=[])
        futures = [sampler.sample(tinker.ModelInput.from_ints(tokens), 1, params) for _ in range(8)]
        replies = {tuple(got(future).sequences[0].tokens) for future in futures}
        if hasattr(own, "close"):
            got(own.close("success"))
        assert len(replies) == 1
        return losses, list(replies.pop())

    alone = [story(number) for number in range(3)]
    with ThreadPoolExecutor(3) as threads:
        together = list(threads.map(story, range(3)))

    assert together == alone


@pytest.mark.slow
def test_a_script_under_strict_warnings_leaves_nothing_open(tinker, server):
    script = """
        import gc, tinker
        service = tinker.ServiceClient()
        def got(future): return future.result(timeout=60) if hasattr(future, "result") else future
        sampler = got(service.create_sampling_client(base_model="crucible/tiny"))
        prompt, params = tinker.ModelInput.from_ints([70, 71]), tinker.SamplingParams(max_tokens=3)
        print(len(got(sampler.sample(prompt, 1, params)).sequences[0].tokens))
        if hasattr(service, "close"):
            got(service.close("success"))
        del service, sampler
        gc.collect()
    """
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        env={**os.environ, "HTTP_PROXY": "http://127.0.0.1:9", **server.environment()},  # no server listens there
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "3\n", "")


@pytest.mark.slow
def test_a_plain_process_loads_the_tokenizer_from_the_prepared_cache(tinker, server, base, tokenizer, tmp_path):
    for package in ("transformers", "pyarrow"):
        pytest.importorskip(package)
    script = """
        import tinker
        sampler = tinker.ServiceClient().create_sampling_client(base_model="crucible/tiny")
        sampler = sampler.result() if hasattr(sampler, "result") else sampler
        print(sampler.get_tokenizer().encode("claim 7"))
    """
    environment = {**os.environ, **server.environment(), **write_hub_cache(tmp_path, (), base)}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False, env=environment)

    # In offline mode a request to a hub is an error.
    assert (ended.returncode, ended.stdout) == (0, f"{tokenizer.encode('claim 7')}\n"), ended.stderr


def test_the_sdks_other_ways_to_wait_for_samples(tinker, server, tokenizer):
    """A service may have the SDK watch all its requests at once, and number the copies of a sampler."""
    config = {"sample_use_retrieve_futures": True, "sample_join_sampling_session": True}
    prompt, params = (
        tinker.ModelInput.from_ints(tokenizer.encode("claim")),
        tinker.SamplingParams(max_tokens=3, stop=[]),
    )
    with Faulty(server.url, **config) as relay:
        own = tinker.ServiceClient(base_url=relay.url, api_key=server.key)
        sampler = got(own.create_sampling_client(base_model="crucible/tiny"))
        copy = pickle.loads(pickle.dumps(sampler))
        samples = [entry.sample(prompt, 1, params) for entry in (sampler, copy) for _ in range(8)]
        replies = [got(sample) for sample in samples]
        # The copy has connections of its own, and a heartbeat that would go on without the relay.
        close_holder(copy.holder)
        if hasattr(own, "close"):
            got(own.close("success"))

    assert [len(reply.sequences[0].tokens) for reply in replies] == [3] * 16
    if "sample_use_retrieve_futures" in tinker.types.ClientConfigResponse.model_fields:
        assert relay.seen["/api/v1/retrieve_futures"] > 0
    if "sample_join_sampling_session" in tinker.types.ClientConfigResponse.model_fields:
        assert relay.seen["/api/v1/join_sampling_session"] == 1


def test_the_backend_scores_prompts(tinker, service, tokenizer):
    backend = TinkerBackend(got(service.create_sampling_client(base_model="crucible/tiny")), tokenizer, identity="t")
    scored = asyncio.run(backend.score_prompt("claim 7 of document 49"))

    assert len(scored) == len(tokenizer.encode("claim 7 of document 49")) - 1
    assert all(logprob < 0 for logprob in scored)


def test_pictures_are_refused_in_a_sentence(tinker, service):
    picture = tinker.ModelInput(chunks=[tinker.types.ImageChunk(data=b"\x89PNG", format="png", expected_tokens=1)])
    sampler = got(service.create_sampling_client(base_model="crucible/tiny"))
    with pytest.raises(Exception, match="this model reads only text"):
        got(sampler.sample(picture, 1, tinker.SamplingParams(max_tokens=2)))

    client = got(service.create_lora_training_client(base_model="crucible/tiny", rank=4))
    datum = tinker.Datum(model_input=picture, loss_fn_inputs={"target_tokens": [1], "weights": [1.0]})
    with pytest.raises(Exception, match="this model reads only text"):
        got(client.forward_backward([datum], "cross_entropy"))


def test_a_checkpoint_without_a_renderer_has_that_of_its_training_run(tinker, service, server):
    training = {"renderer_name": "role_colon"}
    client = got(service.create_lora_training_client(base_model="crucible/tiny", rank=4, user_metadata=training))
    path = got(client.save_weights_for_sampler("renderer")).path
    product = Service(
        ServiceAddress(server.url, server.key),
        tinker,
        name="tinker",
        wait_s=WAIT_S,
        seed=0,
        check=lambda seconds: None,
        hide=lambda text: text,
    )
    try:
        assert list_checkpoint(product, path).renderer == "role_colon"
    finally:
        product.close(alive=True)
