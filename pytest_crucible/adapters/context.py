"""The session as adapters see it when they are opened and trained, without pytest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_crucible.backends import Backend
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.settings import DEFAULT_STORE, Settings

if TYPE_CHECKING:
    from pytest_crucible.backends.tinker.services import TinkerServices
    from pytest_crucible.metrics.models.scorers import Judge
    from pytest_crucible.store.runs import RunStore


class ProgressLines(Protocol):
    """Shows what a session prepares before it sends requests, line by line."""

    @property
    def is_worker(self) -> bool:
        """True in a worker of xdist, which shares the terminal with others."""
        ...

    @property
    def is_watched(self) -> bool:
        """True if the last line can be overwritten."""
        ...

    @property
    def verbosity(self) -> int: ...

    def write(self, line: str) -> None:
        """Write a line of its own, at any position of the cursor. Called in any thread."""

    def overwrite(self, text: str) -> None:
        """Replace the line of progress, if the lines are watched; with an empty text, clear it."""


class NoProgress:
    """Shows nothing."""

    is_worker, is_watched, verbosity = False, False, 0

    def write(self, line: str) -> None: ...

    def overwrite(self, text: str) -> None: ...


ADAPTERS = "adapters"


def files_folder(root: Path, store: str) -> Path:
    """Return the folder for the files of a project: that of its run store, or `.crucible` for a database server."""
    # A database URL has no folder for files.
    return (root / (DEFAULT_STORE if "://" in store else store)).parent


def no_store() -> RunStore:
    """Raise SpecError."""
    raise SpecError("no run store exists here")


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
    progress: ProgressLines = field(default_factory=NoProgress)
    """Shows what is prepared, such as a training."""
    store: Callable[[], RunStore] = no_store
    """Returns the run store; raises SpecError and StoreError."""
    typed_names: Mapping[str, str] = field(default_factory=dict)
    """The names of the command line, by those that they mean: `production` by `claims@4`."""
    run: str | None = None
    """The run that this process shares with other workers; None if it runs alone."""
    node: str = ""
    """The address of this machine among the nodes of a cluster; empty without one."""
    hide: Callable[[str], str] = str
    """Redacts keys in a text."""
    is_left_out: Callable[[str], bool] = lambda plugin: False
    """Whether a feature's plugin is left out of the session."""
    only_collects: bool = False
    """True under --collect-only: nothing is prepared."""
    open_model: OpenModel = no_model
    """Opens an adapter as a model that answers prompts in a role."""
    of_features: dict[str, Any] = field(default_factory=dict)
    """What features keep for the adapters of the session, by their names."""

    @property
    def adapters_folder(self) -> Path:
        """Trained adapters are kept next to the run store, or in `.crucible` where the store is a database server."""
        return files_folder(self.root, self.settings.store) / ADAPTERS

    @property
    def is_replay(self) -> bool:
        """True when no model is called: the adapter's files may then be missing."""
        return self.shared.cache is not None and self.shared.cache.only
