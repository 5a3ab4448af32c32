"""Arms and adapters of features: a word in the table of an adapter, or its name, tells which feature makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_crucible.features import left_out_sentence, load_rows, owner_of_name
from pytest_crucible.features.row import Feature
from pytest_crucible.records import Adapter, Role
from pytest_crucible.records.errors import SpecError

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
        """Return the adapter of a part; None for one that a feature knows by its name. Raises SpecError for an unknown name."""

    def open_part(self, adapter: Adapter, role: Role) -> OpenedArm:
        """Return the arm of an adapter that is a part of another one's. Raises SpecError."""

    def open_named_part(self, name: str, role: Role) -> OpenedArm:
        """Return the arm that a name means, as a part of another one. Raises SpecError."""

    def open_single(self, adapter: Adapter, role: Role) -> OpenedArm:
        """Return the arm of an adapter that is one model, and that no name means. Raises SpecError."""

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


@dataclass(frozen=True)
class NamedAdapter:
    """An adapter that a feature knows by its name, and the configuration does not."""

    adapter: Adapter
    identity: str
    """The identity that its arm must have."""
    changed: str
    """The sentence that refuses another identity."""


@dataclass(frozen=True)
class AdapterNames:
    """The adapters that a feature knows by their names. All functions raise SpecError."""

    find: Callable[[str, AdapterContext], NamedAdapter]
    find_start: Callable[[str, AdapterContext], str]
    """Returns the weights of an adapter that a training may start from."""


def find_named_adapter(name: str, context: AdapterContext) -> NamedAdapter:
    """Return the adapter with a name that a feature knows. Raises SpecError."""
    names = _names_with(name, context)
    assert names is not None, name
    return names.find(name, context)


def find_training_start(name: str, context: AdapterContext) -> str:
    """Return the weights that a training starts from, where a feature knows the name; else the name unchanged."""
    names = _names_with(name, context)
    return name if names is None else names.find_start(name, context)


def _names_with(name: str, context: AdapterContext) -> AdapterNames | None:
    feature = owner_of_name(name)
    if feature is None:
        return None
    if context.is_left_out(feature.plugin_name):
        raise SpecError(left_out_sentence(f"adapter {name!r}", feature))
    names: AdapterNames = next(names for owner, names in load_rows("adapter_names") if owner is feature)
    return names
