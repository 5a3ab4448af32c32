"""An adapter as a command's argument, opened without a pytest session."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.config import find_adapter, read_adapters
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.guards import Guards
from pytest_crucible.adapters.kinds import kind_of
from pytest_crucible.adapters.open_backend import open_backend, prepare_adapter
from pytest_crucible.adapters.untrained import Untrained, explain_untrained
from pytest_crucible.backends import Backend
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.protocol import ScoresPrompts
from pytest_crucible.commands.tinker_service import project_services
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.object_reference import import_from_here
from pytest_crucible.records.secret_settings import secrets_in
from pytest_crucible.records.serialize import to_plain
from pytest_crucible.records.settings import Settings


class Adapters:
    """Opens adapters of this directory's configuration, and closes what they have started."""

    def __init__(self, root: Path) -> None:
        # Recipes and scripts lie here, beside the tests.
        import_from_here()
        self._root = root
        self._configured = read_adapters(root)
        self._closers: list[Callable[[], object]] = []

    def open_scorer(self, name: str, option: str) -> ScoresPrompts:
        """Return an adapter's backend, which scores prompts. Raises SpecError for one that cannot."""
        adapter = find_adapter(name, self._configured)
        kind = kind_of(adapter)
        backend: Any = None if kind.members or "seeds" in adapter.options else self._open(adapter, name)
        if isinstance(backend, Untrained):
            raise SpecError(explain_untrained([backend.recipe]))
        if not isinstance(backend, ScoresPrompts):
            raise SpecError(
                f"{option}: adapter {name!r} ({adapter.backend}) cannot score prompts; use a backend with prompt logprobs"
            )
        return backend

    def close(self) -> None:
        """Stop services that were started."""
        for close in self._closers:
            close()

    def _open(self, adapter: Adapter, name: str) -> Backend:
        context = self._context()
        typed_in = None if name in self._configured else Path.cwd()
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
