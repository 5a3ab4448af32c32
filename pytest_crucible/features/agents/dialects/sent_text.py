"""The text of a streamed answer that has been sent."""

from __future__ import annotations

from typing import ClassVar


class SentText:
    """Collects pieces, and compares them with the whole text at the end."""

    DIFFERS: ClassVar[str] = (
        "the reply does not begin with the pieces that were streamed: send the request without stream"
    )

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def __bool__(self) -> bool:
        """Return whether any text was sent."""
        return any(self._pieces)

    def add(self, text: str) -> None:
        self._pieces.append(text)

    def rest(self, text: str) -> str | None:
        """Return what is left of the whole text; None if it begins otherwise."""
        sent = "".join(self._pieces)
        return text[len(sent) :] if text.startswith(sent) else None
