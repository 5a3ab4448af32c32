"""Builds plans in which every field has a default."""

from __future__ import annotations

from typing import Any

from pytest_crucible.records import Arm, Fingerprint, Plan


def arms_of(*names: str) -> tuple[Arm, ...]:
    """Return arms by name, the candidate first; each is an adapter of its own."""
    return tuple(
        Arm(name=name, role="baseline" if number else "candidate", adapter=name, identity=name)
        for number, name in enumerate(names)
    )


def plan_of(*names: str, n: int = 1, **fields: Any) -> Plan:
    """Return a plan on `n` samples with arms of these names."""
    defaults = {
        "nodeid": "t.py::t", "path": "t.py", "line": 1, "dataset": "d", "dataset_sha256": "d", "planned": n, "selected": n,
        "groups": None, "repeats": 1, "arms": arms_of(*names), "metrics": (), "targets": (), "contrasts": (),
        "open_metrics": True, "fingerprint": Fingerprint(dataset="", function="", metrics="", sampling=""),
    }  # fmt: skip
    return Plan(**{**defaults, **fields})
