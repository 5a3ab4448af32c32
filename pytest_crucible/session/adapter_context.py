"""The context in which adapters are opened, with the session's Tinker services."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.progress import TerminalProgress
from pytest_crucible.session.redaction import key_redactor
from pytest_crucible.session.resources import SHARED_BY_WORKERS
from pytest_crucible.session.settings import draft_settings, read_settings

if TYPE_CHECKING:
    from pytest_crucible.backends.tinker.services import TinkerServices
    from pytest_crucible.store.runs import RunStore


def adapter_context(
    config: pytest.Config, settings: Settings, shared: BackendContext, store: Callable[[], RunStore]
) -> AdapterContext:
    """Return the context of this session's adapters. `store` returns the run store."""
    across = config.stash.get(SHARED_BY_WORKERS, None)
    return AdapterContext(
        root=config.rootpath,
        invocation_folder=config.invocation_params.dir,
        settings=settings,
        shared=shared,
        open_user_backend=lambda adapter: config.hook.pytest_crucible_backend(config=config, adapter=adapter),
        tinker=partial(tinker_services, config),
        progress=TerminalProgress(config),
        store=store,
        typed_names=draft_settings(config).typed_names,
        run=getattr(config, "workerinput", {}).get("crucible_run"),
        node=across.node if across else "",
        hide=key_redactor(config),
        is_left_out=config.pluginmanager.is_blocked,
        only_collects=config.option.collectonly,
    )


# The longest wait for a client where the options set no timeout: a hosted model may have to be loaded first.
OPEN_S = 300.0


def tinker_services(config: pytest.Config) -> TinkerServices:
    """Return the session's Tinker services. Nothing is started before it is used."""
    if _SERVICES not in config.stash:
        # The import loads urllib and ssl, which sessions without Tinker do not need.
        from pytest_crucible.backends.tinker.services import TinkerServices

        settings = read_settings(config)
        services = TinkerServices(
            config.rootpath,
            is_local=settings.tinker != "hosted",
            base=settings.tinker_base or os.environ.get("CRUCIBLE_TINKER_BASE"),
            seed=settings.seed,
            wait_s=settings.timeout or OPEN_S,
            hide=key_redactor(config),
        )
        config.stash[_SERVICES] = services
        config.add_cleanup(services.close)
    return config.stash[_SERVICES]


@contextlib.contextmanager
def reported_errors() -> Iterator[None]:
    """Fail a fixture with one sentence, without a traceback."""
    try:
        yield
    except CrucibleError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


_SERVICES = pytest.StashKey["TinkerServices"]()
