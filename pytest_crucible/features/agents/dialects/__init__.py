"""The dialects of clients: how a request is read, and how a reply is written back in the dialect of the request.

Everything here is computing: no server, no model. All dialects are read into the form of chat completions, so that a client of
one API works with an arm behind another.
"""

from __future__ import annotations

from pytest_crucible.features.agents.dialects.chat import Chat
from pytest_crucible.features.agents.dialects.dialect import ClientRequest, Dialect, StreamWriter
from pytest_crucible.features.agents.dialects.messages import Messages
from pytest_crucible.features.agents.dialects.responses import Responses

CHAT: Dialect = Chat()
RESPONSES: Dialect = Responses()
MESSAGES: Dialect = Messages()

__all__ = ["CHAT", "MESSAGES", "RESPONSES", "ClientRequest", "Dialect", "StreamWriter"]
