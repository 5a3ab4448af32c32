"""The context in which adapters are opened, from pytest's configuration."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.backends import Backend
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.records import Adapter
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.progress_lines import TerminalProgress
from pytest_crucible.session.redaction import key_redactor
from pytest_crucible.session.settings import typed_names

if TYPE_CHECKING:
    from pytest_crucible.backends.tinker.services import TinkerServices
    from pytest_crucible.store.runs import RunStore


def adapter_context(
    config: pytest.Config, settings: Settings, shared: BackendContext, store: Callable[[], RunStore]
) -> AdapterContext:
    """Return the context of this session's adapters. `store` returns the run store."""
    return AdapterContext(
        root=config.rootpath,
        invocation_folder=config.invocation_params.dir,
        settings=settings,
        shared=shared,
        open_user_backend=partial(_call_hook, config),
        tinker=partial(_tinker, config),
        progress=TerminalProgress(config),
        store=store,
        typed_names=typed_names(config),
        run=getattr(config, "workerinput", {}).get("crucible_run"),
        hide=key_redactor(config),
        is_left_out=config.pluginmanager.is_blocked,
        only_collects=config.option.collectonly,
    )


def _call_hook(config: pytest.Config, adapter: Adapter) -> Backend | None:
    backend: Backend | None = config.hook.pytest_crucible_backend(config=config, adapter=adapter)
    return backend


def _tinker(config: pytest.Config) -> TinkerServices:
    # The import loads urllib and ssl, which sessions without Tinker do not need.
    from pytest_crucible.session.tinker import tinker_services

    return tinker_services(config)
