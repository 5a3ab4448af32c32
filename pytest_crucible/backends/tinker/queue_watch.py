"""The queue state of the SDK's clients: a service may let requests wait, for its capacity or a rate limit."""

from __future__ import annotations

from typing import Any

from pytest_crucible.backends.queue_states import QueueState

_CAUSES = {"paused_rate_limit": "rate limit", "paused_capacity": "capacity"}


def watch_queue(client: Any, service: str, queue: QueueState) -> None:
    """Report the queue state of a SamplingClient or TrainingClient to `queue` from now on."""
    # A SamplingClient is its own observer; a TrainingClient has one, which is private to the SDK. Without one it is unwatched.
    observer = getattr(client, "_queue_state_logger", client)
    inner = getattr(observer, "on_queue_state_change", None)
    if inner is None:
        return

    def on_queue_state_change(state: Any, *reason: Any) -> None:
        queue.report(describe_state(service, getattr(state, "value", str(state)), *reason))
        inner(state, *reason)

    observer.on_queue_state_change = on_queue_state_change


def describe_state(service: str, state: str, reason: str | None = None) -> str:
    """Return why requests wait, empty if they do not.

    >>> describe_state("Tinker", "paused_capacity", "GPUs are busy"), describe_state("Tinker", "active")
    ('Tinker is paused: capacity (GPUs are busy)', '')
    """
    if state == "active":
        return ""
    more = f" ({reason})" if reason else ""
    return f"{service} is paused: {_CAUSES.get(state, state)}{more}"
