"""Adapters with `backend = "scripted"`: a function of the suite answers. For tests; results are marked simulated."""

from __future__ import annotations

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.options import check_options, required_text
from pytest_crucible.backends import Backend, ScriptedBackend
from pytest_crucible.records import Adapter
from pytest_crucible.records.object_reference import import_function


def open_scripted(adapter: Adapter, context: AdapterContext) -> Backend:
    """Open `script`, a "module:function" that is called with each Request; `latency_s` is optional. Raises SpecError."""
    check_options(adapter, ("script", "latency_s"))
    script = import_function(f"adapter {adapter.name!r} has script", required_text(adapter, "script"))
    return ScriptedBackend(script, latency_s=float(adapter.options.get("latency_s", 0.0)))
