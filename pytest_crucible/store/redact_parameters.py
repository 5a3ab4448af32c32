"""Hides keys in every value that a statement has: all that is written to the database passes here, whichever command writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Engine, event

from pytest_crucible.records.process_secrets import hide_encoded

MOST_SHORT_TEXTS = 10_000
"""Names of metrics, arms and the like, which most rows repeat: looking one up takes a tenth of the time of hiding."""
_LONGEST_SHORT = 80


class ParameterRedactor:
    """Redacts the parameters of statements. Those of queries too, so that what is looked up by a name is found by it."""

    def __init__(self, hide: Callable[[str], str], is_redacted: Callable[[str], bool]) -> None:
        """`is_redacted` returns whether a text is known to be redacted: a reply is not read twice."""
        self._hide = hide
        self._is_redacted = is_redacted
        self._clean: set[str] = set()

    def install(self, engine: Engine) -> None:
        @event.listens_for(engine, "before_cursor_execute", retval=True)
        def redact(_c: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> Any:
            return statement, [*map(self._row, parameters)] if many else self._row(parameters)

    def redact(self, text: str) -> str:
        """Return a text as the database has it."""
        if len(text) < _LONGEST_SHORT:
            if text in self._clean:
                return text
        elif self._is_redacted(text):
            return text
        redacted = hide_encoded(text, self._hide)
        if redacted == text and len(text) < _LONGEST_SHORT:
            self._remember(text)
        return redacted

    def _row(self, row: Any) -> Any:
        """Return the parameters of one execution, by place or by name."""
        values = row.values() if isinstance(row, Mapping) else row
        changed = {text: new for text in values if type(text) is str and (new := self.redact(text)) != text}
        if not changed:
            return row
        if isinstance(row, Mapping):
            return {name: changed.get(value, value) if type(value) is str else value for name, value in row.items()}
        return type(row)(changed.get(value, value) if type(value) is str else value for value in row)

    def _remember(self, text: str) -> None:
        if len(self._clean) >= MOST_SHORT_TEXTS:
            self._clean = set()
        self._clean.add(text)
