"""Configures the scorers of entailment and similarity, and the judge, from `[scorers]` of a project's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

from pytest_crucible.adapters.config_tables import read_table
from pytest_crucible.metrics.models.scorers import Judge, Premise, configure
from pytest_crucible.metrics.models.votes import Combine, check_votes
from pytest_crucible.records import JUDGE, PARAPHRASER
from pytest_crucible.records.errors import SpecError

SETTINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "entailment": {"nli": ("model", "revision", "premise", "precision"), "judge": ("premise", "votes", "combine")},
    "similarity": {"minilm": ("precision",), "embeddings": ("model", "revision", "precision")},
    "judge": {"": ("adapter",)},
    "paraphraser": {"": ("adapter",)},
}
"""The keys of each scorer's table, by its kind; a judge and a paraphraser have no kind."""
NEEDED = {"nli": "model", "embeddings": "model", "": "adapter"}
VALUES = {"premise": get_args(Premise), "combine": get_args(Combine), "precision": ("bfloat16", "float32")}


def configure_scorers(root: Path, open_judge: Callable[[str, str], Judge]) -> Callable[[], None]:
    """Read the table `[scorers]` and open nothing yet; return a function that restores the former scorers.

    Raises SpecError for invalid settings.
    """
    table = read_table(root, "scorers")
    for name, settings in table.items():
        _check(name, settings)
    if table.get("entailment", {}).get("kind") == "judge" and "judge" not in table:
        raise SpecError(
            '[scorers] has entailment of kind "judge" but no judge: add judge = { adapter = "NAME" } to the table'
        )
    return configure(
        entailment=_entailment(table["entailment"], root) if "entailment" in table else None,
        similarity=_similarity(table["similarity"], root) if "similarity" in table else None,
        judge=partial(open_judge, table["judge"]["adapter"], JUDGE) if "judge" in table else None,
        paraphraser=partial(open_judge, table["paraphraser"]["adapter"], PARAPHRASER)
        if "paraphraser" in table
        else None,
    )


def _entailment(table: Mapping[str, Any], root: Path) -> Callable[[], Any]:
    settings = {name: value for name, value in table.items() if name != "kind"}
    if table["kind"] == "judge":
        from pytest_crucible.metrics.models.judge_entailment import JudgeEntailment

        return partial(JudgeEntailment, **settings)

    def open_scorer() -> Any:
        from pytest_crucible.metrics.models.local import NliScorer

        return NliScorer(root=root, **settings)

    return open_scorer


def _similarity(table: Mapping[str, Any], root: Path) -> Callable[[], Any]:
    settings = {name: value for name, value in table.items() if name != "kind"}

    def open_scorer() -> Any:
        from pytest_crucible.metrics.models.local import EmbeddingScorer

        return EmbeddingScorer(root=root, **settings)

    return open_scorer


def _check(name: str, table: Any) -> None:
    """Raise SpecError for a scorer's table with an unknown kind, an unknown key, an invalid value or a missing key."""
    if name not in SETTINGS:
        raise SpecError(f"[scorers] has {name!r}: it takes {', '.join(SETTINGS)}")
    kinds = SETTINGS[name]
    kind = str(table.get("kind", "")) if isinstance(table, dict) else "nothing"
    if kind not in kinds:
        examples = " or ".join(_example(name, possible) for possible in kinds)
        raise SpecError(f"[scorers] has {name} = {table!r}: write {examples}")
    for key, value in table.items():
        if key != "kind":
            _check_setting(name, key, value, names=kinds[kind])
    if NEEDED.get(kind, "kind") not in table:
        raise SpecError(f"[scorers] has {name} without {NEEDED[kind]!r}: write {_example(name, kind)}")


def _check_setting(name: str, key: str, value: Any, names: Sequence[str]) -> None:
    if key not in names:
        raise SpecError(f"[scorers] has {key!r} in {name}: it takes {', '.join(names)}")
    if key == "votes":
        check_votes(f"[scorers] {name}", value)
    elif not isinstance(value, str) or value not in VALUES.get(key, (value,)):
        expected = " or ".join(f'"{possible}"' for possible in VALUES.get(key, ("a string",)))
        raise SpecError(f"[scorers] has {key} = {value!r} in {name}: write {expected}")


def _example(name: str, kind: str) -> str:
    parts = [f'kind = "{kind}"'] if kind else []
    parts += [f'{NEEDED[kind]} = "..."'] if kind in NEEDED else []
    return f"{name} = {{ {', '.join(parts)} }}"
