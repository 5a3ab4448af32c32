"""A checkpoint as its service lists it: when it expires, the renderer of its training, and the state beside it."""

from __future__ import annotations

from datetime import datetime

from pytest_crucible.backends.tinker.service import CHECKPOINT, Service
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import ServiceLost, SpecError

RENDERER = "renderer_name"
"""The key of user metadata under which tinker-cookbook writes the renderer that a training used."""


@dataclass(frozen=True, slots=True)
class ListedCheckpoint:
    """The facts that a service lists of a checkpoint."""

    expires: datetime | None = None
    renderer: str = ""
    """The renderer of its training; empty where it is not recorded."""
    state: str = ""
    """Path of the state to resume training from, with the same weights; empty where the service has none."""


def list_checkpoint(service: Service, path: str) -> ListedCheckpoint:
    """Return the facts of a checkpoint; none where the service does not list it, such as the published one of others.

    Raises ServiceLost where the service is gone.
    """
    run, kind, name = path.removeprefix(CHECKPOINT).split("/", 2)
    try:
        listed = service.within("list checkpoints", lambda: service.rest.list_checkpoints(run)).checkpoints
        own = next((each for each in listed if each.checkpoint_id == f"{kind}/{name}"), None)
        if own is None:
            return ListedCheckpoint()
        metadata = dict(getattr(own, "user_metadata", None) or {})  # old versions of the SDK have none
        if RENDERER not in metadata:
            training = service.within("tell of the training run", lambda: service.rest.get_training_run(run))
            metadata = dict(training.user_metadata or {})
    except ServiceLost:
        raise
    except (SpecError, AttributeError):
        return ListedCheckpoint()
    state = f"weights/{name}"
    has_state = any(each.checkpoint_id == state for each in listed)
    return ListedCheckpoint(
        own.expires_at, str(metadata.get(RENDERER, "")), f"{CHECKPOINT}{run}/{state}" if has_state else ""
    )
