"""The Tinker services of one pytest session: made from its options, closed when pytest exits."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

from pytest_crucible.backends.tinker.services import TinkerServices
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.session.redaction import key_redactor
from pytest_crucible.session.settings import read_settings

# The longest wait for a client where the options set no timeout: a hosted model may have to be loaded first.
OPEN_S = 300.0


def tinker_services(config: pytest.Config) -> TinkerServices:
    """Return the session's Tinker services. Nothing is started before it is used."""
    if _SERVICES not in config.stash:
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


_SERVICES = pytest.StashKey[TinkerServices]()
