"""Reads parts of a run's JSON document that belong to one arm but stand in the sections of its experiment."""

from __future__ import annotations

from typing import Any

SECTIONS = {"lost": "losses", "failures": "losses", "reused": "cache", "cached": "cache"}


def of_arms(experiment: dict[str, Any], part: str) -> list[Any]:
    """One value an arm, in their order; None where the section has none."""
    return [_of_arm(experiment["sections"], arm["name"], part) for arm in experiment["arms"]]


def _of_arm(sections: dict[str, Any], arm: str, part: str) -> Any:
    if part == "usage":
        return next((entry for entry in sections.get("usage", ()) if entry["arm"] == arm), None)
    if part == "training":
        return sections.get("training", {}).get(arm)
    return sections.get(SECTIONS[part], {}).get(part, {}).get(arm)
