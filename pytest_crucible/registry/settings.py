"""The table `[registry]` of crucible.toml, or `[tool.crucible.registry]` of pyproject.toml."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.config_tables import read_table
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.suggestions import suggest


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """The rules of production beyond those that always hold."""

    proven: bool = True
    """Every verdict must be proven, not only met."""
    clean_commit: bool = True
    """The run must be of a commit without uncommitted changes."""
    max_age_days: float = 30.0
    """The oldest answer of the run may be that old."""
    era_alpha: float | None = None
    """The error rate that all candidates of one production version share; None: each run has its own."""


_KINDS: dict[str, tuple[type, ...]] = {
    "proven": (bool,),
    "clean_commit": (bool,),
    "max_age_days": (int, float),
    "era_alpha": (int, float),
}
_EXAMPLES = {"proven": "true", "clean_commit": "true", "max_age_days": "30", "era_alpha": "0.05"}


def read_registry_settings(root: Path) -> RegistrySettings:
    """Return the settings of a project. `root` is the folder of its configuration. Raises SpecError for an invalid one."""
    table = read_table(root, "registry")
    for name, value in table.items():
        _check(name, value)
    return RegistrySettings(**table)


def _check(name: str, value: Any) -> None:
    known = [field.name for field in fields(RegistrySettings)]
    if name not in known:
        takes = f"it takes {', '.join(known)}"
        raise SpecError(
            f"[registry] has {name!r}, which is not one of its settings: {suggest(name, known, always=takes)}"
        )
    is_kind = isinstance(value, _KINDS[name]) and (isinstance(value, bool) == (bool in _KINDS[name]))
    if not is_kind or (name == "max_age_days" and value <= 0) or (name == "era_alpha" and not 0 < value < 0.5):
        raise SpecError(f"[registry] has {name} = {value!r}: write for example {name} = {_EXAMPLES[name]}")
