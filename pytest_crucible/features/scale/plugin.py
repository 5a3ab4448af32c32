"""The hooks of runs on many machines."""

from __future__ import annotations
