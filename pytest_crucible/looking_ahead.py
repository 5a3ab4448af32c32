"""What judges takes half a second to import: the main thread does that while the first answers are waited for."""

from __future__ import annotations

import importlib
import sys

NEEDED = ("pytest_crucible.closing", "pytest_crucible.stats.choose")
EVEN_S = 0.0005
"""How long an import may keep the sampling loop waiting, whose latencies are measured; Python's own 5 ms would show in them."""


def import_what_judges() -> None:
    """Once; from then on it does nothing."""
    if all(name in sys.modules for name in NEEDED):
        return
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, EVEN_S))
    try:
        for name in NEEDED:
            importlib.import_module(name)
    finally:
        sys.setswitchinterval(usual)
