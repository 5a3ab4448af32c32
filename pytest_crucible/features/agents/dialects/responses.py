"""OpenAI's /responses, for clients whose whole conversation comes with each request.

A reply has one choice here; a truncated one has the status `incomplete`, at which openai-agents raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_crucible.features.agents.dialects.dialect import ClientRequest
from pytest_crucible.local_model.server.openai_responses import (
    ResponseEvents,
    ResponseForm,
    read_request,
    write_response,
)
from pytest_crucible.local_model.server.openai_wire import write_error
from pytest_crucible.records import Reply


class Responses:
    """Reads and writes responses."""

    def read(self, body: Mapping[str, Any]) -> ClientRequest:
        parameters = read_request(body)
        messages, model = parameters.pop("messages"), parameters.pop("model")
        return ClientRequest(messages, parameters, model, stream=body.get("stream") is True)

    def answer(self, request: ClientRequest, reply: Reply, answer_id: str, created: int) -> dict[str, Any]:
        return write_response(_form(request, answer_id, created), reply)

    def stream(self, request: ClientRequest, answer_id: str, created: int) -> ResponseEvents:
        return ResponseEvents(_form(request, answer_id, created))

    def error(self, sentence: str, status: int, code: str | None) -> dict[str, Any]:
        return write_error(sentence, status, code)


def _form(request: ClientRequest, answer_id: str, created: int) -> ResponseForm:
    return ResponseForm(answer_id, created, request.model, request.parameters, request.earlier_calls)
