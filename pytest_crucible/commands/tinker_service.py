"""The Tinker service of a project, for commands: as a session of its tests would open it, without pytest."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.records.redaction import hider
from pytest_crucible.runs.run_store import find_configuration

if TYPE_CHECKING:
    from pytest_crucible.backends.tinker.services import TinkerServices

# The longest wait for a hosted model, which may have to be loaded first.
WAIT_S = 300.0


def configured_service(configuration: Mapping[str, Any]) -> str:
    """Return crucible_tinker of pytest's configuration: local or hosted."""
    return str(configuration.get("crucible_tinker") or "local")


def project_services(root: Path, *, service: str = "", secrets: Iterable[str] = ()) -> TinkerServices:
    """Return the services of the project in `root`; nothing is started before it is used.

    `service` is local or hosted, empty for that of the configuration. `secrets` never appear in messages.
    """
    from pytest_crucible.backends.tinker.services import TinkerServices

    configuration = find_configuration(root)[1]
    return TinkerServices(
        root,
        is_local=(service or configured_service(configuration)) != "hosted",
        base=configuration.get("crucible_tinker_base") or os.environ.get("CRUCIBLE_TINKER_BASE"),
        seed=0,
        wait_s=WAIT_S,
        hide=Redaction(secrets),
    )


class Redaction:
    """Removes keys from texts: those that are given, and those that a service learns later."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = set(secrets)

    def __call__(self, text: str) -> str:
        return hider(self._secrets)(text)

    def learn(self, *keys: str) -> None:
        """Also redact these keys in all later messages."""
        self._secrets.update(keys)
