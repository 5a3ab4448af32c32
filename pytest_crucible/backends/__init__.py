"""Who answers: the Backend protocol, and the backends that need nothing but this package."""

from pytest_crucible.backends.protocol import Backend, Listed
from pytest_crucible.backends.recorded import RecordedBackend, recorded, recorded_rows
from pytest_crucible.backends.scripted import ScriptedBackend

__all__ = ["Backend", "Listed", "RecordedBackend", "ScriptedBackend", "recorded", "recorded_rows"]
