"""The Backend protocol, and the backends that need no other package."""

from pytest_crucible.backends.offline import RecordedBackend, ScriptedBackend, load_recorded, recorded_rows
from pytest_crucible.backends.protocol import Backend, KnowsItsSamples

__all__ = ["Backend", "KnowsItsSamples", "RecordedBackend", "ScriptedBackend", "load_recorded", "recorded_rows"]
