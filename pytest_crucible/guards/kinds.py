"""The kinds of guard: one row each. A row names its function, so that the table imports none of the kinds."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pytest_crucible.guards.guard import Scorer
from pytest_crucible.guards.settings import GuardSettings
from pytest_crucible.records.errors import SpecError


class Asks(Protocol):
    """An LLM judge, as the kind `judge` uses it."""

    identity: str

    async def query(self, prompt: str) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardContext:
    """Resources that kinds need besides their settings."""

    root: Path
    """Paths in the configuration are relative to it."""
    open_judge: Callable[[str], Asks]
    """Returns the adapter with that name as a judge. Raises SpecError."""


@dataclass(frozen=True, slots=True)
class GuardKind:
    """One kind of guard."""

    open: str
    """Returns the Scorer; takes the settings and a GuardContext. Raises SpecError."""
    options: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """Options that have to be there."""
    queries_model: bool = False
    """An estimate, which calls no model, does without the guard."""


KINDS: Mapping[str, GuardKind] = {
    "rules": GuardKind("pytest_crucible.guards.rules:open_rules", ("patterns",)),
    "pii": GuardKind("pytest_crucible.guards.findings:open_pii", ("types", "phones")),
    "secrets": GuardKind("pytest_crucible.guards.findings:open_secrets", ("types",)),
    "linear": GuardKind("pytest_crucible.guards.linear:open_linear", ("path",), ("path",)),
    "classifier": GuardKind(
        "pytest_crucible.guards.classifier:open_classifier", ("model", "revision", "label"), ("model",), True
    ),
    "judge": GuardKind(
        "pytest_crucible.guards.judge:open_judge", ("adapter", "question"), ("adapter", "question"), True
    ),
    "presidio": GuardKind("pytest_crucible.guards.presidio:open_presidio", ("types",)),
}
_FUNCTION = GuardKind("pytest_crucible.guards.function:open_function")
OPTIONS: Mapping[str, tuple[str, ...]] = {name: kind.options for name, kind in KINDS.items()}
"""The settings of each kind."""


def queries_model(kind: str) -> bool:
    """Return whether guards of a kind call a model."""
    return KINDS.get(kind, _FUNCTION).queries_model


def open_scorer(settings: GuardSettings, context: GuardContext) -> Scorer:
    """Return the scorer of a guard, opened by its kind. Raises SpecError for settings that cannot be used."""
    kind = KINDS.get(settings.kind, _FUNCTION)
    missing = next((name for name in kind.needs if not isinstance(settings.options.get(name), str)), None)
    if missing is not None:
        raise SpecError(f'{settings.place} has kind = "{settings.kind}" but no {missing!r}: add {missing} = "..."')
    module, _, function = kind.open.partition(":")
    scorer: Scorer = getattr(importlib.import_module(module), function)(settings, context)
    return scorer
