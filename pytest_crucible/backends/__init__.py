"""The Backend protocol, and the backends that need no other package."""

from pytest_crucible.backends.protocol import Backend, KnowsItsSamples
from pytest_crucible.backends.recorded import RecordedBackend, load_recorded, recorded_rows
from pytest_crucible.backends.scripted import ScriptedBackend

__all__ = ["Backend", "KnowsItsSamples", "RecordedBackend", "ScriptedBackend", "load_recorded", "recorded_rows"]
