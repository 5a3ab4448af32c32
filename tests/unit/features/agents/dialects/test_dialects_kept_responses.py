"""Requests that name an earlier response, or an item of it, get the conversation that they mean."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_crucible.features.agents.dialects import RESPONSES
from pytest_crucible.features.agents.dialects.kept_responses import KeptResponses
from pytest_crucible.local_model.server.transport import Refusal
from pytest_crucible.records import Reply

FUNCTION = {"name": "weather", "arguments": "{}"}
CALLING = Reply(text="", reasoning="Bern?", tool_calls=({"id": "c1", "type": "function", "function": FUNCTION},))
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}


def answer(responses: KeptResponses, reply: Reply, answer_id: str, **body: Any) -> list[dict[str, Any]]:
    """Return the messages that the arm gets, and keep its reply."""
    complete = responses.complete({"model": "m", **body})
    request = RESPONSES.read(complete)
    responses.keep(complete, RESPONSES.answer(request, reply, answer_id, 7))
    return request.messages


def test_a_request_goes_on_from_the_response_that_it_names():
    responses = KeptResponses()
    answer(responses, CALLING, "a", input="What is the weather?", instructions="Be brief.")
    answer(
        responses, Reply(text="Sunny."), "b", input=[RESULT], previous_response_id="resp_a", instructions="Be polite."
    )
    messages = answer(responses, Reply(text="Bye."), "c", input="Thanks.", previous_response_id="resp_b")

    assert messages == [
        {"role": "user", "content": "What is the weather?"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Bern?",
            "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "assistant", "content": "Sunny."},
        {"role": "user", "content": "Thanks."},
    ]


def test_two_requests_may_go_on_from_one_response():
    responses = KeptResponses()
    answer(responses, Reply(text="One."), "a", input="Count.")
    answer(responses, Reply(text="Two."), "b", input="Go on.", previous_response_id="resp_a")
    messages = answer(responses, Reply(text="Deux."), "c", input="In French.", previous_response_id="resp_a")

    assert [message["content"] for message in messages] == ["Count.", "One.", "In French."]


def test_a_reference_stands_for_the_item_with_its_id():
    responses = KeptResponses()
    answer(responses, CALLING, "a", input="What is the weather?")
    whole = [{"role": "user", "content": "What is the weather?"}, *responses._conversations["resp_a"][1:], RESULT]
    names = [{"type": "item_reference", "id": item["id"]} if "id" in item else item for item in whole]

    assert sum(item.get("type") == "item_reference" for item in names) == 2
    assert answer(responses, Reply(text="Sunny."), "b", input=names) == answer(
        responses, Reply(text="Sunny."), "c", input=whole
    )


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            {"previous_response_id": "resp_x"},
            "previous_response_id 'resp_x' was not given to this sample: send the whole",
        ),
        (
            {"input": [{"type": "item_reference", "id": "msg_x"}]},
            "item 'msg_x' was not given to this sample: send it whole",
        ),
    ],
)
def test_responses_of_another_sample_are_refused(body, sentence):
    with pytest.raises(Refusal, match=f"^{sentence}"):
        KeptResponses().complete({"model": "m", "input": "Hello", **body})


def test_what_a_client_does_not_want_stored_is_not_kept():
    responses = KeptResponses()
    answer(responses, Reply(text="One."), "a", input="Count.", store=False)

    with pytest.raises(Refusal, match="was not given to this sample"):
        responses.complete({"previous_response_id": "resp_a", "input": "Go on."})
