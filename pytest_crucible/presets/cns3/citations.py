"""Citations of a reply: several quantities that have shared one name elsewhere, each under its own name.

Low recall is not invention: a reply that leaves out a document has not made one up. Only `exists` measures invention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

# Thinker's own patterns, copied with their differences between evaluation and training.
_EVALUATION = re.compile(r"[Dd]ocument\s+(\d+)|doc_id[:\s=]+(\d+)|\[(\d{5,})\]")
_TRAINING = re.compile(r"document\s+(\d+):|\(document\s+(\d+)\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Citations:
    """The documents that were cited, that should have been, and that could have been."""

    cited: frozenset[str]
    gold: frozenset[str]
    shown: frozenset[str]
    """The documents of the prompt."""

    @property
    def precision(self) -> float | None:
        """Share of the cited documents that are gold; None if none is cited."""
        return len(self.cited & self.gold) / len(self.cited) if self.cited else None

    @property
    def recall(self) -> float | None:
        """Share of the gold documents that are cited; None without gold documents."""
        return len(self.cited & self.gold) / len(self.gold) if self.gold else None

    @property
    def exists(self) -> float | None:
        """Share of the cited documents that are in the prompt; the rest are invented. None if none is cited."""
        return len(self.cited & self.shown) / len(self.cited) if self.cited else None

    @property
    def any(self) -> bool | None:
        """True if a gold document is cited; None without gold documents."""
        return bool(self.cited & self.gold) if self.gold else None

    @property
    def complete(self) -> bool:
        """True if something is cited and no gold document is left out: valid by Thinker's evaluation."""
        return bool(self.cited) and self.gold <= self.cited

    @property
    def exact(self) -> bool | None:
        """True if gold documents are cited and no others; None without gold documents."""
        return bool(self.cited) and self.cited <= self.gold if self.gold else None


@lru_cache(maxsize=1)
def mentioned_ids(reply: str) -> frozenset[str]:
    """Return the ids that Thinker's evaluation takes for citations: anywhere in the reply, even where it echoes the prompt.

    >>> sorted(mentioned_ids("Document 12 says so, doc_id=7, see [31715818] and [3]"))
    ['12', '31715818', '7']
    """
    return _ids(_EVALUATION.findall(reply))


def ids_in_training(completion: str) -> frozenset[str]:
    """Return the ids that Thinker's training takes for citations.

    >>> sorted(ids_in_training("Document 12: title. CLAIM[c2] (Document 7): text. Document 9 says"))
    ['12', '7']
    """
    return _ids(_TRAINING.findall(completion))


def _ids(matches: Iterable[tuple[str, ...]]) -> frozenset[str]:
    return frozenset(group for groups in matches for group in groups if group)
