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
        ({"prompt": "a", "stream": True, "echo": True}, 400, "echo is not streamed by this server"),
        ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens must be at least 1"),
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


def test_a_prompt_is_scored_with_echo(openai, tokenizer):
    prompt = tokenizer.encode("claim 7 of the evidence")
    status, answer = openai.complete(prompt=prompt, echo=True, logprobs=2, max_tokens=3, seed=1)
    (choice,) = answer["choices"]
    scores = choice["logprobs"]
    _, alone = openai.complete(prompt=prompt, echo=True, logprobs=2, max_tokens=0)
    _, plain = openai.complete(prompt=prompt, max_tokens=3, seed=1)

    assert status == 200
    assert choice["text"] == tokenizer.decode(prompt) + plain["choices"][0]["text"]
    assert len(scores["tokens"]) == len(scores["token_logprobs"]) == len(scores["text_offset"]) == len(prompt) + 3
    assert (scores["token_logprobs"][0], scores["top_logprobs"][0]) == (None, None)
    assert all(
        value <= max(top.values()) + 1e-6
        for value, top in zip(scores["token_logprobs"][1:], scores["top_logprobs"][1:], strict=True)
    )
    assert alone["choices"][0]["text"] == tokenizer.decode(prompt)
    assert alone["choices"][0]["logprobs"]["token_logprobs"] == scores["token_logprobs"][: len(prompt)]
    assert alone["usage"]["completion_tokens"] == 0


def test_a_prompt_that_fills_the_context_is_scored_without_a_reply(openai):
    status, answer = openai.complete(prompt=[97] * 128, echo=True, logprobs=0, max_tokens=0)
    scores = answer["choices"][0]["logprobs"]["token_logprobs"]

    assert (status, len(scores), scores.count(None)) == (200, 128, 1)
    assert openai.complete(prompt=[97] * 129, echo=True, logprobs=0, max_tokens=0)[0] == 400


def test_each_reply_to_each_prompt_follows_its_own_prompt(openai, tokenizer):
    prompts = [tokenizer.encode("claim 7"), tokenizer.encode("b")]
    choices = openai.complete(prompt=prompts, echo=True, logprobs=0, n=2, max_tokens=2)[1]["choices"]

    texts = ["claim 7", "claim 7", "b", "b"]
    assert all(choice["text"].startswith(text) for choice, text in zip(choices, texts, strict=True))
    assert [len(choice["logprobs"]["tokens"]) for choice in choices] == [
        len(prompt) + 2 for prompt in prompts for _ in range(2)
    ]
    assert all(choice["logprobs"]["top_logprobs"] is None for choice in choices)


@pytest.mark.parametrize(
    ("path", "body", "read"),
    [
        (
            "completions",
            {"prompt": "claim 7", "logprobs": 2},
            lambda scores: list(
                zip(
                    scores["tokens"],
                    scores["token_logprobs"],
                    scores["top_logprobs"],
                    scores["text_offset"],
                    strict=True,
                )
            ),
        ),
        (
            "chat/completions",
            {"messages": [{"role": "user", "content": "claim 7"}], "logprobs": True, "top_logprobs": 2},
            lambda scores: scores["content"],
        ),
    ],
)
def test_streamed_log_probabilities_are_those_of_the_whole_reply(openai, path, body, read):
    body = {**body, "max_tokens": 12, "seed": 3}
    whole = openai.complete(path, **body)[1]["choices"][0]["logprobs"]

    pieces = [choice["logprobs"] for event in openai.stream(path, **body) for choice in event["choices"]]

    assert [row for piece in pieces for row in read(piece)] == read(whole)
    assert len(pieces) > 2


def test_one_model_is_described_by_each_of_its_names(openai):
    status, described = openai.call("GET", "/oai/api/v1/models/crucible/tiny")
    quoted = openai.call("GET", "/oai/api/v1/models/crucible%2Ftiny")[1]

    assert (status, described["id"], described["object"]) == (200, "crucible/tiny", "model")
    assert quoted == described
    assert openai.call("GET", "/oai/api/v1/models/gpt-4")[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        (
            "chat/completions",
            {"messages": [{"role": "robot", "content": "a"}]},
            "a message has the role 'robot'; expected system, ",
        ),
        (
            "chat/completions",
            {"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2},
            "top_logprobs needs logprobs: true",
        ),
        ("embeddings", {"input": []}, "there is nothing to embed"),
        (
            "chat/completions",
            {
                "messages": [{"role": "user", "content": "a"}],
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": {"type": "string", "minLength": 10**400}},
                },
            },
            "a reply in this format has 1e+09 tokens at least",
        ),
        ("embeddings", {"input": ["a", ""]}, "there is nothing to embed"),
    ],
)
def test_what_cannot_be_answered_is_an_error(openai, path, body, sentence):
    status, answer = openai.complete(path, **body)

    assert status == 400
    assert sentence in answer["error"]["message"]
