"""Runs programs that a model wrote, each in its own process that the kernel confines."""

from pytest_crucible.sandbox.confinement import Containment, containment
from pytest_crucible.sandbox.pool import (
    Limits,
    NotAllowed,
    Result,
    Sandbox,
    SandboxBroken,
    Status,
    Submission,
    allow,
    close_shared,
    is_allowed,
    require,
    shared,
    withdraw,
)

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
