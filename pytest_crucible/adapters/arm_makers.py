"""Arms that are made of several adapters: a word in the table of an adapter names the feature that makes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_crucible.features import load_rows
from pytest_crucible.features.row import Feature
from pytest_crucible.records import Adapter, Role

if TYPE_CHECKING:
    from pytest_crucible.adapters.context import AdapterContext
    from pytest_crucible.adapters.opened_arm import OpenedArm


class PartOpener(Protocol):
    """Opens the adapters that an arm is made of."""

    @property
    def context(self) -> AdapterContext:
        """The session as adapters see it."""

    @property
    def parents(self) -> Sequence[str]:
        """The arms that this one is a part of, the outermost first."""

    def find_part(self, name: str) -> Adapter | None:
        """Return the adapter of a part; None for a registered version. Raises SpecError for an unknown name."""

    def open_part(self, adapter: Adapter, role: Role) -> OpenedArm:
        """Return the arm of an adapter that is a part of another one's. Raises SpecError."""

    def open_named_part(self, name: str, role: Role) -> OpenedArm:
        """Return the arm that a name means, as a part of another one. Raises SpecError."""

    def make_ready(self, opened: OpenedArm) -> bool:
        """Make what an arm needs before it can answer; return whether it has to be opened again."""


class OpenArm(Protocol):
    def __call__(self, adapter: Adapter, role: Role, opener: PartOpener) -> OpenedArm:
        """Return the arm of an adapter. Raises SpecError."""


class ExpandTable(Protocol):
    def __call__(self, adapter: Adapter, table: Mapping[str, Any], source: Path) -> Iterator[Adapter]:
        """Yield the further adapters that the table of this one stands for. Raises SpecError."""


def expand_nothing(adapter: Adapter, table: Mapping[str, Any], source: Path) -> Iterator[Adapter]:
    """Yield nothing: the table stands for one adapter."""
    return iter(())


@dataclass(frozen=True)
class ArmMaker:
    """Makes the arms of adapters whose table has a key, such as `sweep`."""

    key: str
    open: OpenArm
    expand: ExpandTable = expand_nothing
    is_backend: bool = False
    """The key stands in the place of `backend`."""


def find_maker(adapter: Adapter) -> tuple[Feature, ArmMaker] | None:
    """Return the maker of an adapter's arm, with its feature; None for an adapter that is one model."""
    # A sweep of an ensemble is a family of ensembles, so keys that stand in the place of `backend` come last.
    rows = sorted(load_rows("arm_makers"), key=lambda row: row[1].is_backend)
    return next((row for row in rows if row[1].key in adapter.options), None)


def backend_key(options: Mapping[str, Any]) -> str | None:
    """Return the key that stands in the place of `backend` in the table of an adapter; None without one."""
    makers = [maker for _, maker in load_rows("arm_makers") if maker.is_backend]
    return next((maker.key for maker in makers if maker.key in options), None)
