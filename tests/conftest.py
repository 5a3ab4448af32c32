"""What all tests share: pytester, and an environment that cannot change what they see."""

import os

import pytest

pytest_plugins = ["pytester"]

FOREIGN = ("OPENAI_API_KEY", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")
KEPT = {"CRUCIBLE_DATA", "CRUCIBLE_REFERENCE"}
"""Where the tests' own data is."""


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if (name.startswith("CRUCIBLE_") and name not in KEPT) or name in FOREIGN or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
