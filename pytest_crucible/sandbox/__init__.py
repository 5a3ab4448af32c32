"""Runs programs that a model wrote, each in its own process that the kernel confines."""

from pytest_crucible.sandbox.consent import NotAllowed, allow, is_allowed, require, withdraw
from pytest_crucible.sandbox.containment import Containment, containment
from pytest_crucible.sandbox.pool import Sandbox, SandboxBroken, close_shared, shared
from pytest_crucible.sandbox.results import Limits, Result, Status
from pytest_crucible.sandbox.submission import Submission

__all__ = [
    "Containment",
    "Limits",
    "NotAllowed",
    "Result",
    "Sandbox",
    "SandboxBroken",
    "Status",
    "Submission",
    "allow",
    "close_shared",
    "containment",
    "is_allowed",
    "require",
    "shared",
    "withdraw",
]
