"""Additions of features to adapters: arms of several models, names, preparations, settings of their tables, and wrappers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_crucible.features import load_rows, owner_of, owner_of_name, refuse_left_out
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter, Role
from pytest_crucible.records.errors import Refused, SpecError

if TYPE_CHECKING:
    from pytest_crucible.adapters.adapter_kind import Origin
    from pytest_crucible.adapters.context import AdapterContext
    from pytest_crucible.adapters.opened_arm import OpenedArm
    from pytest_crucible.backends import Backend
    from pytest_crucible.backends.stack import OuterWrapper
    from pytest_crucible.records import Reply, Request

IsLeftOut = Callable[[str], bool]
"""Returns whether a plugin is left out, such as `crucible-sweeps`."""


# -- arms: a word in the table of an adapter tells which feature makes them -------------------------------------------------


class PartOpener(Protocol):
    """Opens the adapters that an arm is made of."""

    @property
    def context(self) -> AdapterContext:
        """The session as adapters see it."""

    @property
    def parents(self) -> Sequence[str]:
        """The arms that this one is a part of, the outermost first."""

    def open(self, name: str, role: Role) -> OpenedArm:
        """Return the arm of a name on the command line. Raises SpecError."""

    def find_part(self, name: str) -> NamedAdapter:
        """Return the adapter that the name of a part means. Raises SpecError for an unknown name."""

    def open_part(self, adapter: Adapter, role: Role) -> OpenedArm:
        """Return the arm of an adapter that is a part of another one's. Raises SpecError."""

    def open_named_part(self, name: str, role: Role) -> OpenedArm:
        """Return the arm that a name means, as a part of another one. Raises SpecError."""

    def open_single(self, adapter: Adapter, role: Role) -> OpenedArm:
        """Return the arm of an adapter that is one model, and that no name means. Raises SpecError."""

    def make_ready(self, opened: OpenedArm) -> bool:
        """Make what an arm needs before it can answer; return whether it has to be opened again."""


@dataclass(frozen=True)
class ArmMaker:
    """Makes the arms of adapters whose table has a key, such as `sweep`."""

    key: str
    open: Callable[[Adapter, Role, PartOpener], OpenedArm]
    """Returns the arm of an adapter. Raises SpecError."""
    expand: Callable[[Adapter, Mapping[str, Any], Path], Iterable[Adapter]] = lambda adapter, table, source: ()
    """Returns the further adapters that the table of this one, in a file, stands for. Raises SpecError."""
    is_backend: bool = False
    """The key stands in the place of `backend`."""


def find_maker(adapter: Adapter, is_left_out: IsLeftOut = lambda plugin: False) -> ArmMaker | None:
    """Return what makes an adapter's arm; None for an adapter that is one model. Raises SpecError if its feature is left out."""
    if not _has_key(adapter.options):
        return None
    # A sweep of an ensemble is a family of ensembles, so keys that stand in the place of `backend` come last.
    for feature, maker in sorted(load_rows("arm_makers"), key=lambda row: row[1].is_backend):
        if maker.key in adapter.options:
            refuse_left_out(f"adapter {adapter.name!r} with {maker.key}", feature, is_left_out)
            return maker  # type: ignore[no-any-return]  # rows of tables are untyped
    return None


def backend_key(options: Mapping[str, Any]) -> str | None:
    """Return the key that stands in the place of `backend` in the table of an adapter; None without one."""
    if not _has_key(options):
        return None
    makers = [maker for _, maker in load_rows("arm_makers") if maker.is_backend]
    return next((maker.key for maker in makers if maker.key in options), None)


def _has_key(options: Mapping[str, Any]) -> bool:
    """Return whether the table of an adapter has a word of a feature: the features' rows are imported only then."""
    return any(owner_of(word, "adapter_keys") is not None for word in options)


# -- adapters that a feature knows by their names ---------------------------------------------------------------------------


@dataclass(frozen=True)
class NamedAdapter:
    """The adapter that a name means: a configured adapter, one that a feature knows, or that of a URI."""

    adapter: Adapter
    identity: str = ""
    """The identity that its arm must have; empty for any."""
    changed: str = ""
    """The sentence that refuses another identity."""
    maker: ArmMaker | None = None
    """What makes its arm; None for one model."""
    is_uri: bool = False
    """It has no table, and is opened each time that it is named."""


@dataclass(frozen=True)
class AdapterNames:
    """The adapters that a feature knows by their names. All functions raise SpecError."""

    find: Callable[[str, AdapterContext], NamedAdapter]
    find_start: Callable[[str, AdapterContext], str]
    """Returns the weights of an adapter that a training may start from."""


def find_names(name: str, is_left_out: IsLeftOut) -> AdapterNames | None:
    """Return what finds the adapter with a name that a feature knows; None for another name.

    Raises SpecError if the feature is left out.
    """
    feature = owner_of_name(name)
    if feature is None:
        return None
    refuse_left_out(f"adapter {name!r}", feature, is_left_out)
    return next((names for owner, names in load_rows("adapter_names") if owner is feature), None)


def find_training_start(name: str, context: AdapterContext) -> str:
    """Return the weights that a training starts from, where a feature knows the name; else the name unchanged."""
    names = find_names(name, context.is_left_out)
    return name if names is None else names.find_start(name, context)


# -- preparations: adapters that have to be prepared before they can answer, as those that a recipe trains -------------------


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
            if context is not None:
                refuse_left_out(f"adapter {adapter.name!r} with {preparation.key}", feature, context.is_left_out)
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


# -- settings of adapters' tables, and wrappers around whole adapters ---------------------------------------------------------


def pop_settings(name: str, backend: str, options: dict[str, Any], source: Path) -> dict[str, Any]:
    """Remove the settings of features from the options of an adapter, and return them as they are read. Raises SpecError."""
    if not _has_key(options):
        return {}
    # A kind's own option may have the name of the kind: `guard` is the guard that an adapter is, and elsewhere those around it.
    readers = {word: read for _, (word, read) in load_rows("adapter_settings") if word in options and word != backend}
    return {word: read(name, options.pop(word), source) for word, read in readers.items()}


def open_wrappers(adapter: Adapter, context: AdapterContext) -> tuple[OuterWrapper, ...]:
    """Return what features put around an adapter, from the inside out. Raises SpecError where it needs one that is left out."""
    needed = [
        (kind.name == adapter.backend, f"backend {kind.name!r}", owner) for owner, kind in load_rows("adapter_kinds")
    ]
    needed += [(word in adapter.settings, word, owner) for owner, (word, _) in load_rows("adapter_settings")]
    for is_needed, word, feature in needed:
        if is_needed:
            refuse_left_out(f"adapter {adapter.name!r} with {word}", feature, context.is_left_out)
    opened = (open_wrapper(adapter, context) for _, open_wrapper in load_rows("wrappers"))
    return tuple(wrapper for wrapper in opened if wrapper is not None)
