"""The function that redacts what a session stores and shows: keys that it knows, keys by their form, and a guard's findings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pytest_crucible.records.redaction import hider
from pytest_crucible.session.cut_words import remove_cut_words

if TYPE_CHECKING:
    from pytest_crucible.adapters.findings_redactor import FindingsRedactor


class KeyRedactor:
    """A function that redacts the known keys in a text, everything that looks like a key, and a guard's findings."""

    def __init__(self, keys: Iterable[str], findings: FindingsRedactor | None = None) -> None:
        """`findings` redacts the findings of the guard of --crucible-redact; None without one."""
        self._known = set(keys)
        self._hide = hider(self._known)
        self.findings = findings

    def hide_keys(self, text: str) -> str:
        """Return a text without keys; a guard's findings stay. Names, hashes and numbers as text may look like findings."""
        return self._hide(text)

    def __call__(self, text: str) -> str:
        text = self._hide(text)
        return text if self.findings is None else self.findings(text)

    def finds_late(self) -> bool:
        """Return whether a guard has found values after the run began to store and show texts."""
        return self.findings is not None and self.findings.found_late()

    def redact_cut(self, text: str) -> str:
        """Return a text of pytest's redacted: half of what a guard would find may stand beside an ellipsis, where pytest cut it."""
        return self(text if self.findings is None else remove_cut_words(text))

    def learn(self, *keys: str) -> None:
        """Redact these keys, too, from now on."""
        if not self._known.issuperset(keys):
            self._known.update(keys)
            self._hide = hider(self._known)
