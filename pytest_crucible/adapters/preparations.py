"""Adapters that have to be prepared before they can answer, as those that a recipe trains: placeholders, and who prepares them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_crucible.features import left_out_sentence, load_rows
from pytest_crucible.records.errors import Refused, SpecError

if TYPE_CHECKING:
    from pytest_crucible.adapters.context import AdapterContext
    from pytest_crucible.adapters.opened_arm import OpenedArm
    from pytest_crucible.adapters.origin import Origin
    from pytest_crucible.backends import Backend
    from pytest_crucible.records import Adapter, Reply, Request


class Pending:
    """A placeholder for an adapter until it is prepared, after everything else has been checked."""

    simulated = False

    def __init__(self, adapter: str, identity: str, preparation: Preparation) -> None:
        self.adapter, self.identity, self.preparation = adapter, identity, preparation
        self.estimating: Backend | None = None
        """Receives the requests that the prepared adapter would be sent, where a run is estimated."""

    @property
    def needs_reopening(self) -> bool:
        """True once its preparation has lost a service: other clients of this service have to be opened again."""
        return False

    async def generate(self, request: Request) -> Reply:
        if self.estimating is not None:
            return await self.estimating.generate(request)
        raise Refused(self.preparation.refusal(self.adapter))


@dataclass(frozen=True, kw_only=True, eq=False)
class Preparation:
    """One way to prepare adapters, with functions that import what they need. A row that a feature adds to `preparations`."""

    key: str
    """The option of an adapter that asks for it, such as `recipe`."""
    options: Mapping[str, tuple[str, ...]]
    """Kind of adapter -> its further options that only the preparation uses."""
    setting: str
    """The option of the session without which nothing is prepared."""
    open: Callable[[Adapter, AdapterContext, Any], Adapter | Pending]
    """Returns the adapter as it is prepared, or a placeholder; takes the result of a preparation in this session, or None."""
    prepare: Callable[[Sequence[Pending], AdapterContext], Mapping[str, Any]]
    """Prepares adapters; returns the results by name. Under --collect-only nothing is done, only shown."""
    find_origin: Callable[[Adapter, AdapterContext], Origin]
    """Returns everything besides the settings that the adapter's replies depend on."""
    explain_missing: Callable[[Sequence[Pending]], Sequence[str]]
    """Returns sentences on adapters that have to be prepared."""
    announcement: str
    """What would be done with an adapter in an estimate, such as "would be trained first"."""
    refusal: Callable[[str], str]
    """Returns why an adapter that is not prepared cannot answer."""


def find_preparation(adapter: Adapter, context: AdapterContext | None = None) -> Preparation | None:
    """Return how an adapter is prepared; None for one that is ready. Raises SpecError if its feature is left out."""
    for feature, preparation in load_rows("preparations"):
        if preparation.key in adapter.options and adapter.backend in preparation.options:
            if context is not None and context.is_left_out(feature.plugin_name):
                raise SpecError(left_out_sentence(f"adapter {adapter.name!r} with {preparation.key}", feature))
            return preparation  # type: ignore[no-any-return]  # rows of tables are untyped
    return None


def option_names(backend: str, own: Sequence[str]) -> tuple[str, ...]:
    """Return the options of a kind of adapter: its own, and those of preparations."""
    rows = [row for _, row in load_rows("preparations") if backend in row.options]
    return (*(row.key for row in rows), *own, *(name for row in rows for name in row.options[backend]))


def check_preparation(adapter: Adapter, instead_of: str) -> None:
    """Raise SpecError for options that contradict each other; `instead_of` names what is prepared, such as `checkpoint`."""
    for _, row in load_rows("preparations"):
        is_prepared = row.key in adapter.options
        if is_prepared and instead_of in adapter.options:
            raise SpecError(f"adapter {adapter.name!r} has a {row.key} and a {instead_of}: remove one of them")
        for name in row.options.get(adapter.backend, ()):
            if name in adapter.options and not is_prepared:
                raise SpecError(
                    f"adapter {adapter.name!r} has {name!r}, which only a {row.key} uses: add a {row.key}, or remove it"
                )


def find_pending(opened: Iterable[OpenedArm]) -> list[Pending]:
    """Return the placeholders, once for each adapter, with those of parts."""
    pending: dict[str, Pending] = {}
    for arm in opened:
        pending |= {part.adapter: part for part in find_pending(arm.parts)}
        if isinstance(arm.backend, Pending):
            pending[arm.backend.adapter] = arm.backend
    return list(pending.values())


def explain_missing(opened: Iterable[OpenedArm], is_set: Callable[[str], object] = lambda setting: False) -> list[str]:
    """Return sentences on the adapters that have to be prepared, but for those that the session prepares.

    `is_set` returns the value of an option of the session.
    """
    by_preparation: dict[str, list[Pending]] = {}
    for pending in find_pending(opened):
        if not is_set(pending.preparation.setting):
            by_preparation.setdefault(pending.preparation.key, []).append(pending)
    return [sentence for group in by_preparation.values() for sentence in group[0].preparation.explain_missing(group)]
