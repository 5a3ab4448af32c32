"""How well a reply cites: several questions that have been called one name, each with a name of its own.

Recall failures are no inventions: a reply that leaves out a document has not made one up. `exists` alone speaks of invention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

_EVALUATION = re.compile(r"[Dd]ocument\s+(\d+)|doc_id[:\s=]+(\d+)|\[(\d{5,})\]")
_TRAINING = re.compile(r"document\s+(\d+):|\(document\s+(\d+)\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Citations:
    """What was cited, what should have been, and what could have been."""

    cited: frozenset[str]
    gold: frozenset[str]
    shown: frozenset[str]
    """The documents of the prompt."""

    @property
    def precision(self) -> float | None:
        """Share of the cited documents that are gold; None where none is cited."""
        return len(self.cited & self.gold) / len(self.cited) if self.cited else None

    @property
    def recall(self) -> float | None:
        """Share of the gold documents that are cited; None where there is no gold document."""
        return len(self.cited & self.gold) / len(self.gold) if self.gold else None

    @property
    def exists(self) -> float | None:
        """Share of the cited documents that the prompt has; what is missing from 1 is invented. None where none is cited."""
        return len(self.cited & self.shown) / len(self.cited) if self.cited else None

    @property
    def any(self) -> bool | None:
        """Is a gold document cited? None where there is none."""
        return bool(self.cited & self.gold) if self.gold else None

    @property
    def complete(self) -> bool:
        """Something is cited and no gold document is left out, whatever else is cited: what Thinker's evaluation calls valid."""
        return bool(self.cited) and self.gold <= self.cited

    @property
    def exact(self) -> bool | None:
        """A gold document is cited and nothing else is; None where there is no gold document."""
        return bool(self.cited) and self.cited <= self.gold if self.gold else None


@lru_cache(maxsize=1)
def mentioned(reply: str) -> frozenset[str]:
    """All ids that Thinker's evaluation takes for citations: anywhere in the reply, also where it echoes the prompt.

    >>> sorted(mentioned("Document 12 says so, doc_id=7, see [31715818] and [3]"))
    ['12', '31715818', '7']
    """
    return _ids(_EVALUATION.findall(reply))


def mentioned_in_training(completion: str) -> frozenset[str]:
    """All ids that Thinker's training takes for citations.

    >>> sorted(mentioned_in_training("Document 12: title. CLAIM[c2] (Document 7): text. Document 9 says"))
    ['12', '7']
    """
    return _ids(_TRAINING.findall(completion))


def _ids(found: Iterable[tuple[str, ...]]) -> frozenset[str]:
    return frozenset(one for groups in found for one in groups if one)
