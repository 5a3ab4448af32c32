"""pytest-crucible: eval suites as statistical experiments.

The public names are resolved on first use, so that a pytest run without experiments imports none of them.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_crucible import cns3, metrics, stats
    from pytest_crucible.backends import Backend, RecordedBackend, ScriptedBackend
    from pytest_crucible.errors import (
        BackendError,
        CrucibleError,
        DatasetError,
        Refused,
        Retryable,
        SpecError,
        StoreError,
    )
    from pytest_crucible.metrics import Metric, NotApplicable, metric
    from pytest_crucible.records import Adapter, Reply, Request, Run, Sample, Verdict

_HOME = {
    "Adapter": "records",
    "Backend": "backends",
    "BackendError": "errors",
    "CrucibleError": "errors",
    "DatasetError": "errors",
    "Metric": "metrics",
    "NotApplicable": "metrics",
    "RecordedBackend": "backends",
    "Refused": "errors",
    "Reply": "records",
    "Request": "records",
    "Retryable": "errors",
    "Run": "records",
    "Sample": "records",
    "ScriptedBackend": "backends",
    "SpecError": "errors",
    "StoreError": "errors",
    "Verdict": "records",
    "cns3": "",
    "metric": "metrics",
    "metrics": "",
    "stats": "",
}

__all__ = [
    "Adapter",
    "Backend",
    "BackendError",
    "CrucibleError",
    "DatasetError",
    "Metric",
    "NotApplicable",
    "RecordedBackend",
    "Refused",
    "Reply",
    "Request",
    "Retryable",
    "Run",
    "Sample",
    "ScriptedBackend",
    "SpecError",
    "StoreError",
    "Verdict",
    "cns3",
    "metric",
    "metrics",
    "stats",
]


if "pytest" in sys.modules:
    from pytest_crucible import unrewritten

    unrewritten.install()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    if not home:
        return importlib.import_module(f"{__name__}.{name}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return __all__
