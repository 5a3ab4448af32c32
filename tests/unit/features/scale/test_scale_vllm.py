"""`backend = "vllm"`, with a stand-in of the engine's interface: no model answers here."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from adapter_contexts import context_in

from pytest_crucible.features.scale.vllm_kind import open_vllm
from pytest_crucible.records import Adapter, Request
from pytest_crucible.records.errors import BackendError, Refused, Retryable, SpecError

STAND_IN = Path(__file__).parents[3] / "vllm_stand_in"


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch):
    monkeypatch.syspath_prepend(str(STAND_IN))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
        del sys.modules[name]


@pytest.fixture
def context(tmp_path):
    write_model(tmp_path / "base", chat_template="{{ messages }}")
    for name, rank in (("claims-v1", 8), ("claims-v2", 24)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").write_text(json.dumps({"r": rank}))
        (tmp_path / name / "adapter_model.safetensors").write_bytes(name.encode())
    return context_in(tmp_path)


def write_model(folder: Path, **tokenizer: object) -> None:
    folder.mkdir()
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (folder / "model.safetensors").write_bytes(b"weights")


def adapter(name: str = "v2", parameters: dict[str, object] | None = None, **options: object) -> Adapter:
    return Adapter(name=name, backend="vllm", options={"model": "base", **options}, parameters=parameters or {})


def ask(backend, prompt="4 + 4 = ", **parameters):
    return asyncio.run(backend.generate(Request(input=prompt, sample="a", repeat=0, parameters=parameters)))


def list_engines():
    from vllm.v1.engine.async_llm import STARTED

    return STARTED


def test_a_text_is_sent_by_the_chat_template_with_the_system_prompt(context):
    reply = ask(open_vllm(adapter(system="be short"), context), "hi")

    assert reply.text == "<SYSTEM>BE SHORT<USER>HI"
    assert (reply.finish, reply.model) == ("stop", "v2")
    assert reply.input_tokens == reply.output_tokens == len(reply.text)


def test_sampling_parameters_reach_the_engine(context):
    backend = open_vllm(adapter(), context)
    reply = ask(backend, "abc", n=2, seed=3, max_tokens=8, logprobs=True, temperature=0.5)

    assert (reply.text, reply.finish) == ("<USER>AB", "length")
    assert reply.logprobs == (-0.5,) * 8
    assert len(reply.alternatives) == 1
    assert ask(backend, "abc; def", stop=";").text == "<USER>ABC"
    assert ask(backend, "a").logprobs is None


def test_two_lora_adapters_and_their_base_share_one_engine(context):
    backends = [
        open_vllm(adapter(name, **({"lora": name} if name else {})), context) for name in ("", "claims-v1", "claims-v2")
    ]
    assert not list_engines()
    replies = [ask(backend, "x").text for backend in backends]

    assert replies == ["<USER>X", "[claims-v1]<USER>X", "[claims-v2]<USER>X"]
    [arguments] = list_engines()
    assert (arguments.enable_lora, arguments.max_loras, arguments.max_lora_rank) == (True, 2, 32)
    assert len({backend.identity for backend in backends}) == 3


def test_the_identity_follows_the_files_and_not_their_place(context, tmp_path):
    before = open_vllm(adapter(lora="claims-v2"), context).identity
    (tmp_path / "base").rename(tmp_path / "moved")
    assert open_vllm(adapter(lora="claims-v2", model="moved"), context).identity == before

    (tmp_path / "claims-v2" / "adapter_model.safetensors").write_bytes(b"trained further")
    assert open_vllm(adapter(lora="claims-v2", model="moved"), context).identity != before


def test_results_of_a_stand_in_are_marked_simulated(context):
    assert open_vllm(adapter(), context).simulated


def test_a_tokenizer_without_a_chat_template_reads_texts_and_token_ids_but_no_messages(context, tmp_path):
    write_model(tmp_path / "plain")
    backend = open_vllm(adapter(model="plain"), context)

    assert ask(backend, "hi").text == "HI"
    assert ask(backend, [104, 105]).text == "HI"
    with pytest.raises(Refused, match="no chat template: send a text"):
        ask(backend, [{"role": "user", "content": "hi"}])


def test_an_engine_that_died_is_started_again_by_the_next_attempt(context):
    backend = open_vllm(adapter(), context)
    ask(backend)

    async def die_and_ask_again():
        request = Request(input="x", sample="a", repeat=0)
        (await backend._engine.get()).is_dead = True
        with pytest.raises(Retryable, match="engine of adapter 'v2' has died"):
            await backend.generate(request)
        return await backend.generate(request)

    assert asyncio.run(die_and_ask_again()).text == "<USER>X"
    assert len(list_engines()) == 2


def test_a_prompt_that_is_too_long_is_the_models_failure(context):
    backend = open_vllm(adapter(engine={"max_model_len": 10}), context)

    with pytest.raises(BackendError, match="adapter 'v2' cannot read a prompt: The prompt has 106 tokens"):
        ask(backend, "x" * 100)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"model": "Qwen/Qwen3-8B"}, "has model = 'Qwen/Qwen3-8B', which is not a folder on this machine: download it"),
        ({"lora": "missing"}, "has lora = 'missing', which is not a folder"),
        ({"engine": 3}, "has engine = 3: write engine = {"),
        ({"gpu": 1}, "'gpu'"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(context, wrong, sentence):
    with pytest.raises(SpecError) as error:
        open_vllm(adapter(**wrong), context)
    assert sentence in str(error.value)


def test_parameters_of_servers_alone_are_refused(context):
    with pytest.raises(SpecError, match="'tools' is a parameter of servers"):
        open_vllm(adapter(parameters={"tools": []}), context)


def test_without_vllm_the_extra_is_named(context, monkeypatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(STAND_IN)])
    with pytest.raises(SpecError, match=r'pip install "pytest-crucible\[vllm\]"'):
        open_vllm(adapter(), context)
