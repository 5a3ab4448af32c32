"""What judging needs takes half a second to import: the main thread does that while the first answers are waited for."""

from __future__ import annotations

import importlib
import sys

EVEN_S = 0.0005
"""How long an import may keep the sampling loop waiting, whose latencies are measured; Python's own 5 ms would show in them."""


def import_statistics() -> None:
    """Once; from then on it does nothing."""
    if "pytest_crucible.stats.choose" in sys.modules:
        return
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, EVEN_S))
    try:
        importlib.import_module("pytest_crucible.stats.choose")
    finally:
        sys.setswitchinterval(usual)
