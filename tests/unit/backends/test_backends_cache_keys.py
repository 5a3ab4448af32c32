"""Keys of requests and of adapters."""

from __future__ import annotations

import dataclasses
import json
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import plain_values

from pytest_crucible.backends.cache import CREDENTIALS, reply_key, settings_key, without_credentials
from pytest_crucible.records import Adapter, Request, Sample

PARTS = {
    "input": plain_values,
    "sample": st.text(max_size=1),
    "repeat": st.integers(0, 2),
    "call": st.integers(1, 3),
    "parameters": st.dictionaries(st.sampled_from(["stop", "seed"]), plain_values, max_size=2),
}
REQUESTS = st.builds(Request, **PARTS)


@pytest.mark.parametrize("part", PARTS)
@given(data=st.data())
def test_keys_are_equal_exactly_for_equal_requests(part, data):
    first = data.draw(REQUESTS)
    other = dataclasses.replace(first, **{part: data.draw(PARTS[part])})

    before, after = (json.dumps(getattr(request, part), sort_keys=True) for request in (first, other))
    assert (reply_key("v2", first) == reply_key("v2", other)) == (before == after)


@given(REQUESTS)
def test_key_ignores_parameter_order_experiment_and_arm(request):
    backwards = MappingProxyType(dict(reversed(request.parameters.items())))
    same = dataclasses.replace(request, parameters=backwards, experiment="test_others", arm="base")

    assert reply_key("v2", same) == reply_key("v2", request) != reply_key("v1", request)


def test_messages_and_records_have_keys():
    messages = [{"role": "user", "content": "Why?"}]
    keys = [
        reply_key("v2", Request(input=prompt, sample="a", repeat=0)) for prompt in (messages, tuple(messages), Sample)
    ]

    assert keys[0] == keys[1] is not None
    assert keys[2] is None
    assert reply_key("v2", Request(input=Sample(id="a", input="?"), sample="a", repeat=0)) is not None


def selfish() -> list[object]:
    items: list[object] = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    "given_", [b"bytes", {1, 2}, 1j, {(1, 2): 3}, selfish()], ids=["bytes", "set", "complex", "key", "self"]
)
def test_request_that_is_not_json_has_no_key(given_):
    assert reply_key("v2", Request(input=given_, sample="a", repeat=0)) is None


@pytest.mark.parametrize("name", sorted(CREDENTIALS))
def test_credentials_are_not_part_of_keys(name):
    def keys(secret: str) -> tuple[str | None, str]:
        settings = {"model": "v2", name.title(): secret}
        request = Request(input="?", sample="a", repeat=0, parameters=settings)
        return reply_key("v2", request), settings_key(Adapter(name="v2", backend="mine", options=settings))

    assert keys("one") == keys("two")
    assert without_credentials({"model": "v2", name: "one"}) == {"model": "v2"}


@pytest.mark.parametrize("other", [{"name": "v3"}, {"backend": "other"}, {"options": {"model": "b"}}], ids=repr)
def test_settings_key_covers_name_and_settings(other):
    adapter = Adapter(name="v2", backend="mine", options={"model": "a"}, parameters={"temperature": 0.0})
    asked_otherwise = dataclasses.replace(adapter, parameters={"temperature": 1.0}, asking={"retries": 3})

    assert settings_key(asked_otherwise) == settings_key(adapter) != settings_key(dataclasses.replace(adapter, **other))
    assert settings_key(adapter, "local") != settings_key(adapter, "hosted")
