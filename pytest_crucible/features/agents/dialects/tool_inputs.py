"""Arguments of tool calls: an object in Messages, a text in chats.

A model may write arguments that are not a JSON object. They are an object with that text, which the tool refuses as it would refuse
other bad arguments, and become the text again when they come back.
"""

from __future__ import annotations

import json
from typing import Any

MALFORMED = "malformed_arguments"


def write_input(arguments: str) -> dict[str, Any]:
    """Return the object of a call's arguments.

    >>> write_input('{"city": "Bern"}'), write_input('{"city": ')
    ({'city': 'Bern'}, {'malformed_arguments': '{"city": '})
    """
    try:
        content = json.loads(arguments or "{}", parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        content = None
    return content if isinstance(content, dict) else {MALFORMED: arguments}


def read_arguments(content: Any) -> str:
    """Return the text of a call's arguments.

    >>> read_arguments({"city": "Bern"}), read_arguments({"malformed_arguments": '{"city": '})
    ('{"city": "Bern"}', '{"city": ')
    """
    if isinstance(content, dict) and list(content) == [MALFORMED]:
        return str(content[MALFORMED])
    return json.dumps({} if content is None else content, ensure_ascii=False)


def _refuse_constant(name: str) -> None:
    """Raise ValueError: Python reads NaN and Infinity, which are not JSON."""
    raise ValueError(f"{name} is not JSON")
