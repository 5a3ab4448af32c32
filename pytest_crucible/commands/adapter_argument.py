"""An adapter as a command's argument, opened without a pytest session."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.config import find_adapter, read_adapters
from pytest_crucible.adapters.context import REGISTRY, AdapterContext, files_folder
from pytest_crucible.adapters.guards import Guards
from pytest_crucible.adapters.kinds import kind_of
from pytest_crucible.adapters.open_backend import open_backend, prepare_adapter
from pytest_crucible.adapters.opened_arm import describe_arm
from pytest_crucible.adapters.untrained import Untrained, explain_untrained
from pytest_crucible.adapters.versions import changed_weights, find_version, is_version, version_adapter
from pytest_crucible.backends import Backend
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.protocol import ScoresPrompts
from pytest_crucible.commands.tinker_service import project_services
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import import_from_here
from pytest_crucible.records.registry import Version
from pytest_crucible.records.secret_settings import secrets_in
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.records.settings import Settings
from pytest_crucible.runs.run_store import existing_store


class Adapters:
    """Opens adapters of this directory's configuration, and closes what they have started."""

    def __init__(self, root: Path, store: str) -> None:
        """`store` has the registered versions."""
        # Recipes and scripts lie here, beside the tests.
        import_from_here()
        self._root, self._store = root, store
        self._configured = read_adapters(root)
        self._closers: list[Callable[[], object]] = []

    def open_scorer(self, name: str, option: str) -> ScoresPrompts:
        """Return the backend of an adapter, or of a registered version. Raises SpecError for one that cannot score prompts."""
        version = self._find_version(name)
        adapter = find_adapter(name, self._configured) if version is None else self._version_adapter(version)
        kind = kind_of(adapter)
        typed_in = None if name in self._configured or version is not None else Path.cwd()
        backend: Any = None if kind.members or "seeds" in adapter.options else self._open(adapter, typed_in)
        if isinstance(backend, Untrained):
            raise SpecError(explain_untrained([backend.recipe]))
        if not isinstance(backend, ScoresPrompts):
            raise SpecError(
                f"{option}: adapter {name!r} ({adapter.backend}) cannot score prompts; use a backend with prompt logprobs"
            )
        # An identity with guards names them too, and they do not take part here.
        if version is not None and not adapter.guard and self._identify(adapter, backend) != version.identity:
            raise changed_weights(version.name)
        return backend

    def close(self) -> None:
        """Stop services that were started."""
        for close in self._closers:
            close()

    def _find_version(self, name: str) -> Version | None:
        """Return the registered version that a name means; None for the name of another adapter. Raises SpecError."""
        if name in self._configured or not is_version(name):
            return None
        with existing_store(self._store) as store:
            return find_version(store, name)

    def _version_adapter(self, version: Version) -> Adapter:
        return version_adapter(version, files_folder(self._root, self._store) / REGISTRY, self._root)

    def _identify(self, adapter: Adapter, backend: Any) -> str:
        return describe_arm(adapter, "candidate", backend, root=self._root, trained_on={}).identity

    def _open(self, adapter: Adapter, typed_in: Path | None) -> Backend:
        context = self._context()
        return open_backend(prepare_adapter(adapter, context, self._configured, typed_in), context, None)

    def _context(self) -> AdapterContext:
        return AdapterContext(
            root=self._root,
            invocation_folder=Path.cwd(),
            settings=_default_settings(),
            shared=BackendContext(),
            open_user_backend=lambda adapter: None,
            tinker=self._tinker,
            display=_no_display,
            guards=Guards(self._root),
        )

    def _tinker(self) -> Any:
        secrets = secrets_in(to_plain(list(self._configured.values())), os.environ)
        services = project_services(self._root, secrets=secrets)
        self._closers.append(services.close)
        return services


def _default_settings() -> Settings:
    # Imports pytest, which the program's other commands do without.
    from pytest_crucible.options import OPTIONS

    defaults: dict[str, Any] = {option.name: () if option.repeats else option.default for option in OPTIONS}
    return Settings(**defaults)


def _no_display(recipe: Any) -> Any:
    raise SpecError(f"adapter {recipe.adapter!r} is not trained yet: run pytest --crucible-train first")
