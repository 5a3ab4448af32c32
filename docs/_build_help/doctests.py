"""A griffe extension for mkdocstrings: turns the doctests of a docstring into code blocks."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_DOCTEST = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(Extension):
    """Fences each run of lines from a prompt to the next empty line."""

    def on_object(self, *, obj: Object, **_kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(lambda match: f"```python\n{match[0]}\n```", obj.docstring.value)
