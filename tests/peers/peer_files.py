"""Tools with their files, and summaries of these files in the words of `tools.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_crucible.importers.formats import read_results
from pytest_crucible.importers.metric_facts import Declared, metric_facts
from pytest_crucible.importers.results import Results
from pytest_crucible.records.errors import SpecError

FILES = Path(__file__).parent / "files"


@dataclass(frozen=True)
class Tool:
    """One tool, how it is installed, the script that runs it, and its files with what is right about them."""

    name: str
    script: str
    packages: tuple[str, ...]
    files: Mapping[str, Mapping[str, Any]]
    arguments: tuple[str, ...] = ()
    program: str = ""
    """A package of npm with a program of its name, whose path the script gets."""

    @classmethod
    def of(cls, name: str, entry: Mapping[str, Any]) -> Tool:
        return cls(
            name=name,
            script=entry["script"],
            packages=tuple(entry["packages"]),
            files=entry.get("files", {}),
            arguments=tuple(entry.get("arguments", ())),
            program=entry.get("program", ""),
        )


TOOLS = {
    name: Tool.of(name, entry)
    for name, entry in tomllib.loads((FILES.parent / "tools.toml").read_text(encoding="utf-8")).items()
}


def summary_of(path: Path) -> dict[str, Any]:
    """Return what is read of a file or a folder: of its first arm, but for the names of harness and metrics."""
    try:
        (file, *_) = read_results(path)
    except SpecError as refusal:
        return {"refused": str(refusal).replace(f"{path.parent}/", "")}
    arm = file.results[0]
    return {
        "harness": file.harness,
        "n": len({row.sample for row in arm.rows}),
        "lost": _lost(arm),
        "repeats": arm.repeats,
        "groups": len({row.group or f"sample {row.sample}" for row in arm.rows}),
        "metrics": _metrics(arm),
    }


def _lost(arm: Results) -> int:
    """Return the number of replies and of single scores that are lost."""
    missing = 0 if arm.has_uneven_repeats else len({*arm.planned, *(row.sample for row in arm.rows)}) * arm.repeats
    return sum(1 if row.error else len(row.lost) for row in arm.rows) + max(0, missing - len(arm.rows))


def _metrics(arm: Results) -> dict[str, str]:
    """Return metric -> mean of its scores with the direction that is better; `none` where nothing shows one."""
    facts, _ = metric_facts([arm], Declared())
    directions = {fact.name: fact.direction if fact.is_directed and fact.kind != "text" else "none" for fact in facts}
    return {name: f"{_mean(arm, name)} {direction}" for name, direction in sorted(directions.items())}


def _mean(arm: Results, name: str) -> str:
    values = [value for row in arm.rows if isinstance(value := row.scores.get(name), bool | int | float)]
    return f"{sum(values) / len(values):.4g}" if values else "no"


def differences(path: Path, expected: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each fact that is read otherwise."""
    read = summary_of(path)
    for name in dict.fromkeys([*expected, *read]):
        if read.get(name) != expected.get(name):
            yield f"{name} is {read.get(name)!r}, and {expected.get(name)!r} is right"
