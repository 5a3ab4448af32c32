"""Request bodies for inputs and parameters."""

from __future__ import annotations

import pytest

from pytest_crucible.records.errors import BackendError, Refused

MESSAGES = [{"role": "user", "content": "2 + 2"}]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]


@pytest.fixture
def sent(ask, server):
    """Path and body of what is sent for an input."""

    def sent(prompt="2 + 2", **options):
        ask(prompt, **options)
        last = server.requests()[-1]
        return last["path"].removeprefix("/v1"), last["body"]

    return sent


def test_text_becomes_a_user_message(sent):
    assert sent() == ("/chat/completions", {"model": "m", "messages": MESSAGES})


def test_messages_are_sent_unchanged(sent):
    parts = [{"role": "user", "content": [{"type": "text", "text": "2 + 2"}], "name": "ü"}, *MESSAGES]

    assert sent(parts)[1]["messages"] == parts


def test_token_ids_use_completions(sent):
    assert sent([1, 2, 3]) == ("/completions", {"model": "m", "prompt": [1, 2, 3]})


def test_mode_completions_sends_the_text(sent):
    assert sent("2 +", mode="completions") == ("/completions", {"model": "m", "prompt": "2 +"})


def test_system_prompt_is_first(sent):
    system = {"role": "system", "content": "Be short."}

    assert sent(system="Be short.")[1]["messages"] == [system, *MESSAGES]
    assert sent(MESSAGES, system="Be short.")[1]["messages"] == [system, *MESSAGES]


def test_parameters_are_sent_unless_none(sent):
    parameters = {
        "temperature": 0,
        "max_tokens": 5,
        "stop": ["\n"],
        "tools": TOOLS,
        "tool_choice": "auto",
        "response_format": {"type": "json_schema", "json_schema": {"name": "claims", "schema": {}}},
        "logit_bias": {"50256": -100},
        "top_p": None,
    }
    _, body = sent(parameters=parameters)

    assert body == {"model": "m", "messages": MESSAGES} | {
        name: value for name, value in parameters.items() if value is not None
    }


def test_extra_body_is_merged(sent):
    _, body = sent(extra_body={"guided_regex": "[0-9]+", "temperature": 0.5}, parameters={"temperature": 1.0})

    assert (body["guided_regex"], body["temperature"]) == ("[0-9]+", 0.5)


def test_seed_is_derived_from_sample_and_repeat(sent):
    def seed(sample, repeat, base):
        return sent(sample=sample, repeat=repeat, parameters={"seed": base})[1]["seed"]

    seeds = [seed(*place) for place in (("a", 0, 1), ("b", 0, 1), ("a", 1, 1), ("a", 0, 2))]

    assert len(set(seeds)) == 4
    assert seed("a", 0, 1) == seeds[0]


@pytest.mark.parametrize(
    ("mode", "parameters", "expected"),
    [
        ("chat", {"logprobs": True}, {"logprobs": True}),
        ("chat", {"logprobs": True, "top_logprobs": 3}, {"logprobs": True, "top_logprobs": 3}),
        ("chat", {"logprobs": 3}, {"logprobs": True, "top_logprobs": 3}),
        ("chat", {"logprobs": False}, {}),
        ("completions", {"logprobs": True}, {"logprobs": 1}),
        ("completions", {"logprobs": True, "top_logprobs": 3}, {"logprobs": 3}),
        ("completions", {"logprobs": 3}, {"logprobs": 3}),
        ("completions", {"logprobs": False, "top_logprobs": 3}, {}),
    ],
)
def test_logprobs_take_each_endpoints_form(sent, mode, parameters, expected):
    _, body = sent(mode=mode, parameters=parameters)

    assert {name: body[name] for name in ("logprobs", "top_logprobs") if name in body} == expected


def test_stream_requests_usage(sent):
    _, body = sent(stream=True)

    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


@pytest.mark.parametrize(
    ("prompt", "options", "sentence"),
    [
        ({"text": "a"}, {}, "its input is a dict; expected a text, a list of messages or a list of token ids"),
        ([], {}, "its input is an empty list; expected a text"),
        (None, {}, "its input is None"),
        (b"a", {}, "its input is bytes"),
        ([{"content": "a"}], {}, "a message of its input has no role"),
        (["a"], {}, "a message of its input has no role"),
        ([1, 2], {"mode": "chat"}, "its input is a list of token ids, which only completions accept"),
        ([1, 2], {"system": "s"}, "the adapter has a system prompt, which token ids do not allow"),
        (MESSAGES, {"mode": "completions"}, "its input is a list; completions expect a text or a list of token ids"),
        (
            [{"role": "system", "content": "t"}],
            {"system": "s"},
            "the messages begin with another one: remove one of them",
        ),
        ([{"role": "user", "content": {1, 2}}], {}, "not JSON serializable"),
        ("a", {"parameters": {"temprature": 1}}, "unknown parameter 'temprature': did you mean 'temperature'?"),
        ("a", {"parameters": {"zzz": 1}}, "parameters of this server alone go into extra_body"),
        ("a", {"parameters": {"temperature": "hot"}}, "temperature must be a number, not 'hot'"),
        ("a", {"parameters": {"temperature": float("nan")}}, "temperature must be a number, not nan"),
        ("a", {"extra_body": {"top_a": float("nan")}}, "not JSON compliant"),
        ("a", {"parameters": {"temperature": True}}, "temperature must be a number, not True"),
        ("a", {"parameters": {"max_tokens": 1.5}}, "max_tokens must be a whole number from 1, not 1.5"),
        ("a", {"parameters": {"n": 0}}, "n must be a whole number from 1, not 0"),
        ("a", {"parameters": {"stop": [""]}}, "stop must be a text or a list of texts, none of them empty"),
        ("a", {"parameters": {"response_format": "json"}}, "response_format must be a table"),
        ("a", {"parameters": {"tools": {"name": "add"}}}, "tools must be a list of tables"),
        ("a", {"parameters": {"logprobs": -1}}, "logprobs must be true, false, or a number of alternatives"),
    ],
)
def test_invalid_requests_are_refused_before_sending(ask, server, prompt, options, sentence):
    with pytest.raises(Refused) as caught:
        ask(prompt, **options)

    assert str(caught.value).startswith("adapter 'v2' cannot send sample 'a': ")
    assert sentence in str(caught.value)
    assert server.counts()["requests"] == 0


def test_invalid_unicode_loses_only_its_sample(ask):
    with pytest.raises(
        BackendError, match="adapter 'v2' cannot send sample 'a': its text is not valid Unicode"
    ) as caught:
        ask("\ud800")

    assert not isinstance(caught.value, Refused)
