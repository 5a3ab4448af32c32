"""The local Tinker server in OpenAI's form."""

from __future__ import annotations

import pytest
from tinker_http import OpenAI, save


@pytest.fixture
def openai(server) -> OpenAI:
    return OpenAI(server)


def test_completions(openai, tokenizer):
    status, answer = openai.complete(prompt=["claim 7", "evidence"], n=2, logprobs=2)

    assert status == 200
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert {choice["finish_reason"] for choice in answer["choices"]} == {"length"}
    prompts = len(tokenizer.encode("claim 7")) + len(tokenizer.encode("evidence"))
    assert answer["usage"] == {"prompt_tokens": prompts, "completion_tokens": 16, "total_tokens": prompts + 16}
    assert len(answer["choices"][0]["logprobs"]["token_logprobs"]) == 4


def test_chat_completions(openai, tokenizer):
    messages = [{"role": "system", "content": "claim"}, {"role": "user", "content": [{"type": "text", "text": "7"}]}]
    status, answer = openai.complete("chat/completions", messages=messages, logprobs=True, top_logprobs=2)
    (choice,) = answer["choices"]

    assert status == 200
    assert choice["message"]["role"] == "assistant"
    assert len(choice["logprobs"]["content"][0]["top_logprobs"]) == 2
    assert answer["usage"]["prompt_tokens"] == len(tokenizer.encode("claim\n\nQuestion: 7\nAnswer:"))


def test_checkpoints_are_models_by_path_and_by_name(openai, http_client, session):
    created = http_client.post("/create_model", session_id=session, model_seq_id=0, base_model="crucible/tiny")
    path = save(http_client, created["model_id"], 1, "/save_weights_for_sampler", path="shown")["path"]
    status, models = openai.call("GET", "/oai/api/v1/models")

    assert status == 200
    assert {"crucible/tiny", path} <= {model["id"] for model in models["data"]}
    assert all(openai.complete(prompt="claim", model=name)[0] == 200 for name in (path, "shown", "local:shown"))


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"prompt": "a", "model": "gpt-4"}, 404, "unknown model 'gpt-4'"),
        ({"prompt": "a", "model": "tinker://a/sampler_weights/b"}, 404, "unknown checkpoint"),
        ({"prompt": "a", "stream": True, "logprobs": 2}, 400, "logprobs are not streamed by this server"),
        ({"prompt": "a" * 900, "stream": True}, 400, "maximum context length is 128 tokens"),
        (
            {"prompt": "a", "response_format": {"type": "json_object"}},
            400,
            "response_format is not supported by this server: leave it out",
        ),
        (
            {"prompt": "a", "best_of": 3, "min_p": 0.1},
            400,
            "min_p, best_of is not supported by this server",
        ),
        ({"prompt": "a", "top_k": 0}, 400, "top_k must be -1 (all tokens) or at least 1, not 0"),
        ({"prompt": "a " * 500}, 400, "leaves no room in a context of 128"),
        ({"prompt": {}}, 400, "prompt must be a list of whole numbers"),
        ({"prompt": "a", "temperature": "hot"}, 400, "temperature must be a finite number"),
        ({"prompt": "a", "n": 1000}, 400, "n must be between 1 and 128"),
    ],
)
def test_errors_have_openais_form(openai, body, status, sentence):
    got, answer = openai.complete(**body)

    assert got == status
    assert sentence in answer["error"]["message"]
    assert set(answer["error"]) == {"message", "type", "param", "code"}


def test_parameters_that_state_the_default_are_accepted(openai):
    ordinary = {"response_format": {"type": "text"}, "repetition_penalty": 1.0, "best_of": 1, "stream": False}

    assert openai.complete(prompt="a", **ordinary)[0] == 200


def test_a_one_token_completion_has_one_draw(openai):
    options = {"prompt": "The claim", "max_tokens": 8}

    assert text_of(openai.complete(**options, top_k=1)) == text_of(openai.complete(**options, temperature=0.0))


def text_of(completed):
    return completed[1]["choices"][0]["text"]


def test_a_wrong_key_has_openais_form(server):
    status, answer = OpenAI(server, **{"x-api-key": "no"}).complete(prompt="a")

    assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
