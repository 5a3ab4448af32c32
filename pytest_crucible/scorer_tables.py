"""`[scorers]` of a project's configuration: what scores entailment and similarity, and who judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

from pytest_crucible.backends import Backend, Listed
from pytest_crucible.contenders import STORED, Opener
from pytest_crucible.errors import SpecError
from pytest_crucible.plan.adapters import read_table
from pytest_crucible.scorers.configured import configure as configure_scorers
from pytest_crucible.scorers.judge import Judge
from pytest_crucible.scorers.protocol import Premise
from pytest_crucible.untrained import Untrained

SETTINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "entailment": {"nli": ("model", "revision", "premise", "precision"), "judge": ("premise",)},
    "similarity": {"minilm": ("precision",), "embeddings": ("model", "revision", "precision")},
    "judge": {"": ("adapter",)},
}
"""What each scorer's table may hold, by its kind; a judge has none."""
NEEDED = {"nli": "model", "embeddings": "model", "": "adapter"}
VALUES = {"premise": get_args(Premise), "precision": ("bfloat16", "float32")}


def configure(root: Path, open_judge: Callable[[str], Judge]) -> None:
    """Read the table, if there is one; nothing is opened yet. Raises SpecError for what cannot be meant."""
    table = read_table(root, "scorers")
    configure_scorers()  # another session of this process may have had its own
    for name, given in table.items():
        _check(name, given)
    if table.get("entailment", {}).get("kind") == "judge" and "judge" not in table:
        raise SpecError(
            '[scorers] has entailment of kind "judge" but no judge: add judge = { adapter = "NAME" } beside it'
        )
    configure_scorers(
        entailment=_entailment(table["entailment"], root) if "entailment" in table else None,
        similarity=_similarity(table["similarity"], root) if "similarity" in table else None,
        judge=partial(open_judge, table["judge"]["adapter"]) if "judge" in table else None,
    )


def judge_of(opener: Opener, name: str) -> tuple[Judge, Backend]:
    """The judge that an adapter is, and the backend that it holds open. Raises SpecError for what cannot be asked anything."""
    found = None if name.startswith(STORED) else opener.contender(name, "candidate")
    backend = None if found is None else found.backend
    if found is None or backend is None or isinstance(backend, Untrained | Listed):
        raise SpecError(f"judge {name!r} of [scorers] cannot be asked: name the adapter of a model that answers")
    return Judge(
        name,
        identity=backend.identity,
        generate=backend.generate,
        parameters=found.arm.parameters,
        simulated=backend.simulated,
    ), backend


def _entailment(given: Mapping[str, Any], root: Path) -> Callable[[], Any]:
    settings = {name: value for name, value in given.items() if name != "kind"}
    if given["kind"] == "judge":
        from pytest_crucible.judges.entailment import JudgedEntailment

        return partial(JudgedEntailment, **settings)

    def opened() -> Any:
        from pytest_crucible.scorers.nli import NliScorer

        return NliScorer(root=root, **settings)

    return opened


def _similarity(given: Mapping[str, Any], root: Path) -> Callable[[], Any]:
    settings = {name: value for name, value in given.items() if name != "kind"}

    def opened() -> Any:
        from pytest_crucible.scorers.embeddings import EmbeddingScorer

        return EmbeddingScorer(root=root, **settings)

    return opened


def _check(name: str, given: Any) -> None:
    """One scorer's table: its kind is known, nothing is strange in it, and nothing is missing."""
    if name not in SETTINGS:
        raise SpecError(f"[scorers] has {name!r}: it takes {', '.join(SETTINGS)}")
    kinds = SETTINGS[name]
    kind = str(given.get("kind", "")) if isinstance(given, dict) else "nothing"
    if kind not in kinds:
        raise SpecError(f"[scorers] has {name} = {given!r}: write {' or '.join(_example(name, one) for one in kinds)}")
    for word, value in given.items():
        if word == "kind":
            continue
        if word not in kinds[kind]:
            raise SpecError(f"[scorers] has {word!r} in {name}: it takes {', '.join(kinds[kind])}")
        if not isinstance(value, str) or value not in VALUES.get(word, (value,)):
            wanted = " or ".join(f'"{one}"' for one in VALUES.get(word, ("a string",)))
            raise SpecError(f"[scorers] has {word} = {value!r} in {name}: write {wanted}")
    if NEEDED.get(kind, "kind") not in given:
        raise SpecError(f"[scorers] has {name} without {NEEDED[kind]!r}: write {_example(name, kind)}")


def _example(name: str, kind: str) -> str:
    parts = [f'kind = "{kind}"'] if kind else []
    parts += [f'{NEEDED[kind]} = "..."'] if kind in NEEDED else []
    return f"{name} = {{ {', '.join(parts)} }}"
