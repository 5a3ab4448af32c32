"""Metrics for text, numbers, choices, code, JSON, behaviour and usage, and the decorator that makes a metric of a function.

A name is imported on first use: a suite with one metric imports neither the sandbox nor the patterns of the others.
"""

from __future__ import annotations

from pytest_crucible.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
