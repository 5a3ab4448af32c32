"""OpenAI's /responses, for clients whose whole conversation comes with each request.

A reply has one choice here; a truncated one has the status `incomplete`, at which openai-agents raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_crucible.features.agents.dialects.dialect import ClientRequest, leave_out_provider_tools
from pytest_crucible.local_model.server.openai_responses import (
    ResponseEvents,
    ResponseForm,
    read_request,
    write_response,
)
from pytest_crucible.local_model.server.openai_tools import list_tools, read_own_tools
from pytest_crucible.local_model.server.openai_wire import write_error
from pytest_crucible.records import Reply

_PROVIDER_TOOLS = ("web_search", "file_search", "code_interpreter", "image_generation", "mcp", "tool_search")


class Responses:
    """Reads and writes responses."""

    def read(self, body: Mapping[str, Any]) -> ClientRequest:
        tools, left_out = leave_out_provider_tools(list_tools(body), _PROVIDER_TOOLS)
        parameters = read_request(body, tools)
        messages, model = parameters.pop("messages"), parameters.pop("model")
        stream, own_tools = body.get("stream") is True, read_own_tools(tools)
        return ClientRequest(messages, parameters, model, stream, own_tools=own_tools, left_out=left_out)

    def answer(self, request: ClientRequest, reply: Reply, answer_id: str, created: int) -> dict[str, Any]:
        return write_response(_form(request, answer_id, created), reply)

    def stream(self, request: ClientRequest, answer_id: str, created: int) -> ResponseEvents:
        return ResponseEvents(_form(request, answer_id, created))

    def error(self, sentence: str, status: int, code: str | None) -> dict[str, Any]:
        return write_error(sentence, status, code)


def _form(request: ClientRequest, answer_id: str, created: int) -> ResponseForm:
    parameters, earlier_calls = request.parameters, request.earlier_calls
    return ResponseForm(answer_id, created, request.model, parameters, earlier_calls, request.own_tools)
