"""The responses of one unit, for clients that send what is new and name what came before.

A provider stores responses; here they are kept while the unit's function runs, and the arm gets the whole conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from http import HTTPStatus
from typing import Any

from pytest_crucible.local_model.server.openai_bodies import read_objects
from pytest_crucible.local_model.server.transport import Refusal
from pytest_crucible.quick_dataclass import dataclass

Fields = dict[str, Any]

_PREVIOUS = "previous_response_id"


@dataclass(eq=False)
class KeptResponses:
    """Keeps the responses of one unit, which its requests may refer to."""

    _conversations: dict[str, list[Fields]] = field(default_factory=dict)
    """The items up to the end of each response, by its id; without instructions, which each request sends again."""
    _items: dict[str, Fields] = field(default_factory=dict)

    def complete(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a request with the items that it refers to. Raises Refusal for anything that this unit did not get."""
        before, items = self._find_conversation(body.get(_PREVIOUS)), _input_items(body)
        if not before and not any(item.get("type") == "item_reference" for item in items):
            return body
        return {**body, _PREVIOUS: None, "input": [*before, *map(self._find_item, items)]}

    def keep(self, body: Mapping[str, Any], response: Mapping[str, Any]) -> None:
        """Keep the response to a request that is complete, unless the client wants nothing stored."""
        if body.get("store") is not False:
            output = response["output"]
            self._conversations[response["id"]] = [*_input_items(body), *output]
            self._items.update({item["id"]: item for item in output})

    def _find_conversation(self, previous: Any) -> list[Fields]:
        if not previous:
            return []
        if (conversation := self._conversations.get(str(previous))) is None:
            sentence = (
                f"{_PREVIOUS} {str(previous)[:80]!r} was not given to this sample: send the whole conversation as input"
            )
            raise Refusal(sentence, HTTPStatus.BAD_REQUEST, "previous_response_not_found")
        return conversation

    def _find_item(self, item: Fields) -> Fields:
        if item.get("type") != "item_reference":
            return item
        if (whole := self._items.get(str(item.get("id")))) is None:
            raise Refusal(f"item {str(item.get('id'))[:80]!r} was not given to this sample: send it whole")
        return whole


def _input_items(body: Mapping[str, Any]) -> list[Fields]:
    content = body.get("input")
    if isinstance(content, str):
        return [{"role": "user", "content": content}]
    return read_objects(content or [], "input")
