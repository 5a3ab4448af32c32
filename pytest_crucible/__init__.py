"""pytest-crucible: eval suites as statistical experiments.

The public names are resolved on first use, so that a pytest run without experiments imports none of them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_crucible import metrics, runs, stats
    from pytest_crucible.backends import Backend, RecordedBackend, ScriptedBackend
    from pytest_crucible.datasets.strategies import from_strategy
    from pytest_crucible.features import cns3, cookbook, training
    from pytest_crucible.features.agents import agents
    from pytest_crucible.features.explanation.numeric import explain
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
    "agents": "features.agents.agents",
    "cns3": "features.cns3",
    "cookbook": "features.cookbook",
    "explain": "features.explanation.numeric.explain",
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
    "agents",
    "cns3",
    "cookbook",
    "explain",
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


class _OrdinaryFinder:
    """Finds this package's modules before pytest does, so that they are loaded from Python's own bytecode.

    pytest rewrites the assert statements of every plugin, into a cache of its own. That cache is missing in a first run, in a
    directory that cannot be written, and with PYTHONDONTWRITEBYTECODE: every session would then compile 270 modules.
    https://docs.pytest.org/en/stable/how-to/writing_plugins.html#assertion-rewriting
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("pytest_crucible.") else None

    @classmethod
    def install(cls) -> None:
        """Put the finder before pytest's own, until `uninstall`."""
        cls.uninstall()
        sys.meta_path.insert(0, cls)

    @classmethod
    def uninstall(cls) -> None:
        """Take the finder away. Idempotent."""
        if cls in sys.meta_path:
            sys.meta_path.remove(cls)


# Here, and not in a module of its own: that one would be rewritten in every session, at 0.4 ms.
if "pytest" in sys.modules:
    _OrdinaryFinder.install()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f"{__name__}.{_HOME[name]}")
    return home if home.__name__.endswith(f".{name}") else getattr(home, name)


def __dir__() -> list[str]:
    return __all__
