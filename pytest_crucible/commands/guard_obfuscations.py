"""A guard's decisions on the obfuscations of a text: the same table for every kind of guard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_crucible.adversary.built_in import FAMILIES, OBFUSCATION, make_attack
from pytest_crucible.adversary.twins import Draw
from pytest_crucible.guards.guard import Guard
from pytest_crucible.records import NoTwin, Sample
from pytest_crucible.records.detections import Detection
from pytest_crucible.report.printable import aligned_lines

HEADERS = ("obfuscation", "flagged", "score", "category")
CLEAN = "(none)"


def obfuscate(text: str) -> Iterator[tuple[str, str]]:
    """Yield the obfuscations that apply to a text, each with the whole text written so; first the text as it is."""
    yield CLEAN, text
    for name in FAMILIES[OBFUSCATION]:
        perturbed = Draw(attack=make_attack(name), strength=1.0, number=0, seed=0).perturb(
            text, Sample(id="text", input=text)
        )
        if not isinstance(perturbed, NoTwin):
            yield name, perturbed.text


async def detect_obfuscated(guard: Guard, text: str) -> dict[str, Detection]:
    """Return the guard's detection for each obfuscation of a text."""
    return {name: await guard.detect(obfuscated) for name, obfuscated in obfuscate(text)}


def obfuscation_lines(detections: Mapping[str, Detection]) -> list[str]:
    """Return the table, and how many of the obfuscations the guard flags."""
    rows = [
        (name, "yes" if detection.flagged else "no", f"{detection.score:.3g}", detection.category)
        for name, detection in detections.items()
    ]
    flagged = sum(detection.flagged for name, detection in detections.items() if name != CLEAN)
    return [*aligned_lines([HEADERS, *rows]), f"flagged in {flagged} of {len(detections) - 1} obfuscations"]
