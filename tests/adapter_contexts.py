"""A context in which tests open adapters, without a pytest session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.tinker.services import TinkerServices
from pytest_crucible.options import OPTIONS
from pytest_crucible.records import Adapter
from pytest_crucible.records.settings import Settings


def default_settings(**settings: Any) -> Settings:
    """Settings as if no option was given but these."""
    defaults = {option.name: () if option.repeats else option.default for option in OPTIONS}
    return Settings(**{**defaults, **settings})


def context_in(root: Path, *, shared: BackendContext | None = None, **settings: Any) -> AdapterContext:
    """A session that was started in `root`, without Tinker and without anything to train."""
    return AdapterContext(
        root=root,
        invocation_folder=root,
        settings=default_settings(**settings),
        shared=shared or BackendContext(),
        open_user_backend=_open_nothing,
        tinker=_no_tinker,
    )


def _open_nothing(adapter: Adapter) -> None:
    return None


def _no_tinker() -> TinkerServices:
    raise AssertionError("no test with this context uses Tinker")
