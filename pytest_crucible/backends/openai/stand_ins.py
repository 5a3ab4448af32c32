"""Detects that a local Tinker server lets another model answer under a model's name."""

from __future__ import annotations

import http.client
import json

from pytest_crucible.backends.openai.settings import Settings

# The path of Tinker's endpoint in OpenAI's format; a local server is the only one at this path on the loopback interface.
_PATH = "/oai/api/v1"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
# The list of models of a local server takes milliseconds; a busy machine may need longer.
_PATIENCE_S = 2.0


def is_stand_in(settings: Settings) -> bool:
    """Return whether a server lists the model as a stand-in. Only servers on this machine are queried. False without an answer."""
    address = settings.address
    if address.host not in _LOOPBACK or address.path.rstrip("/") != _PATH or address.scheme != "http":
        return False
    connection = http.client.HTTPConnection(address.host, address.port, timeout=_PATIENCE_S)
    try:
        connection.request("GET", f"{_PATH}/models", headers=dict(settings.headers))
        models = json.loads(connection.getresponse().read())["data"]
        return any(model["id"] == settings.model and "stand_in" in model for model in models)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return False
    finally:
        connection.close()
