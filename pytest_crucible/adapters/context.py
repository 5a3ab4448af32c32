"""The session as adapters see it when they are opened and trained, without pytest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_crucible.adapters.guards import Guards
from pytest_crucible.backends import Backend
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.records import Adapter, Lineage
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.settings import DEFAULT_STORE, Settings

if TYPE_CHECKING:
    from pytest_crucible.backends.tinker.services import TinkerServices
    from pytest_crucible.store.runs import RunStore
    from pytest_crucible.training import Recipe, TrainingLog


class TrainingDisplay(Protocol):
    """Shows one training while it runs."""

    def announce(self) -> None:
        """Show what would be trained, when nothing is run."""

    def share(self, name: str) -> None:
        """Show that the adapter uses the training of another."""

    def begin(self) -> None: ...

    def resume(self, step: int) -> None:
        """Show that an interrupted training continues after a step."""

    def lose(self, reason: str) -> None:
        """Show that the service has lost the training, which waits for it."""

    def wait(self) -> None:
        """Show that another process trains the adapter."""

    def pause(self, cause: str) -> None:
        """Show why the service does not train now. Called in any thread."""

    def show_step(self, log: TrainingLog) -> None: ...

    def finish(self, lineage: Lineage, place: str, *, is_new: bool) -> None:
        """Show the result. `is_new` is False for an adapter that another process has trained meanwhile."""

    def fail(self, error: BaseException) -> None: ...


ADAPTERS = "adapters"


def files_folder(root: Path, store: str) -> Path:
    """Return the folder for the files of a project: that of its run store, or `.crucible` for a database server."""
    # A database URL has no folder for files.
    return (root / (DEFAULT_STORE if "://" in store else store)).parent


def no_store() -> RunStore:
    """Raise SpecError."""
    raise SpecError("no run store exists here")


@dataclass(frozen=True, kw_only=True)
class AdapterContext:
    """The session as the kinds of adapter see it."""

    root: Path
    """Directory of pytest's configuration: paths in the configuration are relative to it."""
    invocation_folder: Path
    """Directory where pytest was started: paths on the command line are relative to it."""
    settings: Settings
    shared: BackendContext
    """Cache, limits, budget and events, shared by all backends of the session."""
    open_user_backend: Callable[[Adapter], Backend | None]
    """The hook `pytest_crucible_backend`: None for adapters that no conftest.py and no plugin opens."""
    tinker: Callable[[], TinkerServices]
    """Returns the session's Tinker services, which start when first used."""
    display: Callable[[Recipe], TrainingDisplay]
    """Returns the display for a training of this recipe."""
    store: Callable[[], RunStore] = no_store
    """Returns the run store; raises SpecError and StoreError."""
    typed_names: Mapping[str, str] = field(default_factory=dict)
    """The names of the command line, by those that they mean: `production` by `claims@4`."""
    run: str | None = None
    """The run that this process shares with other workers; None if it runs alone."""
    guards: Guards
    """The guards of the project, opened by name."""
    hide: Callable[[str], str] = str
    """Redacts keys in a text."""
    is_left_out: Callable[[str], bool] = lambda plugin: False
    """Whether a feature's plugin is left out of the session."""
    only_collects: bool = False
    """True under --collect-only: nothing is trained."""

    @property
    def adapters_folder(self) -> Path:
        """Trained adapters are kept next to the run store, or in `.crucible` where the store is a database server."""
        return files_folder(self.root, self.settings.store) / ADAPTERS

    @property
    def is_replay(self) -> bool:
        """True when no model is called: the adapter's files may then be missing."""
        return self.shared.cache is not None and self.shared.cache.only
