"""The session as adapters see it when they are opened and trained, without pytest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_crucible.backends import Backend
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.records import Adapter, Lineage
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.registry import Version
from pytest_crucible.records.settings import DEFAULT_STORE, Settings

if TYPE_CHECKING:
    from pytest_crucible.backends.tinker.services import TinkerServices
    from pytest_crucible.metrics.models.scorers import Judge
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


ADAPTERS, REGISTRY = "adapters", "registry"


def files_folder(root: Path, store: str) -> Path:
    """Return the folder for the files of a project: that of its run store, or `.crucible` for a database server."""
    # A database URL has no folder for files.
    return (root / (DEFAULT_STORE if "://" in store else store)).parent


def no_registry(name: str) -> Version:
    """Raise SpecError: a version is registered in a run store, and none exists here."""
    raise SpecError(f"{name!r} is not registered: no run store exists here")


OpenModel = Callable[[str, str, str], "Judge"]
"""Opens an adapter as the model that an owner queries in a role, `open_model("gpt", "a guard", JUDGE)`. Raises SpecError."""


def no_model(name: str, owner: str, role: str) -> Judge:
    """Raise SpecError: models are opened in sessions only."""
    raise SpecError(f"adapter {name!r} of {owner} can only be queried in a pytest session")


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
    versions: Callable[[str], Version] = no_registry
    """Returns the registered version that a name such as `claims@4` means; raises SpecError."""
    typed_names: Mapping[str, str] = field(default_factory=dict)
    """The names that the command line gave versions, by their numbers: `production` by `claims@4`."""
    run: str | None = None
    """The run that this process shares with other workers; None if it runs alone."""
    hide: Callable[[str], str] = str
    """Redacts keys in a text."""
    is_left_out: Callable[[str], bool] = lambda plugin: False
    """Whether a feature's plugin is left out of the session."""
    only_collects: bool = False
    """True under --collect-only: nothing is trained."""
    open_model: OpenModel = no_model
    """Opens an adapter as a model that answers prompts in a role."""
    of_features: dict[str, Any] = field(default_factory=dict)
    """What features keep for the adapters of the session, by their names."""

    @property
    def adapters_folder(self) -> Path:
        """Trained adapters are kept next to the run store, or in `.crucible` where the store is a database server."""
        return files_folder(self.root, self.settings.store) / ADAPTERS

    @property
    def registry_folder(self) -> Path:
        """Weights of registered versions are kept next to the trained adapters, under their hashes."""
        return files_folder(self.root, self.settings.store) / REGISTRY

    @property
    def is_replay(self) -> bool:
        """True when no model is called: the adapter's files may then be missing."""
        return self.shared.cache is not None and self.shared.cache.only
