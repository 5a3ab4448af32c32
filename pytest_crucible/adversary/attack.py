"""An attack: a function from a text to an edited one, with a name and a version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from pytest_crucible.adversary.edits import Perturbed
from pytest_crucible.adversary.source import Source
from pytest_crucible.records import NoTwin

Perturb = Callable[[Source, Random, float], Perturbed | NoTwin]
AttackKind = Literal["characters", "words", "obfuscation", "meaning", "injection", "own"]
AsksFor = Literal["", "code", "secret"]


@dataclass(frozen=True, kw_only=True)
class Attack:
    """An attack under a name. Equal versions (and settings) give equal texts."""

    name: str
    kind: AttackKind
    summary: str
    """One line for lists."""
    perturb: Perturb
    """Returns the attacked text, which is the text itself where nothing is eligible, or why the attack does not apply."""
    version: str = "1"
    has_strength: bool = True
    """False if it changes all or nothing, so that several strengths are an error."""
    asks_for: AsksFor = ""
    """What an injection wants in the reply."""
    needs_model: str = ""
    """The instruction to the paraphraser, for an attack that rewrites texts by a model; empty for one that follows rules."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings as configured; the attacked text depends on them."""

    @property
    def key(self) -> str:
        """Everything that its texts depend on besides the sample, the strength and the draw."""
        return f"{self.name} {self.version} {sorted(self.settings.items())}"
