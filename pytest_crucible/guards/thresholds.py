"""A threshold that was chosen by the scores of benign texts, and the file that keeps it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_crucible.guards.normalise import normalise
from pytest_crucible.records.errors import SpecError

FORMAT = "crucible threshold 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdFile:
    """A chosen threshold and what it was chosen by."""

    threshold: float
    false_alarms: float
    """The false-alarm rate that it does not exceed, with 95 % confidence."""
    guard: str
    """The guard whose scores they were."""
    run: str
    n: int
    """Benign texts."""
    texts: tuple[str, ...]
    """A hash of each normalised text."""


def hash_text(text: str) -> str:
    """Return a hash of a text that is equal for texts that differ in case, blanks and disguise only."""
    return hashlib.sha256(normalise(text).encode("utf-8", "surrogatepass")).hexdigest()


def write_threshold(path: Path, chosen: ThresholdFile) -> None:
    """Write the file. Raises OSError."""
    body: dict[str, Any] = {"format": FORMAT} | {
        name: getattr(chosen, name) for name in ThresholdFile.__dataclass_fields__
    }
    path.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


def read_threshold(path: Path, place: str) -> ThresholdFile:
    """Return the threshold in a file; `place` names the guard's table. Raises SpecError."""
    advice = f"write one with `crucible guards threshold RUN --false-alarms 0.01 -o {path.name}`"
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecError(f"{place}: the threshold {path} does not exist: {advice}") from None
    except (OSError, ValueError) as error:
        raise SpecError(f"{place}: the threshold {path} cannot be read: {error}") from None
    names = set(ThresholdFile.__dataclass_fields__)
    if not isinstance(body, dict) or body.get("format") != FORMAT or not names <= set(body):
        raise SpecError(f"{place}: {path} is not a file of `crucible guards threshold`: {advice}")
    return ThresholdFile(**{name: body[name] for name in names - {"texts"}}, texts=tuple(body["texts"]))


def find_used(chosen: ThresholdFile, samples: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the ids of the samples (id, text) whose texts chose the threshold."""
    texts = set(chosen.texts)
    return tuple(name for name, text in samples if hash_text(text) in texts)
