"""The states of all versions, from the entries of the registry's log. This module does not read the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_crucible.features.registry.records import LogEntry, VersionState, VersionStatus

PRODUCTION: VersionState = "production"
STAGED: VersionState = "staged"


@dataclass(slots=True)
class RegistryState:
    """The states of all versions after the last entry of the log."""

    statuses: dict[tuple[str, int], VersionStatus] = field(default_factory=dict)
    tenures: dict[str, list[int]] = field(default_factory=dict)
    """Model -> the versions that were in production and may be restored, the latest last; it may still be there."""
    proofs: dict[tuple[str, int], LogEntry] = field(default_factory=dict)
    """The last promotion of each version that has been promoted."""

    @property
    def models(self) -> list[str]:
        """The models, in the order in which they were first registered."""
        return list(dict.fromkeys(model for model, _ in self.statuses))

    def of(self, model: str) -> list[VersionStatus]:
        """Return the versions of a model, in the order of their numbers."""
        return [status for (name, _), status in self.statuses.items() if name == model]

    def holder(self, model: str, state: VersionState) -> VersionStatus | None:
        """Return the version of a model that is in this state; None without one. For `staged` and `production`."""
        return next((status for status in self.of(model) if status.state == state), None)

    def earlier_production(self, model: str) -> int | None:
        """Return the version that a rollback restores; None if the model has no earlier one."""
        holder = self.holder(model, PRODUCTION)
        earlier = [number for number in self.tenures.get(model, ()) if holder is None or number != holder.number]
        return earlier[-1] if earlier else None


def registry_state(entries: Iterable[LogEntry]) -> RegistryState:
    """Return the states that these entries lead to."""
    state = RegistryState()
    for entry in entries:
        state.statuses[entry.model, entry.number] = VersionStatus(model=entry.model, number=entry.number, entry=entry)
        if entry.action == "promote" and entry.evidence:
            state.proofs[entry.model, entry.number] = entry
        _record_tenure(state.tenures.setdefault(entry.model, []), entry)
    return state


def _record_tenure(tenures: list[int], entry: LogEntry) -> None:
    """Enter a version that came into production, and drop one that was withdrawn: a rollback must not restore it."""
    withdrawn = entry.state == "rolled-back" or entry.action == "retire"
    if (withdrawn or entry.state == PRODUCTION) and entry.number in tenures:
        tenures.remove(entry.number)
    if entry.state == PRODUCTION:
        tenures.append(entry.number)
