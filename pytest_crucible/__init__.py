"""pytest-crucible: eval suites as statistical experiments.

The public names are resolved on first use, so that a pytest run without experiments imports none of them.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_crucible import metrics, runs, stats
    from pytest_crucible.backends import Backend, RecordedBackend, ScriptedBackend
    from pytest_crucible.datasets.strategies import from_strategy
    from pytest_crucible.features import cns3, cookbook, training
    from pytest_crucible.features.judges import judges
    from pytest_crucible.features.provenance import trace
    from pytest_crucible.features.slices import fairness
    from pytest_crucible.metrics import Metric, NotApplicable, metric
    from pytest_crucible.records import Adapter, NoTwin, Reply, Request, Run, Sample, Twin, Verdict
    from pytest_crucible.records.errors import (
        BackendError,
        CrucibleError,
        DatasetError,
        Refused,
        Retryable,
        SpecError,
        StoreError,
    )
    from pytest_crucible.records.outcomes import Detection, Span

_HOME = {
    "Adapter": "records",
    "Backend": "backends",
    "BackendError": "records.errors",
    "CrucibleError": "records.errors",
    "DatasetError": "records.errors",
    "Detection": "records.outcomes",
    "Metric": "metrics",
    "NoTwin": "records",
    "NotApplicable": "metrics",
    "RecordedBackend": "backends",
    "Refused": "records.errors",
    "Reply": "records",
    "Request": "records",
    "Retryable": "records.errors",
    "Run": "records",
    "Sample": "records",
    "ScriptedBackend": "backends",
    "Span": "records.outcomes",
    "SpecError": "records.errors",
    "StoreError": "records.errors",
    "Twin": "records",
    "Verdict": "records",
    "cns3": "features.cns3",
    "cookbook": "features.cookbook",
    "fairness": "features.slices.fairness",
    "from_strategy": "datasets.strategies",
    "judges": "features.judges.judges",
    "metric": "metrics",
    "metrics": "metrics",
    "runs": "runs",
    "stats": "stats",
    "trace": "features.provenance.trace",
    "training": "features.training",
}

__all__ = [
    "Adapter",
    "Backend",
    "BackendError",
    "CrucibleError",
    "DatasetError",
    "Detection",
    "Metric",
    "NoTwin",
    "NotApplicable",
    "RecordedBackend",
    "Refused",
    "Reply",
    "Request",
    "Retryable",
    "Run",
    "Sample",
    "ScriptedBackend",
    "Span",
    "SpecError",
    "StoreError",
    "Twin",
    "Verdict",
    "cns3",
    "cookbook",
    "fairness",
    "from_strategy",
    "judges",
    "metric",
    "metrics",
    "runs",
    "stats",
    "trace",
    "training",
]


if "pytest" in sys.modules:
    from pytest_crucible import no_assert_rewriting

    no_assert_rewriting.install()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f"{__name__}.{_HOME[name]}")
    return home if home.__name__.endswith(f".{name}") else getattr(home, name)


def __dir__() -> list[str]:
    return __all__
