"""The hooks of provenance."""

from __future__ import annotations
