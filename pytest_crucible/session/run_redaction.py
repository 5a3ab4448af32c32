"""The key of hashes and the numbers of placeholders that all processes of a run share."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_crucible.detectors.replacements import RunRedaction

_VALUES = "values"
PASSED = "crucible_redaction"
"""What a worker is passed: the key and the folder."""


def pass_redaction(config: pytest.Config) -> dict[str, str]:
    """Under xdist: return the state with which all workers redact alike. The key is drawn for each run and never stored."""
    if _SHARED not in config.stash:
        folder = tempfile.mkdtemp(prefix="crucible-numbers-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        (Path(folder) / _VALUES).mkdir(mode=0o700)
        config.stash[_SHARED] = {"key": os.urandom(32).hex(), "folder": folder}
    return config.stash[_SHARED]


def run_redaction(config: pytest.Config) -> RunRedaction:
    """Return the common state of this run's redactions."""
    from pytest_crucible.detectors.replacements import RunRedaction, SharedNumbers, SharedValues

    if _REDACTION not in config.stash:
        worker = getattr(config, "workerinput", {})
        shared = worker.get(PASSED) or (pass_redaction(config) if config.pluginmanager.hasplugin("dsession") else None)
        if shared is None:
            config.stash[_REDACTION] = RunRedaction()
        elif not Path(shared["folder"]).is_dir():
            # A worker on another machine numbers its placeholders by itself.
            config.stash[_REDACTION] = RunRedaction(bytes.fromhex(shared["key"]), process=worker["workerid"])
        else:
            key, folder = bytes.fromhex(shared["key"]), Path(shared["folder"])
            values = SharedValues(folder / _VALUES, key)
            config.stash[_REDACTION] = RunRedaction(key, SharedNumbers(folder, key), values)
    return config.stash[_REDACTION]


_SHARED = pytest.StashKey[dict[str, str]]()
_REDACTION = pytest.StashKey["RunRedaction"]()
