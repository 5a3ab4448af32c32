"""Replies from responses, in the forms that servers have."""

from __future__ import annotations

import pytest

from pytest_crucible.backends.openai.responses import check_choices, parse_reply
from pytest_crucible.records import Reply
from pytest_crucible.records.errors import Refused, Retryable


def reply(answer) -> Reply:
    return parse_reply(answer, seconds=0.5, first_token_s=0.1, where="http://a")


def chat(message, **choice) -> Reply:
    return reply({"choices": [{"message": message, **choice}]})


def test_complete_response_is_parsed():
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    answer = {
        "model": "m-2026",
        "choices": [
            {"index": 1, "message": {"content": "5"}, "finish_reason": "length"},
            {
                "index": 0,
                "message": {"content": "4", "tool_calls": [call]},
                "finish_reason": "tool_calls",
                "logprobs": {"content": [{"token": "4", "logprob": -0.25}]},
            },
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2},
    }

    assert reply(answer) == Reply(
        text="4",
        input_tokens=7,
        output_tokens=2,
        latency_s=0.5,
        first_token_s=0.1,
        finish="tool_calls",
        logprobs=(-0.25,),
        tool_calls=(call,),
        alternatives=(Reply(text="5", finish="length"),),
        model="m-2026",
    )


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": ""}, ""),
        ({"content": None}, ""),
        ({}, ""),
        ({"content": None, "refusal": "I will not."}, "I will not."),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab"),
        ({"content": " 4 ", "reasoning_content": "2 and 2"}, " 4 "),
    ],
)
def test_message_text_is_read(message, text):
    assert chat(message).text == text


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        (None, "stop"),
        ("eos", "stop"),
        ("end_turn", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("function_call", "tool_calls"),
        ("a very uncommon word here", "a very uncommon "),
    ],
)
def test_finish_reasons_are_mapped(reason, finish):
    assert chat({"content": "4"}, finish_reason=reason).finish == finish


@pytest.mark.parametrize(
    ("value", "logprobs"),
    [
        (None, None),
        ({}, None),
        ({"content": None}, None),
        ({"content": []}, None),
        ({"content": [{"logprob": -1}, {"logprob": -2.5}]}, (-1.0, -2.5)),
        ({"token_logprobs": [None, -0.5], "tokens": ["a", "b"]}, (-0.5,)),
        ({"token_logprobs": [float("nan"), -0.5]}, (-0.5,)),
        ({"token_logprobs": [float("nan")]}, None),
        ({"token_logprobs": [None]}, None),
    ],
)
def test_logprobs_are_read(value, logprobs):
    assert chat({"content": "4"}, logprobs=value).logprobs == logprobs


@pytest.mark.parametrize("count", [None, -1, 2**63, True, 1.5, "3"])
def test_missing_and_invalid_token_counts_are_unknown(count):
    usage = None if count is None else {"prompt_tokens": count, "completion_tokens": count}
    parsed = reply({"choices": [{"text": "4"}], "usage": usage})

    assert (parsed.text, parsed.input_tokens, parsed.output_tokens, parsed.model) == ("4", None, None, "")


@pytest.mark.parametrize(
    ("prompt", "usage", "counts"),
    [
        ("Hi", (0, 0), (None, None)),
        ([{"role": "user", "content": "Hi"}], (0, 3), (None, 3)),
        ([1, 2], (0, 0), (None, None)),
        ([{"role": "user", "content": ""}], (0, 0), (0, 0)),
        ("Hi", (2, 0), (2, 0)),
    ],
)
def test_no_tokens_of_a_prompt_with_text_are_unknown(prompt, usage, counts):
    answer = {
        "choices": [{"text": "4"}],
        "usage": dict(zip(("prompt_tokens", "completion_tokens"), usage, strict=True)),
    }
    parsed = parse_reply(answer, seconds=0.1, first_token_s=None, where="http://a", prompt=prompt)

    assert (parsed.input_tokens, parsed.output_tokens) == counts


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}, 4),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 5, "prompt_cache_miss_tokens": 4}, 5),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}, 0),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, None),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": -1}}, None),
        ({"prompt_tokens": None, "prompt_tokens_details": {"cached_tokens": 4}}, None),
    ],
)
def test_tokens_from_the_providers_prompt_cache_are_read(usage, cached):
    assert reply({"choices": [{"text": "4"}], "usage": usage}).cached_input_tokens == cached


def test_missing_choices_are_refused_or_retried():
    single, two = Reply(text="4"), Reply(text="4", alternatives=(Reply(text="5"),))

    with pytest.raises(Refused, match="http://a returned 1 of 3 choices: it ignores the parameter n"):
        check_choices(single, 3, "http://a")
    with pytest.raises(Retryable, match="http://a returned 2 of 3 choices"):
        check_choices(two, 3, "http://a")
    check_choices(single, None, "http://a")
    check_choices(two, 2, "http://a")
    check_choices(two, 1, "http://a")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{}]},
        {"choices": [{"message": "4"}]},
        {"choices": [{"message": {"content": [1]}}]},
        {"choices": [{"message": {"content": None, "tool_calls": {"name": "add"}}}]},
        {"choices": [{"message": {"content": None, "tool_calls": ["add"]}}]},
        {"choices": {"message": {}}},
    ],
)
def test_response_without_a_choice_is_retryable(answer):
    with pytest.raises(Retryable, match="http://a responded without a choice") as caught:
        reply(answer)

    assert caught.value.kind == "garbage"


@pytest.mark.parametrize("finish", ["abort", "error"])
def test_aborted_response_is_retryable(finish):
    with pytest.raises(Retryable, match=f"broke off its response .{finish}") as caught:
        chat({"content": "4"}, finish_reason=finish)

    assert caught.value.kind == "half"
